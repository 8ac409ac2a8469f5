//! What a container takes from the host, and what of that is put back.
//!
//! - `namespaces`: the user and mount namespace in which all the rest happens.
//! - `state`: the directory for what is kept, and for what containers have while they run.
//! - `limits`: memory and processor time.
//! - `network`: the network.
//! - `overlay`: the layer that takes what is written.

pub mod limits;
pub mod namespaces;
pub mod network;
pub(crate) mod overlay;
pub mod state;
