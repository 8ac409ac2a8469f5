//! Why a timeline is refused.

use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use serde_json::Value;

use super::Known;
use crate::api::Timeline;
use crate::api::timeline::TimelineSpec;
use crate::{clock, members};

/// The annotation of a namespace with the maximum number of timelines.
const QUOTA: &str = "eigentime.io/max-timelines";

/// Why a timeline is refused; it is never patched.
pub fn decide(timeline: Option<Timeline>, known: &Known) -> Result<Vec<Value>, String> {
    timeline.map_or(Ok(()), |timeline| check(&timeline, known)).map(|()| Vec::new())
}

fn check(timeline: &Timeline, known: &Known) -> Result<(), String> {
    let last = known.timelines.get(&ObjectRef::from_obj(timeline));
    let map = last.as_ref().and_then(|last| last.status.as_ref()?.map.clone());
    members::check_selector(timeline)?;
    let spec = &timeline.spec;
    spec.next_map(map.as_ref(), 0, clock::now()).map_err(|wrong| wrong.to_string())?;
    if last.is_none() {
        check_quota(timeline, known)?;
    }
    let is_same = |spec: &TimelineSpec| spec.selector == timeline.spec.selector;
    if last.is_some_and(|last| is_same(&last.spec)) {
        return Ok(());
    }
    // Selectors cannot be compared, but the pods that they select can.
    let (namespace, all) = (timeline.namespace().unwrap_or_default(), known.timelines.state());
    for pod in known.pods.state() {
        let claims = members::claims(&pod, &all);
        let other = claims.first().filter(|it| it.name_any() != timeline.name_any());
        let is_here = pod.namespace().as_ref() == Some(&namespace);
        if let Some(other) = other.filter(|_| is_here)
            && members::selects(timeline, &namespace, pod.labels())
        {
            return Err(format!(
                "pod {} is on timeline {} already; a pod has one timeline",
                pod.name_any(),
                other.name_any(),
            ));
        }
    }
    Ok(())
}

fn check_quota(timeline: &Timeline, known: &Known) -> Result<(), String> {
    let namespace = timeline.namespace().unwrap_or_default();
    let space = known.namespaces.get(&ObjectRef::new(&namespace));
    let Some(quota) = space.and_then(|it| it.annotations().get(QUOTA).cloned()) else {
        return Ok(());
    };
    let quota: usize = quota.parse().map_err(|_| {
        format!("the annotation {QUOTA}={quota} of namespace {namespace} is no number")
    })?;
    let is_here = |it: &&std::sync::Arc<Timeline>| it.namespace().as_deref() == Some(&namespace);
    match known.timelines.state().iter().filter(is_here).count() {
        count if count < quota => Ok(()),
        count => Err(format!(
            "namespace {namespace} has {count} timelines, and its annotation {QUOTA} allows {quota}"
        )),
    }
}
