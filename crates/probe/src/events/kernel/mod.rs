//! Sources whose events are timed in the kernel, by the interrupt itself.
//!
//! - `rights`: what the kernel wants of those who load programs into it.
//! - `bpf_timer`: a BPF program's timer; needs the right to load one.
//! - `hrtimer`: the module `eigentime_hrtimer`, where it is loaded.

mod bpf_timer;
mod hrtimer;
mod rights;

use super::source::{Place, Source};

/// Those that are built in: where one cannot be had, its row says what it needs.
pub const SOURCES: &[Source] = &[
    Source { name: "bpf_timer", place: Place::Kernel, measure: bpf_timer::measure },
    Source { name: "hrtimer", place: Place::Kernel, measure: hrtimer::measure },
];
