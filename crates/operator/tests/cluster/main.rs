//! The controller, agents and the webhook against a real API server with etcd. `KUBEBUILDER_ASSETS` names the
//! directory in which `etcd`, `kube-apiserver` and `kubectl` are.
//!
//! - `server`: the API server.
//! - `parts`: the processes of the operator.
//! - `changes`: changes of timelines, on two nodes.

#[macro_use]
extern crate eigentime_harness;

mod changes;
mod parts;
mod server;

fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
