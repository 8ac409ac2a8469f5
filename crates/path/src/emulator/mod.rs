//! A path with a known truth between two interfaces.
//!
//! Every frame that arrives at one end leaves at the other after a delay and the queue of a
//! bottleneck. The queue is pure arithmetic, and its cross traffic exists only in that arithmetic.
//!
//! - [`path`]: a path, from its [`settings`] to its [`summary`].
//! - [`capacity`], [`queue`], [`cross`], [`way`], [`line`]: the arithmetic, with time as an input.
//! - [`flow`]: what one direction has carried.
//! - [`truth`]: what the path has carried, written and read.
//! - [`stalls`]: the lateness of the emulator itself.
//! - [`host`]: interfaces, namespaces, and the memory for arriving packets.

pub mod capacity;
mod carry;
pub mod cross;
pub mod flow;
pub mod host;
pub mod line;
pub mod path;
pub mod queue;
pub mod settings;
pub mod stalls;
pub mod summary;
pub mod truth;
pub mod way;

pub use path::{Failure, Path};
pub use settings::Settings;
pub use summary::Summary;
pub use truth::Truth;
