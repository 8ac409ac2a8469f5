//! The emulator's two ends on this host: interfaces, what is received from them and sent by them.
//!
//! All `unsafe` of the emulator is here: [`ring`] maps what the kernel writes packets to, [`calls`]
//! makes the system calls that nobody else wraps.

mod calls;
mod end;
mod error;
mod frame;
mod offloads;
mod port;
mod ring;
mod segments;

pub use end::{End, NoEnd};
pub use error::{Error, What};
pub use frame::{Header, ip_bytes};
pub use offloads::{Offload, Offloads};
pub use port::{Port, Received, Sent};
pub use ring::Slot;
pub use segments::{Unknown, segments};
