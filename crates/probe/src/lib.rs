//! The formats of the probe's records and of its protocol, its metrics and their limits.
//!
//! `eigentime-probe` is one small static program. It makes one measurement and prints records, one
//! JSON document per line ([`Record`]), wherever it runs: on the host, in a time namespace, in a
//! container, in a virtual machine, at the other end of `ssh`. `eigentime-probe serve` makes many,
//! as requested on its standard input ([`protocol`]). It writes only its output.
#![warn(missing_docs)]

pub mod limits;
pub mod metrics;
pub mod protocol;
pub mod record;

pub use record::Record;
