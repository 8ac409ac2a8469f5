//! An end of the path: an interface, in a network namespace.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;
use std::thread;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::error::{Error, What};

/// An interface, in this or in another network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Its name, its path or the id of a process in it; none for the current one.
    pub namespace: Option<String>,
    /// The interface's name.
    pub interface: String,
}

/// An end that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no end of a path: {1}; write IFACE or NETNS:IFACE, such as left:veth0")]
pub struct NoEnd(String, &'static str);

/// IFNAMSIZ, including the terminating zero.
pub(super) const LONGEST_NAME: usize = 16;

impl FromStr for End {
    type Err = NoEnd;

    fn from_str(text: &str) -> Result<Self, NoEnd> {
        let refuse = |why| Err(NoEnd(text.to_owned(), why));
        let (namespace, interface) = match text.rsplit_once(':') {
            Some(("", _)) => return refuse("the namespace has no name"),
            Some((namespace, interface)) => (Some(namespace.to_owned()), interface),
            None => (None, text),
        };
        match interface.len() {
            0 => refuse("the interface has no name"),
            LONGEST_NAME.. => refuse("names of interfaces have up to 15 characters"),
            _ => Ok(Self { namespace, interface: interface.to_owned() }),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}:{}", self.interface),
            None => f.write_str(&self.interface),
        }
    }
}

impl End {
    /// Opens a packet socket in its namespace, which receives nothing yet, and the statistics of
    /// the interfaces there (`/proc/net/dev`). Both stay in that namespace, whoever uses them.
    pub(super) fn open(&self) -> Result<(OwnedFd, File), Error> {
        let open = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
            Ok((socket, File::open("/proc/thread-self/net/dev")?))
        };
        let fail = |error: io::Error| What::Socket.error(self, error);
        let Some(namespace) = &self.namespace else { return open().map_err(fail) };
        let namespace = find(namespace)?;
        // A namespace belongs to a thread: this one enters it and does not return.
        let there = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind)
                .map_err(|error| What::Namespace.error(self, error))?;
            open().map_err(fail)
        };
        thread::scope(|scope| scope.spawn(there).join().expect("it does not panic"))
    }
}

fn find(name: &str) -> Result<File, Error> {
    let mut tried = match name.contains('/') {
        true => name.to_owned(),
        false => format!("/run/netns/{name}"),
    };
    let mut found = File::open(&tried);
    if found.is_err() && name.bytes().all(|it| it.is_ascii_digit()) {
        tried = format!("/proc/{name}/ns/net");
        found = File::open(&tried);
    }
    found.map_err(|error| Error::NoNamespace { namespace: name.to_owned(), tried, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_with_and_without_a_namespace() {
        let end = |namespace: Option<&str>, interface: &str| End {
            namespace: namespace.map(str::to_owned),
            interface: interface.to_owned(),
        };
        for (text, expected) in [
            ("veth0", end(None, "veth0")),
            ("left:veth0", end(Some("left"), "veth0")),
            ("/proc/17/ns/net:eth0", end(Some("/proc/17/ns/net"), "eth0")),
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()));
            assert_eq!(expected.to_string(), text);
        }
        for (text, why) in [
            ("", "the interface has no name"),
            ("left:", "the interface has no name"),
            (":veth0", "the namespace has no name"),
            ("an-interface-too-long", "up to 15"),
        ] {
            let error = text.parse::<End>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let end: End = "et-no-such-namespace:eth0".parse().unwrap();
        let error = end.open().unwrap_err().to_string();
        assert!(error.contains("'et-no-such-namespace' (/run/netns/et-no"), "{error}");
    }
}
