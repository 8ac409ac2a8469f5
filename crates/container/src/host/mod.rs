//! The host's resources for a container, and their cleanup.
//!
//! - `namespaces`: the user and mount namespace in which everything else happens.
//! - `state`: the directory for persistent data, and for the data of running containers.
//! - `limits`: memory and processor time.
//! - `network`: the network.
//! - `overlay`: the layer that receives writes.

pub mod limits;
pub mod namespaces;
pub mod network;
pub(crate) mod overlay;
pub mod state;
