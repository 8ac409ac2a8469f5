//! A path whose truth is known: two interfaces, and what is between them.
//!
//! Every frame that comes in at one end goes out at the other, after the queue of a bottleneck that
//! is arithmetic, with cross traffic that exists in the arithmetic only, and a delay.
//!
//! - [`path`]: a path, from its [`settings`] to its [`summary`].
//! - [`capacity`], [`queue`], [`cross`], [`way`], [`line`]: the arithmetic, by a time that is told.
//! - [`truth`]: what the path has carried, written and read.
//! - [`stalls`]: how late the emulator itself was.
//! - [`host`]: interfaces, namespaces, and the memory that packets come in.

pub mod capacity;
mod carry;
pub mod cross;
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
