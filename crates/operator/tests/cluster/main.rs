//! The controller, agents and the webhook against a real API server with etcd. `KUBEBUILDER_ASSETS` names the
//! directory in which `etcd`, `kube-apiserver` and `kubectl` are.
//!
//! - `server`: the API server.
//! - `parts`: the processes of the operator.
//! - `admission`: what the webhook lets in, gives, and refuses.
//! - `changes`: changes of timelines, on two nodes.
//! - `attached`: pods that run before anything wants their clocks to be others.
//! - `on_node`: what an agent starts on its node.
//! - `scale`: many nodes, whose agents are made up.

#[macro_use]
extern crate eigentime_harness;

mod admission;
mod attached;
mod changes;
mod on_node;
mod parts;
mod scale;
mod server;

fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
