//! What a thread can ask the system for so as to be on time. Each is a value: dropping it gives
//! back what was there before, unless somebody else has changed it since.

mod latency;
mod ledger;
mod memory;
mod owner;
mod pin;
mod realtime;
mod wish;

pub use latency::LatencyHold;
pub use memory::{MemoryLock, Stretch};
pub use pin::Pin;
pub use realtime::Realtime;
pub use wish::{Degradation, Wish};
