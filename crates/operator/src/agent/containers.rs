//! The clocks of each container running on this node that was not started on a timeline. All
//! decisions are here, and depend only on the arguments.

use std::sync::Arc;

use eigentime_timeline::Nanos;
use k8s_openapi::api::core::v1::{ContainerStatus, ObjectReference, Pod, PodSpec, PodStatus};
use kube::{Resource, ResourceExt};

use crate::api::chaos::record_id;
use crate::api::{Attached, TimeChaos, Timeline};
use crate::members::{self, OF_ENGINE};

/// A running container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Container {
    /// Its pod.
    pub pod: ObjectReference,
    /// Its name.
    pub name: String,
    /// Its id in the container engine.
    pub id: String,
}

/// The clocks that a container follows.
#[derive(Clone, Debug, PartialEq)]
pub enum Clocks {
    /// A timeline.
    Timeline(Arc<Timeline>),
    /// The node's, with a shifted wall clock.
    Shifted(Nanos),
}

/// The desired clocks of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The container.
    pub container: Container,
    /// The UIDs of the objects that request it.
    pub of: Vec<String>,
    /// The clocks, or why they are impossible.
    pub clocks: Result<Clocks, String>,
}

impl Container {
    /// A report on the container.
    pub fn report(&self, of: Vec<String>, covered: bool, message: Option<String>) -> Attached {
        Attached {
            namespace: self.pod.namespace.clone().unwrap_or_default(),
            pod: self.pod.name.clone().unwrap_or_default(),
            container: self.name.clone(),
            of,
            covered,
            message,
        }
    }
}

/// Reduces pods to the fields needed here.
pub fn keep_containers(pod: &mut Pod) {
    pod.managed_fields_mut().clear();
    pod.annotations_mut().retain(|name, _| name.starts_with(OF_ENGINE));
    if let Some(PodSpec { node_name, runtime_class_name, .. }) = pod.spec.take() {
        pod.spec = Some(PodSpec { node_name, runtime_class_name, ..PodSpec::default() });
    }
    if let Some(status) = pod.status.take() {
        pod.status = Some(PodStatus {
            phase: status.phase,
            container_statuses: status.container_statuses,
            init_container_statuses: status.init_container_statuses,
            ephemeral_container_statuses: status.ephemeral_container_statuses,
            ..PodStatus::default()
        });
    }
}

/// The running containers of a pod.
fn running(pod: &Pod) -> Vec<Container> {
    let status = pod.status.clone().unwrap_or_default();
    let lists = [
        status.container_statuses,
        status.init_container_statuses,
        status.ephemeral_container_statuses,
    ];
    let container = |it: ContainerStatus| {
        it.state.filter(|state| state.running.is_some())?;
        // containerd://0123456789abcdef
        let (_, id) = it.container_id.as_deref()?.split_once("://")?;
        Some(Container { pod: pod.object_ref(&()), name: it.name, id: id.to_owned() })
    };
    lists.into_iter().flatten().flatten().filter_map(container).collect()
}

/// The desired clocks of all containers.
pub fn wanted(
    pods: &[Arc<Pod>],
    timelines: &[Arc<Timeline>],
    chaos: &[Arc<TimeChaos>],
    runtime_class: &str,
) -> Vec<Wanted> {
    let mut all = Vec::new();
    for pod in pods {
        let mut claims = members::claims(pod, timelines).into_iter();
        let (timeline, others) = (claims.next(), claims.as_slice());
        let mut refused = why_not(pod, runtime_class);
        for container in running(pod) {
            if let Some(timeline) = timeline.filter(|it| !members::is_started_on(pod, it)) {
                let clocks = match (&refused, timeline.spec.skip_idle) {
                    (Some(reason), _) => Err(reason.clone()),
                    (None, true) => {
                        let reason = "time is skipped only with all members on one timeline: \
                                      make the pod anew";
                        Err(reason.to_owned())
                    }
                    (None, false) => Ok(Clocks::Timeline(Arc::clone(timeline))),
                };
                let of = vec![timeline.uid().unwrap_or_default()];
                all.push(Wanted { container: container.clone(), of, clocks });
            }
            if let Some(timeline) = timeline {
                let name = timeline.name_any();
                let reason = format!("its pod is on timeline {name}, which alone sets its clocks");
                refused.get_or_insert(reason.clone());
                all.extend(others.iter().map(|other| Wanted {
                    container: container.clone(),
                    of: vec![other.uid().unwrap_or_default()],
                    clocks: Err(reason.clone()),
                }));
            }
            all.extend(shifted(container, chaos, refused.as_ref()));
        }
    }
    all
}

