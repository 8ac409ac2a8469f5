//! The description for the runtime.
//!
//! - `bundle`: the bundle.
//! - `process`: the program, from image and options.
//! - `root`: the contents of the root file system.
//! - `users`: the account of the program.

pub mod bundle;
pub(crate) mod process;
pub(crate) mod root;
pub(crate) mod users;
