//! The report of a node's agent: one object per node, so that agents do not write to a common one.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The timelines on a node, as its agent reports them. Only the agent writes it.
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
    /// When the agent last reported.
    pub renew_time: String,
    /// The error of the node's wall clock, as its kernel estimates it; absent if nothing
    /// synchronizes the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<i64>,
    /// The timelines that have pods here.
    #[serde(default)]
    pub timelines: Vec<Member>,
    /// The containers that were already running when a timeline was created for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Attached>,
}

/// A container that was already running when a timeline was created for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    /// The namespace of its pod.
    pub namespace: String,
    /// Its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
    /// The UIDs of the Timeline or TimeChaos objects that its clocks follow.
    pub of: Vec<String>,
    /// Whether they follow, in all processes.
    pub covered: bool,
    /// What does not follow, and why, or other information for the user.
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
    /// The instant of the map that is reported on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_time: Option<String>,
    /// The state of the map on the node.
    pub state: NodeState,
    /// How many nanoseconds after its instant the map took effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<i64>,
    /// How many pods are members.
    pub members: usize,
    /// Information for the user, such as which pods are not covered, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The state of a timeline's map on a node. If the node has several timelines of that object, the
/// last state in this order counts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub enum NodeState {
    /// The map is in effect.
    Applied,
    /// The map is in effect, but took effect late.
    CaughtUp,
    /// The node will put the map in effect at its instant.
    Acknowledged,
    /// The node has not reported anything.
    #[default]
    Pending,
    /// The map came too late; the clocks are frozen until the next change.
    Held,
    /// The map cannot be put in effect.
    Failed,
    /// No agent reports from the node.
    NoAgent,
}

impl NodeState {
    /// Whether the clocks show what they should.
    #[must_use]
    pub fn is_in_force(self) -> bool {
        matches!(self, Self::Applied | Self::CaughtUp)
    }
}
