//! A timeline that pods share, on all nodes.

#![allow(clippy::duplicated_attributes, reason = "the columns of a table have the same attributes")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::map::AgreedMap;
use super::node::NodeState;

/// The condition that the timeline matches the spec on all nodes.
pub const APPLIED: &str = "Applied";
/// The condition that the error of the nodes' clocks is known.
pub const SYNCHRONIZED: &str = "ClocksSynchronized";

/// A timeline: clocks that the selected pods share, on all nodes. A change of the clocks takes
/// effect for all of them at the same instant.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "eigentime.io",
    version = "v1alpha1",
    kind = "Timeline",
    namespaced,
    status = "TimelineStatus",
    shortname = "tl",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Rate", type_ = "string", json_path = ".status.map.rate"),
    printcolumn(name = "Virtual time", type_ = "string", json_path = ".status.virtualTime"),
    printcolumn(
        name = "Applied",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Applied")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Applied")].reason"#
    ),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.appliedNodes"),
    printcolumn(name = "Uncovered", type_ = "integer", json_path = ".status.uncovered"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.date), has(self.offset), has(self.anchor)].filter(given, given).size() <= 1")
        .message("only one of date, offset and anchor can be given"),
    validation = Rule::new("!self.skipIdle || !(self.frozen || has(self.rate) || has(self.anchor))")
        .message("skipIdle cannot be combined with frozen, rate or anchor"),
    validation = Rule::new("self.skipIdle == oldSelf.skipIdle")
        .message("skipIdle cannot be changed: delete the timeline and make it anew"),
)]
pub struct TimelineSpec {
    /// What the wall clock shows when a change of this field takes effect: 2038-01-19T03:14:07Z or
    /// @2147483647. A date must include its time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 64),
        regex(pattern = r"^(@[0-9.]+|[0-9]{4}-.*(Z|[+-][0-9]{2}:?[0-9]{2}))$")
    )]
    pub date: Option<String>,
    /// How far the wall clock is from the nodes' when a change of this field takes effect: +30d,
    /// -3h. From there it continues at the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^[+-]?[0-9][0-9.a-zµ]*$"))]
    pub offset: Option<String>,
    /// An instant on the nodes' wall clocks, and what the timeline's shows then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
    /// How many seconds pass per second on the nodes: 10, 0.5, 1/3; from 0.001 to 1000000; by
    /// default, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^[0-9]+(\.[0-9]{1,9})?$|^[0-9]+/[0-9]+$"))]
    pub rate: Option<String>,
    /// Whether all clocks are frozen.
    #[serde(default)]
    pub frozen: bool,
    /// The sum of all leaps so far: raising it by a span moves every clock forward by that span at
    /// once. It cannot be lowered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^\+?[0-9][0-9.a-zµ]*$"))]
    pub leaps: Option<String>,
    /// Whether to skip time in which all members only wait. All of them must then be on one node.
    #[serde(default)]
    pub skip_idle: bool,
    /// The pods of the namespace that are members; if empty, none.
    #[serde(default)]
    pub selector: LabelSelector,
    /// While true, changes of the spec have no effect, and pods do not become members.
    #[serde(default)]
    pub suspend: bool,
    /// What a node does if it cannot make a change in time.
    #[serde(default)]
    pub on_missed: OnMissed,
}

/// An instant on which two wall clocks agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Anchor {
    /// What the nodes' clocks show.
    #[schemars(length(max = 64))]
    pub host: String,
    /// What the timeline's shows then.
    #[serde(rename = "virtual")]
    #[schemars(length(max = 64))]
    pub virt: String,
}

/// What a node does if it cannot make a change in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OnMissed {
    /// It makes the change late: its clocks then continue as if it had been in time.
    #[default]
    CatchUp,
    /// It stops the clocks of its pods until the next change.
    Hold,
}

/// The state of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TimelineStatus {
    /// The generation of the spec that the map is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The map for all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<AgreedMap>,
    /// The map in effect until the instant of the new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<AgreedMap>,
    /// How far ahead the instant of the map was: the lead of the slowest node, and the error of the
    /// clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// The largest error of the nodes' clocks, as their kernels estimate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_error: Option<String>,
    /// What the timeline's wall clock showed when the status was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<String>,
    /// On how many of the members' nodes the map is in effect, such as 2/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_nodes: Option<String>,
    /// How many pods are members.
    pub members: usize,
    /// How many of their containers are not covered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncovered: Option<usize>,
    /// The state of each node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub nodes: Vec<NodeStatus>,
    /// Applied, and ClocksSynchronized.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A timeline on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The node.
    pub name: String,
    /// How many of its pods are members.
    pub members: usize,
    /// The state of the map on it.
    pub state: NodeState,
    /// When its agent last reported, if it no longer does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_report: Option<String>,
    /// How long after its instant the map took effect, if that was late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    /// Information for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The first of the already running containers whose clocks do not follow, at least not in all
    /// processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<Uncovered>,
}

/// A container whose clocks do not follow, at least not in all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Uncovered {
    /// Its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
    /// The reason.
    pub reason: String,
}
