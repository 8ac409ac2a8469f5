//! The time namespace of this process (time_namespaces(7)).

use std::fmt;

use crate::machine::{Machine, Unknown};
use crate::units::length;
use crate::{Finding, Options};

/// The kernel's inode number of its first time namespace: PROC_TIME_INIT_INO in <linux/proc_ns.h>,
/// part of its ABI since it is in `<linux/nsfs.h>`.
const FIRST: u64 = 0xEFFF_FFFA;

/// The clock offsets of a namespace, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// For CLOCK_MONOTONIC and its coarse and raw variants.
    pub monotonic_ns: i128,
    /// For CLOCK_BOOTTIME.
    pub boottime_ns: i128,
}

impl Offsets {
    /// The offsets of this process's children, which are its own unless it has just created a new
    /// namespace for them.
    ///
    /// # Errors
    /// If the kernel has no time namespaces.
    pub fn of(machine: &Machine) -> Result<Self, Unknown> {
        let text = machine.text("/proc/self/timens_offsets")?;
        Self::parse(&text)
            .ok_or_else(|| Unknown::because(format!("/proc/self/timens_offsets says '{text}'")))
    }

    fn parse(text: &str) -> Option<Self> {
        let of = |clock: &str, number: &str| {
            let line = text.lines().find_map(|line| {
                let mut words = line.split_whitespace();
                let first = words.next()?;
                // Names, or the numbers of the clocks, as in the kernel's selftests.
                (first == clock || first == number).then_some(words)
            });
            let mut words = line?;
            let seconds: i128 = words.next()?.parse().ok()?;
            let nanos: i128 = words.next()?.parse().ok()?;
            Some(seconds * 1_000_000_000 + nanos)
        };
        Some(Self { monotonic_ns: of("monotonic", "1")?, boottime_ns: of("boottime", "7")? })
    }
}

impl fmt::Display for Offsets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [monotonic, boottime] =
            [self.monotonic_ns, self.boottime_ns].map(|nanos| length(nanos as f64));
        write!(formatter, "CLOCK_MONOTONIC by {monotonic}, CLOCK_BOOTTIME by {boottime}")
    }
}

/// The number of a namespace, from its link: `time:[4026531834]`.
fn number(machine: &Machine, name: &str) -> Result<u64, Unknown> {
    let path = format!("/proc/self/ns/{name}");
    let link = machine.link(&path)?.to_string_lossy().into_owned();
    let number = link.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']')?.parse().ok());
    number.ok_or_else(|| Unknown::because(format!("{path} leads to '{link}'")))
}

/// Checks whether this process is in another time namespace than the machine, and its effect.
pub fn time_namespace(machine: &Machine, _: &Options) -> Finding {
    let own = number(machine, "time");
    let children = number(machine, "time_for_children");
    let offsets = Offsets::of(machine);
    judge(own, children, offsets)
}

fn judge(
    own: Result<u64, Unknown>,
    children: Result<u64, Unknown>,
    offsets: Result<Offsets, Unknown>,
) -> Finding {
    let is_first = own.as_ref().map(|own| *own == FIRST);
    let mut finding = match (&is_first, &offsets) {
        (Ok(true), _) => Finding::ok("this process is in the machine's own time namespace"),
        (Ok(false), Ok(offsets)) if *offsets == Offsets::default() => {
            Finding::ok("this process is in a time namespace without offsets")
        }
        (Ok(false), Ok(offsets)) => {
            Finding::note(format!("this process is in a time namespace with offsets: {offsets}"))
        }
        (Ok(false), Err(why)) => Finding::note(format!(
            "this process is in a time namespace; its offsets are unknown: {why}"
        )),
        (Err(why), _) => Finding::unknown("the time namespace", why),
    };
    if let (Ok(own), Ok(children), Ok(offsets)) = (&own, &children, &offsets)
        && own != children
    {
        finding =
            finding.line(format!("its children will be in another one with offsets: {offsets}"));
    }
    let offset = |of: fn(&Offsets) -> i128| offsets.as_ref().map(|it| of(it) as f64 / 1e9);
    let (monotonic, boottime) = (offset(|it| it.monotonic_ns), offset(|it| it.boottime_ns));
    finding
        .fact("first_time_namespace", is_first.map_err(Clone::clone))
        .fact("monotonic_offset_seconds", monotonic.map_err(Clone::clone))
        .fact("boottime_offset_seconds", boottime.map_err(Clone::clone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    fn machine(own: &str, children: &str, offsets: &str) -> Finding {
        let tree = Tree::new("timens");
        tree.link("proc/self/ns/time", own);
        tree.link("proc/self/ns/time_for_children", children);
        tree.file("proc/self/timens_offsets", offsets);
        time_namespace(&tree.machine(), &Options::default())
    }

    const NONE: &str = "monotonic           0         0\nboottime            0         0\n";
    const MOVED: &str = "monotonic      864000         0\nboottime           -1 500000000\n";

    #[test]
    fn a_namespace_is_told_by_its_number_and_its_offsets() {
        let first = "time:[4026531834]";
        let other = "time:[4026532448]";
        assert_eq!(machine(first, first, NONE).verdict, Verdict::Ok);
        assert!(machine(other, other, NONE).found.contains("without offsets"));
        let moved = machine(other, other, MOVED);
        assert_eq!(moved.verdict, Verdict::Note);
        assert!(moved.found.contains("CLOCK_MONOTONIC by 864000 s"), "{}", moved.found);
        assert!(moved.found.contains("CLOCK_BOOTTIME by -500 ms"), "{}", moved.found);
        let unshared = machine(first, other, MOVED);
        assert!(unshared.lines[0].contains("children"), "{unshared:?}");
        let old = time_namespace(&Tree::new("no-timens").machine(), &Options::default());
        assert!(old.found.contains("unknown"));
    }
}
