//! The emulator's two ends on this host: interfaces, and sending and receiving on them.
//!
//! All `unsafe` code of the emulator is here: [`ring`] maps the memory to which the kernel writes
//! packets, [`calls`] makes system calls that no crate wraps.

mod calls;
mod end;
mod error;
mod frame;
mod namespace;
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
