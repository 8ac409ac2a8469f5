//! Two hosts and what is between them: network namespaces that are there as long as a test.

// Each test program uses a part of it.
#![allow(dead_code)]

pub mod emulator;
pub mod gro;
pub mod udp;

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// How long anything may take on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace of the three.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The host that sends: 10.99.0.1 and fd99::1.
    Left,
    /// Where the path is: `a` leads to the left, `b` to the right.
    Middle,
    /// The host that receives: 10.99.0.2 and fd99::2.
    Right,
}

/// Three namespaces. Tests that measure have the machine for themselves, one at a time.
pub struct Net {
    number: u32,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Net {
    /// The test is skipped where they cannot be made.
    pub fn new(mtu: u32) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        if !rustix::process::geteuid().is_root() {
            skip!("root, for network namespaces");
        }
        if Command::new("ip").arg("-V").stdout(Stdio::null()).status().is_err() {
            skip!("ip, of iproute2");
        }
        let net = Self { number: NUMBER.fetch_add(1, Ordering::Relaxed), _alone: alone };
        let [left, middle, right] =
            [Place::Left, Place::Middle, Place::Right].map(|it| net.name(it));
        if !succeeds(&format!("netns add {left}")) {
            skip!("CAP_SYS_ADMIN, for network namespaces");
        }
        for command in [
            format!("netns add {middle}"),
            format!("netns add {right}"),
            format!(
                "link add eth netns {left} mtu {mtu} type veth peer name a netns {middle} mtu {mtu}"
            ),
            format!(
                "link add eth netns {right} mtu {mtu} type veth peer name b netns {middle} mtu {mtu}"
            ),
            format!("-n {left} addr add 10.99.0.1/24 dev eth"),
            format!("-n {right} addr add 10.99.0.2/24 dev eth"),
            format!("-n {left} addr add fd99::1/64 dev eth nodad"),
            format!("-n {right} addr add fd99::2/64 dev eth nodad"),
            format!("-n {left} link set dev eth up"),
            format!("-n {right} link set dev eth up"),
            format!("-n {middle} link set dev a up"),
            format!("-n {middle} link set dev b up"),
        ] {
            assert!(succeeds(&command), "ip {command}");
        }
        net.wait_for_links();
        net
    }

    /// A link is up a little after it was told to be.
    fn wait_for_links(&self) {
        let until = Instant::now() + PATIENCE;
        while self.links(Place::Middle).matches("state UP").count() < 2 {
            assert!(Instant::now() < until, "{}", self.links(Place::Middle));
        }
    }

    /// The name of a namespace.
    pub fn name(&self, place: Place) -> String {
        let letter = match place {
            Place::Left => 'l',
            Place::Middle => 'm',
            Place::Right => 'r',
        };
        format!("et-{}-{}{letter}", std::process::id(), self.number)
    }

    /// Does something there. What is made there stays there.
    pub fn within<T: Send>(&self, place: Place, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(place))).unwrap();
        let there = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        thread::scope(|scope| scope.spawn(there).join()).unwrap()
    }

    /// The ends of a path between the hosts.
    pub fn ends(&self) -> [String; 2] {
        ["a", "b"].map(|interface| format!("{}:{interface}", self.name(Place::Middle)))
    }

    /// Changes something in a namespace by `ip`.
    pub fn ip(&self, place: Place, command: &str) {
        assert!(self.can(place, command), "ip {command} at the {place:?}");
    }

    /// The same; whether it could be.
    pub fn can(&self, place: Place, command: &str) -> bool {
        succeeds(&format!("-n {} {command}", self.name(place)))
    }

    /// What `ip` says of the interfaces there.
    pub fn links(&self, place: Place) -> String {
        let name = self.name(place);
        let output = Command::new("ip").args(["-n", &name, "-d", "link"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for place in [Place::Left, Place::Middle, Place::Right] {
            let _ = Command::new("ip")
                .args(["netns", "del", &self.name(place)])
                .stderr(Stdio::null())
                .status();
        }
    }
}

fn succeeds(command: &str) -> bool {
    Command::new("ip").args(command.split(' ')).status().is_ok_and(|status| status.success())
}
