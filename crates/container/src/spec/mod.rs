//! What the runtime is told.
//!
//! - `bundle`: the bundle.
//! - `process`: the program, by image and options.
//! - `root`: what is in the root file system.
//! - `users`: who the program runs as.

pub mod bundle;
pub(crate) mod process;
pub(crate) mod root;
pub(crate) mod users;
