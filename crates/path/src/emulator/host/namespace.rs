//! The network namespace of an end.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::end::End;
use super::error::{Error, What};

/// Opens a packet socket in the namespace of an end, which receives nothing yet, and the
/// statistics of the interfaces there (`/proc/net/dev`). Both stay in that namespace, whoever uses them.
pub fn open(end: &End) -> Result<(OwnedFd, File), Error> {
    let open = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        Ok((socket, File::open("/proc/thread-self/net/dev")?))
    };
    let fail = |error: io::Error| What::Socket.error(end, error);
    let Some(namespace) = &end.namespace else { return open().map_err(fail) };
    let namespace = find(namespace)?;
    // A namespace belongs to a thread: this one enters it and does not return.
    let there = || {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), kind)
            .map_err(|error| What::Namespace.error(end, error))?;
        open().map_err(fail)
    };
    thread::scope(|scope| scope.spawn(there).join().expect("it does not panic"))
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
    fn a_namespace_that_is_not_there_is_named() {
        let end: End = "et-no-such-namespace:eth0".parse().unwrap();
        let error = open(&end).unwrap_err().to_string();
        assert!(error.contains("'et-no-such-namespace' (/run/netns/et-no"), "{error}");
    }
}
