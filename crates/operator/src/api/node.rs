//! The report of a node's agent: one object per node, so that agents do not write to a common one.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The timelines on a node, as its agent reports them. Nobody else writes it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "eigentime.io",
    version = "v1alpha1",
    kind = "TimelineNode",
    derive = "PartialEq",
    printcolumn(name = "Renewed", type_ = "date", json_path = ".spec.renewTime"),
    printcolumn(name = "Clock error (ns)", type_ = "integer", json_path = ".spec.clockErrorNs")
)]
#[serde(rename_all = "camelCase")]
pub struct TimelineNodeSpec {
    /// When the agent reported last.
    pub renew_time: String,
    /// The error of the node's wall clock as its kernel estimates it; none if nothing synchronizes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<i64>,
    /// The timelines that have pods here.
    #[serde(default)]
    pub timelines: Vec<Member>,
    /// The containers that ran before there was a timeline for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Attached>,
}

/// A container that ran before there was a timeline for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    /// The namespace of its pod.
    pub namespace: String,
    /// Its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
    /// The UIDs of the Timeline or the TimeChaos objects that its clocks follow.
    pub of: Vec<String>,
    /// Do they follow, in all processes?
    pub covered: bool,
    /// What does not, and why, or what its user should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A timeline on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The namespace of the timeline.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The instant of the map that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_time: Option<String>,
    /// How far the node is.
    pub state: NodeState,
    /// How many nanoseconds after its instant the map was put in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<i64>,
    /// How many pods are members.
    pub members: usize,
    /// What its user should know, such as which pods are not covered, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far a node is with the map of a timeline; if it has several timelines of that object, the last in this
/// order counts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub enum NodeState {
    /// The map is in force.
    Applied,
    /// The map is in force, but was put so late.
    CaughtUp,
    /// It will put the map in force at the instant.
    Acknowledged,
    /// It has not reported anything.
    #[default]
    Pending,
    /// It was too late; the clocks stand still until the next change.
    Held,
    /// It cannot be put in force.
    Failed,
    /// No agent reports from there.
    NoAgent,
}

impl NodeState {
    /// Whether the clocks show what they should.
    #[must_use]
    pub fn is_in_force(self) -> bool {
        matches!(self, Self::Applied | Self::CaughtUp)
    }
}
