//! The patch of a new pod, and why it is refused.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::DynamicObject;
use kube::core::admission::AdmissionRequest;
use kube::runtime::reflector::ObjectRef;
use serde_json::{Value, json};

use super::Known;
use crate::api::{LOCAL_PREFIX, Timeline, local_name};
use crate::members;

/// The annotation of a namespace with the timeline of pods that none selects.
pub const DEFAULT: &str = "eigentime.io/timeline";
/// Variables with which images bring their own clocks.
const OWN_CLOCKS: [&str; 2] = ["EIGENTIME_", "FAKETIME"];
/// Libraries with which they do.
const OWN_LIBRARIES: [&str; 2] = ["libfaketime", "libeigentime_preload"];

/// The patch of a pod, or why it is refused.
pub fn decide(
    pod: Option<Pod>,
    asked: &AdmissionRequest<DynamicObject>,
    known: &Known,
) -> Result<Vec<Value>, String> {
    let Some(pod) = pod else { return Ok(Vec::new()) };
    let namespace = asked.namespace.as_deref().unwrap_or_default();
    match timeline_of(&pod, namespace, known)? {
        None => match pod.annotations().get(members::TIMELINE) {
            Some(name) if name.starts_with(LOCAL_PREFIX) => Err(format!(
                "the annotation {}={name} names the timeline of an object: whoever that selects is given it",
                members::TIMELINE
            )),
            _ => Ok(Vec::new()),
        },
        Some(timeline) => patch(&pod, &timeline, &known.runtime_class),
    }
}

/// The timeline of a pod.
fn timeline_of(pod: &Pod, namespace: &str, known: &Known) -> Result<Option<Arc<Timeline>>, String> {
    let is_there =
        |it: &&Arc<Timeline>| it.metadata.deletion_timestamp.is_none() && !it.spec.suspend;
    let all = known.timelines.state();
    let selected = |it: &&Arc<Timeline>| members::selects(it, namespace, pod.labels());
    let found: Vec<_> = all.iter().filter(is_there).filter(selected).cloned().collect();
    match found.as_slice() {
        [one] => return Ok(Some(Arc::clone(one))),
        [] => {}
        several => {
            let names: Vec<_> = several.iter().map(|it| it.name_any()).collect();
            let names = names.join(", ");
            return Err(format!("several timelines select this pod: {names}; a pod has one"));
        }
    }
    let space = known.namespaces.get(&ObjectRef::new(namespace));
    let Some(name) = space.and_then(|it| it.annotations().get(DEFAULT).cloned()) else {
        return Ok(None);
    };
    match all
        .iter()
        .find(|it| it.name_any() == name && it.namespace().as_deref() == Some(namespace))
    {
        Some(timeline) => Ok(Some(Arc::clone(timeline))),
        None => Err(format!(
            "the annotation {DEFAULT} of namespace {namespace} names timeline {name}, which does not exist"
        )),
    }
}

/// The patch that makes it a member.
fn patch(pod: &Pod, timeline: &Timeline, runtime_class: &str) -> Result<Vec<Value>, String> {
    let name = timeline.name_any();
    // The node's agent creates the timeline, even if it comes later.
    let given =
        [(members::TIMELINE, local_name(timeline)), ("io.eigentime.existing", "true".to_owned())];
    // The webhook is called again for a pod that something else has changed after it.
    let is_own = |(key, value): &(&String, &String)| {
        key.starts_with(members::OF_ENGINE)
            && !given.iter().any(|(name, text)| name == key && text == *value)
    };
    if let Some((own, _)) = pod.annotations().iter().find(is_own) {
        return Err(format!(
            "the pod has the annotation {own}, and timeline {name} selects it: remove one of them"
        ));
    }
    let spec = pod.spec.clone().unwrap_or_default();
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    for container in containers {
        for variable in container.env.iter().flatten() {
            let value = variable.value.as_deref().unwrap_or_default();
            let is_own = OWN_CLOCKS.iter().any(|prefix| variable.name.starts_with(prefix))
                || OWN_LIBRARIES.iter().any(|library| value.contains(library));
            if is_own {
                return Err(format!(
                    "container {} brings clocks of its own ({}), and timeline {name} selects the pod: \
                     remove one of them",
                    container.name, variable.name
                ));
            }
        }
    }
    match spec.runtime_class_name.as_deref() {
        Some(other) if other != runtime_class => {
            return Err(format!(
                "the pod has the RuntimeClass {other}, and timeline {name}, which selects it, needs \
                 {runtime_class}: remove one of them"
            ));
        }
        _ => {}
    }
    let mut operations = Vec::new();
    let mut add = |path: &str, value: Value| {
        operations.push(json!({ "op": "add", "path": path, "value": value }));
    };
    if pod.metadata.annotations.is_none() {
        add("/metadata/annotations", json!({}));
    }
    for (key, value) in given {
        add(&format!("/metadata/annotations/{key}"), value.into());
    }
    add("/spec/runtimeClassName", runtime_class.into());
    Ok(operations)
}
