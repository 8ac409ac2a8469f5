//! An end of the path: an interface, in a network namespace.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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
}
