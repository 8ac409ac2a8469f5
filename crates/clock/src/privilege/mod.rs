//! Privileges that a thread can request from the system in order to be on time. Each is a value:
//! dropping it restores the previous setting, unless it was changed by someone else since.

mod latency;
mod ledger;
mod memory;
mod owner;
mod pin;
mod realtime;
mod request;

pub use latency::LatencyHold;
pub use memory::{MemoryLock, Stretch};
pub use pin::Pin;
pub use realtime::Realtime;
pub use request::{Degradation, Request};
