//! Through a router that translates addresses, and whose next link carries less.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::session::client::Request;
use eigentime_bandwidth::session::message::Direction;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::{Running, Setup, refusal, train};

/// A client, a router and a server, each a network of its own; they go with this.
struct Networks(String);

impl Networks {
    fn new() -> Result<Self, String> {
        let name = format!("et-{}", std::process::id());
        let networks = Self(name.clone());
        let [c, r, s] = ["c", "r", "s"].map(|it| format!("{name}{it}"));
        for line in [
            format!("ip netns add {c}"),
            format!("ip netns add {r}"),
            format!("ip netns add {s}"),
            format!("ip link add inside netns {r} type veth peer name eth0 netns {c}"),
            format!("ip link add outside netns {r} mtu 1400 type veth peer name eth0 netns {s}"),
            format!("ip -n {c} addr add 10.99.1.2/24 dev eth0"),
            format!("ip -n {c} link set eth0 up"),
            format!("ip -n {c} route add default via 10.99.1.1"),
            format!("ip -n {r} addr add 10.99.1.1/24 dev inside"),
            format!("ip -n {r} addr add 10.99.2.1/24 dev outside"),
            format!("ip -n {r} link set inside up"),
            format!("ip -n {r} link set outside up"),
            // The server's own link carries more: what passes has to be found out.
            format!("ip -n {s} link set eth0 mtu 1500"),
            format!("ip -n {s} addr add 10.99.2.2/24 dev eth0"),
            format!("ip -n {s} link set eth0 up"),
            format!("ip netns exec {r} sysctl -qw net.ipv4.ip_forward=1"),
            format!("ip netns exec {r} iptables -t nat -A POSTROUTING -o outside -j MASQUERADE"),
        ] {
            let words: Vec<_> = line.split(' ').collect();
            let done = Command::new(words[0]).args(&words[1..]).output();
            let done = done.map_err(|why| format!("{}: {why}", words[0]))?;
            // What a machine may lack; a link that cannot be made is another matter.
            let may_lack = line.contains("netns add") || line.contains("iptables");
            assert!(done.status.success() || may_lack, "'{line}': {done:?}");
            if !done.status.success() {
                return Err(format!("'{line}': {}", String::from_utf8_lossy(&done.stderr).trim()));
            }
        }
        Ok(networks)
    }

    /// In the network of this name.
    fn within<T: Send>(&self, which: &str, what: impl FnOnce() -> T + Send) -> T {
        let name = File::open(format!("/run/netns/{}{which}", self.0)).unwrap();
        thread::scope(|scope| {
            let there = scope.spawn(move || {
                move_into_link_name_space(name.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                what()
            });
            there.join().unwrap()
        })
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for which in ["c", "r", "s"] {
            // One that could not be made cannot be removed.
            let _ =
                Command::new("ip").args(["netns", "del", &format!("{}{which}", self.0)]).output();
        }
    }
}

#[test]
fn sessions_pass_through_nat_and_find_the_longest_packet() {
    let networks = match Networks::new() {
        Ok(networks) => networks,
        Err(why) => skip!("root, network namespaces, ip and iptables with masquerade: {why}"),
    };
    let server =
        networks.within("s", || Running::new(Setup { listen: "[::]:0", ..Setup::default() }));
    let known = eigentime_bandwidth::session::client::Server {
        host: "10.99.2.2".to_owned(),
        ..server.known()
    };
    for direction in [Direction::Up, Direction::Down] {
        networks.within("c", || {
            let mut path =
                crate::support::connect(&known, Request { direction, ..Request::default() })
                    .unwrap();
            assert_eq!(path.seen_as().ip().to_string(), "10.99.2.1", "the router's address");
            assert_eq!(path.bounds().bytes, 1400, "{direction:?}");
            assert_eq!(path.send(&train(20, 1400, 50.0)).unwrap().arrived.len(), 20);
            drop(path);
            let request = Request { direction, bytes: Some(1500), ..Request::default() };
            let why = refusal(crate::support::connect(&known, request));
            // Which of the two depends on whether the router told this host, before, what it takes.
            let either = ["do not pass: 1400 bytes do", "the route that they leave by takes 1400"];
            assert!(why.starts_with("packets of 1500 bytes "), "{why}");
            assert!(either.iter().any(|it| why.contains(it)), "{why}");
        });
    }
}
