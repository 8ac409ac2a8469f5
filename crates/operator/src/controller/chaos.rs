//! Shifts of wall clocks: selects the containers once, and reports the nodes' progress. The nodes
//! act on the status.

use std::sync::Arc;
use std::time::Duration;

use eigentime_timeline::HostInstant;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::runtime::finalizer::{self, finalizer};
use kube::{Api, Resource, ResourceExt};

use super::reports::Report;
use super::select::select;
use super::status::{attached, condition};
use super::{Context, Error, FINALIZER, RARELY, write_status};
use crate::api::chaos::{
    ALL_INJECTED, ALL_RECOVERED, DesiredPhase, Experiment, PAUSED, Phase, Record, SELECTED,
    record_id,
};
use crate::api::{Attached, TimeChaos, TimeChaosStatus};
use crate::clock;

/// How soon pods are searched again if there were none.
const LOOK: Duration = Duration::from_secs(5);

/// Reconciles an object.
pub async fn reconcile(
    chaos: Arc<TimeChaos>,
    context: Arc<Context>,
) -> Result<Action, finalizer::Error<Error>> {
    let namespace = chaos.namespace().unwrap_or_default();
    let api: Api<TimeChaos> = Api::namespaced(context.client.clone(), &namespace);
    let uid = chaos.uid().unwrap_or_default();
    let done = finalizer(&api, FINALIZER, chaos, |event| async {
        match event {
            finalizer::Event::Apply(chaos) => keep(&api, &chaos, &context).await,
            finalizer::Event::Cleanup(chaos) => {
                context.held_by(|node| attached(node, chaos.uid().as_ref()).next().is_some())?;
                Ok(Action::await_change())
            }
        }
    })
    .await;
    if done.is_ok() {
        context.failures.lock().expect("nobody panics with it").remove(&uid);
    }
    done
}

async fn keep(api: &Api<TimeChaos>, chaos: &TimeChaos, context: &Context) -> Result<Action, Error> {
    let last = chaos.status.clone().unwrap_or_default();
    let mut records = last.experiment.container_records.clone();
    let mut wrong = chaos.offset().and(chaos.duration()).err();
    if records.is_empty() && wrong.is_none() {
        match select(context, chaos).await? {
            Ok(selected) => records = selected,
            Err(reason) => wrong = Some(reason),
        }
    }
    let (status, again) = decide(chaos, records, wrong, &context.reports.all(), clock::now());
    if status != last {
        if !write_status(api, chaos, &status).await? {
            return Ok(Action::await_change());
        }
        tell(context, chaos, &last, &status).await;
    }
    Ok(Action::requeue(again))
}

/// The new status, and how soon to check again.
fn decide(
    chaos: &TimeChaos,
    mut records: Vec<Record>,
    wrong: Option<String>,
    nodes: &[Report],
    now: HostInstant,
) -> (TimeChaosStatus, Duration) {
    let left = time_left(chaos, now);
    let is_paused = chaos.is_paused();
    let runs = wrong.is_none() && !is_paused && left != Some(Duration::ZERO);
    let uid = chaos.uid();
    let alive = nodes.iter().filter(|node| node.is_alive);
    let reports: Vec<_> = alive.flat_map(|node| attached(node, uid.as_ref())).collect();
    note(&mut records, &reports, runs);
    let all_injected = !records.is_empty() && records.iter().all(|it| it.phase == Phase::Injected);
    let selected = match &wrong {
        Some(reason) => (SELECTED, false, "NotSelected", reason.clone()),
        None => (SELECTED, true, "Selected", format!("{} containers", records.len())),
    };
    let stopped = match (&wrong, is_paused, left) {
        (Some(_), ..) => "nothing is selected",
        (_, true, _) => "an annotation pauses it",
        (.., Some(Duration::ZERO)) => "its duration is over",
        _ => "the clocks are to be shifted",
    };
    let last = chaos.status.as_ref().map_or(&[][..], |status| &status.conditions[..]);
    let generation = chaos.metadata.generation.unwrap_or_default();
    let conditions: Vec<Condition> = [
        selected,
        match runs {
            true => (
                ALL_INJECTED,
                all_injected,
                if all_injected { "Injected" } else { "Waiting" },
                injected(&records),
            ),
            false => (ALL_INJECTED, false, "Stopped", stopped.to_owned()),
        },
        (
            ALL_RECOVERED,
            !runs && reports.is_empty(),
            if runs { "Running" } else { "Stopped" },
            stopped.to_owned(),
        ),
        (PAUSED, is_paused, if is_paused { "Paused" } else { "NotPaused" }, stopped.to_owned()),
    ]
    .map(|(type_, holds, reason, message)| {
        condition(last, type_, holds, reason, message, generation)
    })
    .into();
    let again = match (&wrong, left) {
        (Some(_), _) => LOOK,
        (None, Some(left)) if !left.is_zero() => left.min(RARELY),
        _ => RARELY,
    };
    let desired_phase = if runs { DesiredPhase::Run } else { DesiredPhase::Stop };
    let experiment = Experiment { desired_phase, container_records: records };
    (TimeChaosStatus { conditions, experiment }, again)
}

/// Records the nodes' reports about the containers.
fn note(records: &mut [Record], reports: &[&Attached], runs: bool) {
    for record in records {
        let is_its =
            |it: &&&Attached| record_id(&it.namespace, &it.pod, &it.container) == record.id;
        let report = reports.iter().find(is_its);
        let is_shifted = runs && report.is_some_and(|it| it.covered);
        record.phase = if is_shifted { Phase::Injected } else { Phase::NotInjected };
        record.message = report.and_then(|it| it.message.clone());
    }
}

