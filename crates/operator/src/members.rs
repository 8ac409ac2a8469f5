//! Which pods are members of which timelines.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use kube::core::{Selector, SelectorExt};
use kube::{Resource, ResourceExt};

use crate::api::{Timeline, local_name};

/// The prefix of the annotations that give pods clocks of their own.
pub const OF_ENGINE: &str = "io.eigentime.";
/// The annotation with the timeline that a pod is started on.
pub const TIMELINE: &str = "io.eigentime.timeline";

/// Whether a timeline selects a pod with these labels in this namespace.
#[must_use]
pub fn selects(timeline: &Timeline, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
    let selector = &timeline.spec.selector;
    let is_empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    let matches = || Selector::try_from(selector.clone()).is_ok_and(|it| it.matches(labels));
    timeline.namespace().as_deref() == Some(namespace) && !is_empty && matches()
}

/// Why a selector is invalid.
///
/// # Errors
///
/// If one of its expressions is: the API server's schema cannot express that.
pub fn check_selector(timeline: &Timeline) -> Result<(), String> {
    let read = Selector::try_from(timeline.spec.selector.clone());
    read.map(drop).map_err(|error| {
        format!("spec.selector: {error}; operators are In and NotIn, with values, Exists and DoesNotExist")
    })
}

/// Whether a pod was started on the timeline.
#[must_use]
pub fn is_started_on(pod: &Pod, timeline: &Timeline) -> bool {
    pod.annotations().get(TIMELINE) == Some(&local_name(timeline))
}

/// Whether a pod should be a member of the timeline, because it was started on it or is selected.
/// It is on a node, and has not ended.
fn is_claimed(pod: &Pod, timeline: &Timeline) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_placed = node(pod).is_some() && !matches!(phase, Some("Succeeded" | "Failed"));
    let namespace = pod.meta().namespace.as_deref().unwrap_or_default();
    is_placed
        && timeline.meta().deletion_timestamp.is_none()
        && timeline.namespace().as_deref() == Some(namespace)
        && (is_started_on(pod, timeline) || selects(timeline, namespace, pod.labels()))
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The timelines of which a pod should be a member. It is a member of the first: the one that it
/// was started on, else the oldest; only the webhook prevents several from selecting it.
#[must_use]
pub fn claims<'a>(pod: &Pod, timelines: &'a [Arc<Timeline>]) -> Vec<&'a Arc<Timeline>> {
    let mut found: Vec<_> = timelines.iter().filter(|it| is_claimed(pod, it)).collect();
    found.sort_by_key(|it| (!is_started_on(pod, it), it.creation_timestamp(), it.name_any()));
    found
}

/// The number of pods that are members of a timeline, by node, given all timelines.
#[must_use]
pub fn by_node(
    timeline: &Timeline,
    pods: &[Arc<Pod>],
    timelines: &[Arc<Timeline>],
) -> BTreeMap<String, usize> {
    let mut nodes = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_claimed(pod, timeline)) {
        let is_member = claims(pod, timelines).first().is_some_and(|it| it.uid() == timeline.uid());
        if let Some(node) = node(pod).filter(|_| is_member) {
            *nodes.entry(node.to_owned()).or_default() += 1;
        }
    }
    nodes
}

/// Reduces pods to the fields that determine membership.
pub fn keep_membership(pod: &mut Pod) {
    pod.managed_fields_mut().clear();
    pod.annotations_mut().retain(|name, _| name == TIMELINE);
    if let Some(PodSpec { node_name, .. }) = pod.spec.take() {
        pod.spec = Some(PodSpec { node_name, ..PodSpec::default() });
    }
    if let Some(PodStatus { phase, .. }) = pod.status.take() {
        pod.status = Some(PodStatus { phase, ..PodStatus::default() });
    }
}
