//! The tested interfaces and their tests: one file per kind of interface, each with its part of the
//! table.

mod clocks;
mod descriptors;
mod devices;
mod futexes;
mod kernel_vdso;
mod messages;
mod processes;
mod rings;
pub mod sets;
mod sleeps;
mod sockets;
mod stamps;
mod timens;
mod timerfds;
mod timers;

use std::io;

use crate::bench::{Answer, Bench, Ends};
use crate::interface::Interface;
use crate::timelines::{NS_PER_MS, NS_PER_S, Under};

pub use clocks::WALL;
pub use timens::print_clocks;

/// A part of the table, under one heading.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The heading.
    pub name: &'static str,
    /// Its lines.
    pub interfaces: &'static [Interface],
}

/// The table.
pub const GROUPS: [Group; 14] = [
    Group { name: "reads", interfaces: clocks::INTERFACES },
    Group { name: "sleeps", interfaces: sleeps::INTERFACES },
    Group { name: "waits for descriptors", interfaces: descriptors::INTERFACES },
    Group { name: "waits for messages", interfaces: messages::INTERFACES },
    Group { name: "futexes", interfaces: futexes::INTERFACES },
    Group { name: "completions", interfaces: rings::INTERFACES },
    Group { name: "timers", interfaces: timers::INTERFACES },
    Group { name: "timer descriptors", interfaces: timerfds::INTERFACES },
    Group { name: "sockets", interfaces: sockets::INTERFACES },
    Group { name: "terminals, keys, devices", interfaces: devices::INTERFACES },
    Group { name: "stamps of the kernel", interfaces: stamps::INTERFACES },
    Group { name: "processes", interfaces: processes::INTERFACES },
    Group { name: "the kernel's timens cases", interfaces: timens::INTERFACES },
    Group { name: "setting the clock", interfaces: sets::INTERFACES },
];

/// All lines, with their headings. Their positions in this order are their numbers, inside and
/// outside the timelines.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Interface)> {
    GROUPS.iter().flat_map(|group| group.interfaces.iter().map(|one| (group.name, one)))
}

/// The timelines in which time passes.
const EVERYWHERE: Under = Under::MOVING.and(Under::NAMESPACE);
/// The name of CPU time in `NOT_VIRTUALIZED`.
const CPU: &str = "CPU-time clocks";
/// The name of other timeouts in `NOT_VIRTUALIZED`.
const HOST_TIMEOUTS: &str = "VTIME of terminals, SO_LINGER, keyctl timeouts, /dev/rtc";
/// The length of waits on host time.
const HOST_WAIT: i64 = 200 * NS_PER_MS;
/// The number of ticks of a periodic timer in a wait.
const TICKS: i64 = 4;
/// The setting of a timer that is only queried for its remaining time.
const LONG: i64 = 100 * NS_PER_S;

/// Makes a wait of `ns` that is claimed to be on host time.
fn host_wait(
    bench: &Bench,
    ns: i64,
    ends: Ends,
    call: impl FnOnce(i64) -> io::Result<i64>,
) -> Answer {
    bench.timed(libc::CLOCK_MONOTONIC, ns, ends, |_| call(ns))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::interface::{Claim, Test};

    #[test]
    fn every_translated_call_is_tried() {
        let tried: HashSet<&str> = all().flat_map(|(_, one)| one.rows).copied().collect();
        let rows: HashSet<&str> = eigentime_calls::ROWS
            .iter()
            .filter(|row| row.call.kind != eigentime_calls::Kind::Block)
            .map(|row| row.name)
            .collect();
        let untried: Vec<_> = rows.difference(&tried).collect();
        assert!(untried.is_empty(), "rows of the table without a probe: {untried:?}");
        let unknown: Vec<_> = tried.difference(&rows).collect();
        assert!(unknown.is_empty(), "probes of no row of the table: {unknown:?}");
    }

    #[test]
    fn everything_not_virtualized_has_a_line() {
        let named: HashSet<&str> = all()
            .filter_map(|(_, one)| match one.claim {
                Claim::Host(listed) | Claim::Alone(listed) => Some(listed),
                Claim::Follows | Claim::Unlisted(_) => None,
            })
            .collect();
        let listed: HashSet<&str> =
            eigentime_calls::NOT_VIRTUALIZED.iter().map(|(interface, _)| *interface).collect();
        let missing: Vec<_> = listed.difference(&named).collect();
        assert!(missing.is_empty(), "interfaces not virtualized without a line: {missing:?}");
        let unknown: Vec<_> = named.difference(&listed).collect();
        assert!(unknown.is_empty(), "lines about what is not listed: {unknown:?}");
    }

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = all().map(|(group, one)| (group, one.name)).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn everything_untested_says_why() {
        for (_, one) in all() {
            if let Test::None(why) = one.test {
                assert!(why.starts_with("no test: "), "{}", one.name);
            }
        }
    }
}
