//! Images, and where they come from.
//!
//! - `reference`: what an image is called.
//! - `fetch`: brings an image here and unpacks it.
//! - `cache`: the images that are here.
//! - `tool`: the programs that do so.

pub mod cache;
pub(crate) mod fetch;
pub mod reference;
pub(crate) mod tool;
