//! The instructions of the processor. A program detects them once, when it starts, and so do its
//! libraries: CRIU restores it on any processor, and it is killed when it reaches a missing
//! instruction.

use std::collections::BTreeSet;
use std::fs;

use crate::arch::{FLAGS, INSTRUCTIONS, PRIVILEGED, STATE};

/// The kernel's list of them.
const TOLD: &str = "/proc/cpuinfo";

/// The instructions of this processor.
pub fn instructions() -> BTreeSet<String> {
    named_in(&fs::read_to_string(TOLD).unwrap_or_default())
}

fn named_in(told: &str) -> BTreeSet<String> {
    let flags = told.lines().find_map(|line| line.strip_prefix(FLAGS)?.split_once(':'));
    let names = flags.map_or("", |(_, names)| names).split_whitespace();
    let is_one = |name: &&str| INSTRUCTIONS.iter().any(|known| name.starts_with(known));
    names.filter(is_one).filter(|name| *name != PRIVILEGED).map(str::to_owned).collect()
}

/// Notes for restoring here what was dumped on a processor with these instructions.
pub fn notes_on(there: &BTreeSet<String>) -> Vec<String> {
    notes(there, &instructions())
}

fn notes(there: &BTreeSet<String>, here: &BTreeSet<String>) -> Vec<String> {
    let named = |names: Vec<&str>| (!names.is_empty()).then(|| names.join(", "));
    let missing = named(there.difference(here).map(String::as_str).collect());
    let more = here.difference(there).map(String::as_str).filter(|name| STATE.contains(name));
    // Older checkpoints do not list any.
    let more = named(more.filter(|_| !there.is_empty()).collect());
    let missing = missing.map(|names| {
        format!(
            "this processor lacks {names}, which the processor that made the checkpoint has: a \
             program that detected it there is killed by SIGILL when it uses it"
        )
    });
    let more = more.map(|names| {
        format!(
            "this processor has {names}, which the processor that made the checkpoint lacks: a \
             program whose functions are bound at their first call (without LD_BIND_NOW) may have \
             its stack overwritten"
        )
    });
    missing.into_iter().chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_are_taken() {
        let told = "processor\t: 0\nflags\t\t: fpu sse4_1 xsave xsavec xsaves constant_tsc avx2\n\
                    bugs\t\t: avx\n\nprocessor\t: 1\nflags\t\t: avx512f\n";
        let expected = ["avx2", "sse4_1", "xsave", "xsavec"].map(str::to_owned);
        assert_eq!(named_in(told), BTreeSet::from(expected));
        assert_eq!(named_in(""), BTreeSet::new());
    }

    #[test]
    fn what_is_missing_and_what_is_more_is_told() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert!(notes_on(&instructions()).is_empty());
        let found = notes(&set(&["avx", "xsavec"]), &set(&["avx", "mpx", "bmi1"]));
        assert!(found[0].contains("lacks xsavec, which"), "{found:?}");
        assert!(found[1].contains("has mpx, which"), "{found:?}");
        assert!(notes(&set(&[]), &set(&["avx"])).is_empty());
    }
}
