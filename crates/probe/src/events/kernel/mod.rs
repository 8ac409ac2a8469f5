//! Sources whose events are timed in the kernel, by the interrupt itself.
//!
//! - `rights`: the privileges that the kernel requires for loading programs.
//! - `bpf_timer`: a BPF program's timer; needs the privilege to load one.
//! - `hrtimer`: the module `eigentime_hrtimer`, if loaded.

mod bpf_timer;
mod hrtimer;
mod rights;

use super::source::{Place, Source};

/// The built-in sources; an unavailable one reports what it needs.
pub const SOURCES: &[Source] = &[
    Source { name: "bpf_timer", place: Place::Kernel, measure: bpf_timer::measure },
    Source { name: "hrtimer", place: Place::Kernel, measure: hrtimer::measure },
];