/// The sum of all shifts of a container's clocks, if there are any.
fn shifted(
    container: Container,
    chaos: &[Arc<TimeChaos>],
    refused: Option<&String>,
) -> Option<Wanted> {
    let Attached { namespace, pod, container: name, .. } =
        container.report(Vec::new(), false, None);
    let id = record_id(&namespace, &pod, &name);
    let concerning: Vec<_> = chaos.iter().filter(|it| it.concerns(&id)).collect();
    let of: Vec<_> = concerning.iter().filter_map(|it| it.uid()).collect();
    let sum = concerning.iter().try_fold(0_i64, |sum, it| {
        let sum = sum.checked_add(it.offset()?.0);
        sum.ok_or_else(|| "the sum of the shifts is too long".to_owned())
    });
    let clocks = match refused {
        Some(reason) => Err(reason.clone()),
        None => sum.map(|sum| Clocks::Shifted(Nanos(sum))),
    };
    (!of.is_empty()).then_some(Wanted { container, of, clocks })
}

/// Why the containers of a pod cannot be attached.
fn why_not(pod: &Pod, runtime_class: &str) -> Option<String> {
    if let Some(name) = pod.annotations().keys().find(|name| name.starts_with(OF_ENGINE)) {
        return Some(format!("its pod has clocks of its own by the annotation {name}"));
    }
    let class = pod.spec.as_ref()?.runtime_class_name.as_deref()?;
    (class != runtime_class).then(|| {
        format!(
            "its pod has the RuntimeClass {class}, whose containers need not be processes of the node"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::api::chaos::{Experiment, Record, TimeChaosSpec};
    use crate::api::timeline::TimelineSpec;
    use crate::api::{TimeChaosStatus, local_name};
    use crate::members::TIMELINE;

    fn pod(more: serde_json::Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "p", "labels": { "app": "shop" } },
            "spec": { "nodeName": "a", "containers": [] },
            "status": { "phase": "Running", "containerStatuses": [
                { "name": "one", "containerID": "containerd://1", "state": { "running": {} },
                  "image": "", "imageID": "", "ready": true, "restartCount": 0 },
                { "name": "two", "containerID": "containerd://2", "state": { "waiting": {} },
                  "image": "", "imageID": "", "ready": true, "restartCount": 0 },
            ] },
        });
        for (path, value) in more.as_object().unwrap() {
            pod[path.split_once('.').unwrap().0][path.split_once('.').unwrap().1] = value.clone();
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn timeline(name: &str, spec: TimelineSpec) -> Arc<Timeline> {
        let labels = BTreeMap::from([("app".to_owned(), "shop".to_owned())]);
        let selector = LabelSelector { match_labels: Some(labels), ..Default::default() };
        let mut timeline = Timeline::new(name, TimelineSpec { selector, ..spec });
        timeline.metadata.namespace = Some("shop".into());
        timeline.metadata.uid = Some(format!("uid-of-{name}"));
        Arc::new(timeline)
    }

    fn chaos(name: &str, offset: &str, records: &[&str]) -> Arc<TimeChaos> {
        let spec = TimeChaosSpec { time_offset: offset.into(), ..Default::default() };
        let mut chaos = TimeChaos::new(name, spec);
        chaos.metadata.uid = Some(name.to_owned());
        let record = |id: &&str| Record { id: (*id).to_owned(), ..Record::default() };
        let container_records = records.iter().map(record).collect();
        let experiment = Experiment { container_records, ..Experiment::default() };
        chaos.status = Some(TimeChaosStatus { experiment, ..Default::default() });
        Arc::new(chaos)
    }

    fn decided(
        pod: Arc<Pod>,
        timelines: &[Arc<Timeline>],
        chaos: &[Arc<TimeChaos>],
    ) -> Vec<(String, String, Result<Clocks, String>)> {
        let all = wanted(&[pod], timelines, chaos, "eigentime");
        all.into_iter().map(|it| (it.container.id, it.of.join("+"), it.clocks)).collect()
    }

    #[test]
    fn shifts_add_up() {
        let all = [
            chaos("back", "-1h", &["shop/web/one", "shop/web/two"]),
            chaos("on", "90m", &["shop/web/one"]),
            chaos("other", "1h", &["shop/other/one"]),
        ];
        let half_an_hour = Clocks::Shifted(Nanos::from_secs(1800));
        let expected = vec![("1".to_owned(), "back+on".to_owned(), Ok(half_an_hour))];
        assert_eq!(decided(pod(json!({})), &[], &all), expected);
        assert_eq!(decided(pod(json!({})), &[], &all[2..]), vec![]);
        let long =
            [chaos("a", "200000h", &["shop/web/one"]), chaos("b", "2400000h", &["shop/web/one"])];
        assert!(
            decided(pod(json!({})), &[], &long)[0].2.as_ref().unwrap_err().contains("too long")
        );
    }

    #[test]
    fn a_pod_has_one_owner_of_its_clocks() {
        let shop = timeline("shop", TimelineSpec::default());
        let skew = [chaos("skew", "1h", &["shop/web/one"])];
        let found = decided(pod(json!({})), &[Arc::clone(&shop)], &skew);
        assert_eq!(found[0].2, Ok(Clocks::Timeline(Arc::clone(&shop))));
        assert!(found[1].2.as_ref().unwrap_err().contains("timeline shop"), "{found:?}");
        // A container that was started on it needs nothing.
        let started = json!({ "metadata.annotations": { TIMELINE: local_name(&shop) } });
        assert_eq!(decided(pod(started.clone()), &[Arc::clone(&shop)], &[]), vec![]);
        assert_eq!(decided(pod(started.clone()), &[Arc::clone(&shop)], &skew).len(), 1);
        // Of two that select it, the older one, or the one that it was started on.
        let made = |name: &str, second: i64| {
            let mut timeline = Arc::unwrap_or_clone(timeline(name, TimelineSpec::default()));
            timeline.metadata.creation_timestamp =
                Some(Time(Timestamp::from_second(second).unwrap()));
            Arc::new(timeline)
        };
        let both = [made("another", 2), made("shop", 1)];
        let found = decided(pod(json!({})), &both, &[]);
        assert_eq!((found[0].1.as_str(), found[0].2.is_ok()), ("uid-of-shop", true));
        assert_eq!(found[1].1, "uid-of-another");
        assert!(found[1].2.as_ref().unwrap_err().contains("timeline shop"), "{found:?}");
        let both = [made("another", 1), made("shop", 2)];
        let found = decided(pod(started), &both, &[]);
        assert_eq!((found.len(), found[0].1.as_str()), (1, "uid-of-another"));
    }

    #[test]
    fn what_cannot_be_attached_is_told() {
        let shop = timeline("shop", TimelineSpec::default());
        let skips = timeline("shop", TimelineSpec { skip_idle: true, ..TimelineSpec::default() });
        for (more, timeline, reason) in [
            (
                json!({ "metadata.annotations": { "io.eigentime.rate": "2" } }),
                &shop,
                "io.eigentime.rate",
            ),
            (json!({ "spec.runtimeClassName": "kata" }), &shop, "kata"),
            (json!({}), &skips, "anew"),
        ] {
            let found = decided(pod(more), &[Arc::clone(timeline)], &[]);
            assert!(found[0].2.as_ref().unwrap_err().contains(reason), "{found:?}");
        }
        let ours = pod(json!({ "spec.runtimeClassName": "eigentime" }));
        assert!(decided(ours, &[shop], &[])[0].2.is_ok());
    }
}