/// The progress in words.
fn injected(records: &[Record]) -> String {
    let open: Vec<_> = records.iter().filter(|it| it.phase == Phase::NotInjected).collect();
    match open.as_slice() {
        [] => "the clocks of all containers are shifted".to_owned(),
        [first, ..] => {
            let reason = first.message.as_deref().unwrap_or("its node has not reported it");
            format!("{} of {} are not: {}: {reason}", open.len(), records.len(), first.id)
        }
    }
}

/// The rest of its duration since the object was created; none if it has no duration.
fn time_left(chaos: &TimeChaos, now: HostInstant) -> Option<Duration> {
    let duration = chaos.duration().ok()??;
    let made = chaos.metadata.creation_timestamp.as_ref()?;
    let passed = now.as_nanos() as i128 - made.0.as_nanosecond();
    Some(duration.saturating_sub(Duration::from_nanos(u64::try_from(passed).unwrap_or(0))))
}

/// Writes events for changed conditions.
async fn tell(context: &Context, chaos: &TimeChaos, last: &TimeChaosStatus, now: &TimeChaosStatus) {
    for it in &now.conditions {
        let was = last.conditions.iter().find(|last| last.type_ == it.type_);
        let is_new = was.map(|was| (&was.status, &was.message)) != Some((&it.status, &it.message));
        let is_wrong = it.type_ == SELECTED && it.status == "False";
        let is_told = is_wrong || (it.type_ != SELECTED && it.status == "True");
        if !is_new || !is_told {
            continue;
        }
        let event = Event {
            type_: if is_wrong { EventType::Warning } else { EventType::Normal },
            reason: if is_wrong { it.reason.clone() } else { it.type_.clone() },
            note: Some(it.message.clone()),
            action: "Shift".into(),
            secondary: None,
        };
        let about: ObjectReference = chaos.object_ref(&());
        if let Err(error) = context.recorder.publish(&event, &about).await {
            tracing::warn!(%error, "an event cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::api::chaos::TimeChaosSpec;
    use crate::api::{TimelineNode, TimelineNodeSpec};

    const MADE: i64 = 1000;

    fn chaos(duration: Option<&str>) -> TimeChaos {
        let spec = TimeChaosSpec {
            time_offset: "1h".into(),
            duration: duration.map(str::to_owned),
            ..TimeChaosSpec::default()
        };
        let mut chaos = TimeChaos::new("skew", spec);
        chaos.metadata.uid = Some("u".into());
        chaos.metadata.creation_timestamp = Some(Time(Timestamp::from_second(MADE).unwrap()));
        chaos
    }

    fn node(covered: bool, message: Option<&str>) -> Report {
        let attached = Attached {
            namespace: "a".into(),
            pod: "b".into(),
            container: "c".into(),
            of: vec!["u".into()],
            covered,
            message: message.map(str::to_owned),
        };
        let spec = TimelineNodeSpec { containers: vec![attached], ..TimelineNodeSpec::default() };
        Report { node: Arc::new(TimelineNode::new("n", spec)), is_alive: true }
    }

    fn decided(
        chaos: &TimeChaos,
        nodes: &[Report],
        seconds: i64,
    ) -> (TimeChaosStatus, Vec<String>, Duration) {
        let records = vec![Record { id: "a/b/c".into(), ..Record::default() }];
        let now = HostInstant::from_nanos((MADE + seconds) * 1_000_000_000);
        let (status, again) = decide(chaos, records, None, nodes, now);
        let held = status.conditions.iter().filter(|it| it.status == "True");
        let held = held.map(|it| it.type_.clone()).collect();
        (status, held, again)
    }

    #[test]
    fn it_is_injected_once_the_node_says_so() {
        let (status, held, _) = decided(&chaos(None), &[], 1);
        assert_eq!(held, [SELECTED]);
        assert!(status.conditions[1].message.contains("a/b/c: its node"), "{status:?}");
        let (status, held, _) = decided(&chaos(None), &[node(false, Some("32-bit"))], 1);
        assert_eq!(held, [SELECTED]);
        assert!(status.conditions[1].message.contains("a/b/c: 32-bit"), "{status:?}");
        let (status, held, _) = decided(&chaos(None), &[node(true, None)], 1);
        assert_eq!(held, [SELECTED, ALL_INJECTED]);
        assert_eq!(status.experiment.container_records[0].phase, Phase::Injected);
        assert_eq!(status.experiment.desired_phase, DesiredPhase::Run);
    }

    #[test]
    fn it_stops_when_its_duration_is_over_or_it_is_paused() {
        let nodes = [node(true, None)];
        let (status, _, again) = decided(&chaos(Some("10s")), &nodes, 4);
        assert_eq!(
            (status.experiment.desired_phase, again),
            (DesiredPhase::Run, Duration::from_secs(6))
        );
        let (status, held, _) = decided(&chaos(Some("10s")), &nodes, 10);
        assert_eq!(
            (status.experiment.desired_phase, held),
            (DesiredPhase::Stop, vec![SELECTED.to_owned()])
        );
        let (_, held, _) = decided(&chaos(Some("10s")), &[], 10);
        assert_eq!(held, [SELECTED, ALL_RECOVERED]);
        let mut paused = chaos(None);
        paused.annotations_mut().insert("experiment.chaos-mesh.org/pause".into(), "true".into());
        assert_eq!(decided(&paused, &[], 1).1, [SELECTED, ALL_RECOVERED, PAUSED]);
    }
}
