//! Images and their sources.
//!
//! - `reference`: the names of images.
//! - `fetch`: fetches and unpacks an image.
//! - `cache`: the images on this machine.
//! - `tool`: the programs used for this.

pub mod cache;
pub(crate) mod fetch;
pub mod reference;
pub(crate) mod tool;
