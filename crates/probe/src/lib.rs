//! What the probe says and what it is told: the forms of its records and of its conversation, and
//! what can be measured and how much of it may be asked for.
//!
//! `eigentime-probe` is one small static program. It makes one measurement and prints records, one
//! JSON document a line ([`Record`]), wherever it runs: on the host, in a time namespace, in a
//! container, in a virtual machine, at the other end of `ssh`. `eigentime-probe serve` makes many,
//! as it is told on its standard input ([`protocol`]). It writes nothing but its output.
#![warn(missing_docs)]

pub mod limits;
pub mod metrics;
pub mod protocol;
pub mod record;

pub use record::Record;
