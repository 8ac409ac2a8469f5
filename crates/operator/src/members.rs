//! Which pods are members of which timelines.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use kube::core::{Selector, SelectorExt};
use kube::runtime::reflector::Store;
use kube::{Resource, ResourceExt};

use crate::api::Timeline;

/// What the annotations begin with by which pods get clocks of their own.
pub const OF_ENGINE: &str = "io.eigentime.";
/// The annotation with the timeline that a pod is started on.
pub const TIMELINE: &str = "io.eigentime.timeline";

/// Does a timeline select a pod with these labels in this namespace?
#[must_use]
pub fn selects(timeline: &Timeline, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
    let selector = &timeline.spec.selector;
    let is_empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    // An expression that means nothing is refused by the API server's schema of selectors.
    let matches = || Selector::try_from(selector.clone()).is_ok_and(|it| it.matches(labels));
    timeline.namespace().as_deref() == Some(namespace) && !is_empty && matches()
}

/// Is the pod on a node, and has not ended?
fn is_placed(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// The node of a pod that is a member of the timeline.
#[must_use]
pub fn node_of_member<'a>(timeline: &Timeline, pod: &'a Pod) -> Option<&'a str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    let namespace = pod.meta().namespace.as_deref()?;
    (is_placed(pod) && selects(timeline, namespace, pod.labels())).then_some(node)
}

/// How many pods are members, by node.
#[must_use]
pub fn by_node(timeline: &Timeline, pods: &Store<Pod>) -> BTreeMap<String, usize> {
    let mut nodes = BTreeMap::new();
    for pod in pods.state() {
        if let Some(node) = node_of_member(timeline, &pod) {
            *nodes.entry(node.to_owned()).or_default() += 1;
        }
    }
    nodes
}

/// What is kept of pods: whether they are members.
pub fn keep_membership(pod: &mut Pod) {
    pod.managed_fields_mut().clear();
    pod.annotations_mut().clear();
    if let Some(PodSpec { node_name, .. }) = pod.spec.take() {
        pod.spec = Some(PodSpec { node_name, ..PodSpec::default() });
    }
    if let Some(PodStatus { phase, .. }) = pod.status.take() {
        pod.status = Some(PodStatus { phase, ..PodStatus::default() });
    }
}
