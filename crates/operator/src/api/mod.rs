//! The objects of the API, and their interpretation.
//!
//! - `chaos`: a shift of the wall clock of running containers.
//! - `timeline`: a timeline that pods share, on all nodes.
//! - `node`: the report of a node's agent.
//! - `written`: values stored as text in objects.
//! - `map`: the mapping from the host's wall clock to a timeline's, as sent to all nodes.
//! - `spec`: what the spec of a timeline asks for.

pub mod chaos;
pub mod map;
pub mod node;
pub mod spec;
pub mod timeline;
pub mod written;

pub use chaos::{TimeChaos, TimeChaosStatus};
pub use map::AgreedMap;
pub use node::{Attached, Member, NodeState, TimelineNode, TimelineNodeSpec};
pub use timeline::{NodeStatus, OnMissed, Timeline, TimelineStatus, Uncovered};

use kube::{CustomResourceExt, ResourceExt};

/// The prefix of Kubernetes timelines on a node.
pub const LOCAL_PREFIX: &str = "k8s-";

/// The name of a timeline on each node: names of objects can be too long.
#[must_use]
pub fn local_name(timeline: &Timeline) -> String {
    format!("{LOCAL_PREFIX}{}", timeline.uid().unwrap_or_default())
}

/// The definitions of all objects, as YAML documents.
///
/// # Panics
///
/// Never: definitions are plain data.
#[must_use]
pub fn definitions() -> String {
    let all = [Timeline::crd(), TimeChaos::crd(), TimelineNode::crd()];
    let documents = all.iter().map(|it| serde_json::to_value(it).expect("plain data"));
    documents.map(|it| format!("---\n{}", yaml(&it))).collect()
}

/// JSON is YAML; this is the form that users and tools expect of a manifest.
fn yaml(value: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(value).expect("plain data");
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kept_definitions_are_those_of_the_types() {
        let kept = include_str!("../../../../deploy/kubernetes/chart/files/crds.yaml");
        assert!(
            kept == super::definitions(),
            "deploy/kubernetes/chart/files/crds.yaml is not what the types say: make docs"
        );
    }
}
