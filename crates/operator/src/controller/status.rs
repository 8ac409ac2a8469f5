//! The new status of a timeline. All decisions of the controller are here, and depend only on the
//! arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use eigentime_timeline::text::format_offset;
use eigentime_timeline::{HostInstant, Nanos};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::reports::Report;
use crate::api::timeline::{APPLIED, SYNCHRONIZED};
use crate::api::written::Written;
use crate::api::{
    AgreedMap, Attached, NodeState, NodeStatus, Timeline, TimelineNode, TimelineStatus, Uncovered,
};
use crate::members;

/// The reason while the instant of a change is ahead.
pub const CHANGING: &str = "Changing";
/// The reason while changes are suspended.
pub const SUSPENDED: &str = "Suspended";

/// The maximum number of uncovered containers named for each node.
const NAMED: usize = 16;
/// How long after the instant of a change nodes may take to report.
const GRACE: Nanos = Nanos::from_millis(2000);
/// How soon to check awaited nodes again.
const SOON: Duration = Duration::from_millis(500);
const RARELY: Duration = Duration::from_secs(3600);
/// How long after an instant it has certainly passed, for the timer of the controller.
const BEHIND: Duration = Duration::from_millis(5);

/// The inputs of a decision.
pub struct Facts<'a> {
    pub timeline: &'a Timeline,
    /// The number of member pods, by node.
    pub members: &'a BTreeMap<String, usize>,
    pub reports: &'a [Report],
    /// How long the slowest node takes to acknowledge.
    pub lead: Nanos,
    pub now: HostInstant,
}

/// What is decided.
pub struct Decision {
    pub status: TimelineStatus,
    /// How soon to check again.
    pub again: Duration,
}

/// Decides on the status.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let Facts { timeline, now, .. } = *facts;
    let generation = timeline.metadata.generation.unwrap_or_default();
    let last = timeline.status.clone().unwrap_or_default();
    let (error, unsynchronized) = clock_error(facts);
    let mut status = TimelineStatus {
        observed_generation: Some(generation),
        members: facts.members.values().sum(),
        virtual_time: None,
        ..last.clone()
    };
    let is_ahead = |map: &AgreedMap| map.host_time.value > now;
    let is_new = last.map.as_ref().is_none_or(|map| map.generation != generation);
    let mut wrong = members::check_selector(timeline).err();
    // A change is announced once the last one is in effect everywhere.
    if wrong.is_none()
        && is_new
        && !timeline.spec.suspend
        && !last.map.as_ref().is_some_and(is_ahead)
    {
        let lead = facts.lead.plus(error.unwrap_or_default());
        match timeline.spec.next_map(last.map.as_ref(), generation, now.after(lead)) {
            Ok(next) => match last.map.clone().filter(|map| map.goes_on_as(&next)) {
                // Nothing about the clocks has changed.
                Some(map) => status.map = Some(AgreedMap { generation, ..map }),
                None => {
                    status.previous = last.map;
                    status.map = Some(next);
                    status.lead = Some(text(lead));
                    status.clock_error = error.map(text);
                }
            },
            Err(reason) => wrong = Some(reason.to_string()),
        }
    }
    status.nodes = by_node(facts, status.map.as_ref());
    status.uncovered = uncovered(facts);
    let in_force = status.nodes.iter().filter(|node| node.state.is_in_force()).count();
    status.applied_nodes = Some(format!("{in_force}/{}", status.nodes.len()));
    let shown = status.map.as_ref().map(|map| match &status.previous {
        Some(previous) if is_ahead(map) => previous.virtual_at(now),
        _ => map.virtual_at(now),
    });
    status.virtual_time = shown.map(|shown| Written::from(shown).text().to_owned());
    let (holds, reason, message, again) = verdict(facts, &status, wrong);
    let synchronized = match unsynchronized.as_slice() {
        [] => (true, "Known", "the kernels estimate the errors of all clocks".to_owned()),
        nodes => {
            (false, "Unknown", format!("nothing synchronizes the clock of {}", nodes.join(", ")))
        }
    };
    status.conditions = [
        (APPLIED, holds, reason, message),
        (SYNCHRONIZED, synchronized.0, synchronized.1, synchronized.2),
    ]
    .map(|(type_, holds, reason, message)| {
        condition(&last.conditions, type_, holds, reason, message, generation)
    })
    .into();
    Decision { status, again }
}

/// Whether the timeline matches the spec: with the reason, a message, and how soon to check again.
fn verdict(
    facts: &Facts<'_>,
    status: &TimelineStatus,
    wrong: Option<String>,
) -> (bool, &'static str, String, Duration) {
    let Facts { timeline, now, .. } = facts;
    let generation = timeline.metadata.generation.unwrap_or_default();
    if let Some(reason) = wrong {
        return (false, "Invalid", reason, RARELY);
    }
    let left = |map: &AgreedMap| {
        let left = map.host_time.value.since(*now);
        Duration::from_nanos(u64::try_from(left.0).unwrap_or(0)) + BEHIND
    };
    let Some(map) = &status.map else {
        return (false, SUSPENDED, "spec.suspend is true".to_owned(), RARELY);
    };
    if map.host_time.value > *now {
        let at = map.host_time.text();
        return (false, CHANGING, format!("takes hold at {at}"), left(map));
    }
    if map.generation != generation {
        return (false, SUSPENDED, "spec.suspend is true".to_owned(), RARELY);
    }
    if timeline.spec.skip_idle && status.nodes.len() > 1 {
        let message = "skipIdle needs all members on one node: each skips time by itself";
        return (false, "SeveralNodes", message.to_owned(), RARELY);
    }
    let of = |state: NodeState| {
        let nodes = status.nodes.iter().filter(move |node| node.state == state);
        let named = |node: &NodeStatus| match &node.last_report {
            Some(since) => format!("{} since {since}", node.name),
            None => node.name.clone(),
        };
        nodes.map(named).collect::<Vec<_>>().join(", ")
    };
    let awaits = now.since(map.host_time.value) < GRACE;
    for (state, reason, message) in [
        (NodeState::Failed, "Failed", "cannot make the change"),
        (NodeState::Held, "Held", "were too late and stand still until the next change"),
        (NodeState::NoAgent, "NoAgent", "have members but no agent that reports"),
        (NodeState::Pending, "Waiting", "have not acknowledged the change"),
        (NodeState::Acknowledged, "Waiting", "have not reported that the change has taken hold"),
    ] {
        let nodes = of(state);
        if !nodes.is_empty() {
            let is_awaited =
                awaits || matches!(state, NodeState::Pending | NodeState::Acknowledged);
            let again = if is_awaited { SOON } else { RARELY };
            return (false, reason, format!("nodes {message}: {nodes}"), again);
        }
    }
    match (status.nodes.is_empty(), of(NodeState::CaughtUp)) {
        (true, _) => (true, "NoMembers", "no pod is a member".to_owned(), RARELY),
        (false, late) if late.is_empty() => {
            (true, "Applied", format!("on {} nodes", status.nodes.len()), RARELY)
        }
        (false, late) => (true, "CaughtUp", format!("nodes were late: {late}"), RARELY),
    }
}

/// The progress of each node with members.
fn by_node(facts: &Facts<'_>, map: Option<&AgreedMap>) -> Vec<NodeStatus> {
    let uid = facts.timeline.uid();
    let at = map.map(|map| map.host_time.text());
    let of = |(name, members): (&String, &usize)| {
        let found = facts.reports.iter().find(|node| node.name_any() == *name);
        let base = NodeStatus { name: name.clone(), members: *members, ..NodeStatus::default() };
        let Some(node) = found.filter(|node| node.is_alive) else {
            let last_report = found.map(|node| node.spec.renew_time.clone());
            return NodeStatus { state: NodeState::NoAgent, last_report, ..base };
        };
        let uncovered = attached(node, uid.as_ref()).filter(|it| !it.covered).take(NAMED);
        let base = NodeStatus { uncovered: uncovered.filter_map(named).collect(), ..base };
        let reported = node.spec.timelines.iter().find(|it| Some(&it.uid) == uid.as_ref());
        match reported.filter(|it| it.host_time.as_deref() == at) {
            None => base,
            Some(it) => NodeStatus {
                state: it.state,
                late: it.late_ns.map(|late| text(Nanos(late))),
                message: it.message.clone(),
                ..base
            },
        }
    };
    facts.members.iter().map(of).collect()
}

/// The containers of a node that were not started on a timeline and follow the object with this
/// UID.
pub fn attached<'a>(
    node: &'a TimelineNode,
    uid: Option<&'a String>,
) -> impl Iterator<Item = &'a Attached> {
    node.spec.containers.iter().filter(move |it| uid.is_some_and(|uid| it.of.contains(uid)))
}

/// A container that is not covered; none if it is still being examined.
fn named(attached: &Attached) -> Option<Uncovered> {
    let Attached { pod, container, message, .. } = attached.clone();
    message.map(|reason| Uncovered { pod, container, reason })
}

/// The number of uncovered containers; none if all pods were started on the timeline.
fn uncovered(facts: &Facts<'_>) -> Option<usize> {
    let uid = facts.timeline.uid();
    let nodes = facts.reports.iter().filter(|node| node.is_alive);
    let all: Vec<_> = nodes.flat_map(|node| attached(node, uid.as_ref())).collect();
    (!all.is_empty()).then(|| all.iter().filter(|it| !it.covered).count())
}

/// The largest error of the members' nodes, and the nodes where it is unknown.
fn clock_error(facts: &Facts<'_>) -> (Option<Nanos>, Vec<String>) {
    let nodes = facts.reports.iter().filter(|node| facts.members.contains_key(&node.name_any()));
    let (mut largest, mut unknown) = (None, Vec::new());
    for node in nodes {
        match node.spec.clock_error_ns {
            Some(error) => largest = largest.max(Some(Nanos(error))),
            None => unknown.push(node.name_any()),
        }
    }
    unknown.sort();
    (largest, unknown)
}

/// A duration without the sign that offsets have.
fn text(span: Nanos) -> String {
    format_offset(span).trim_start_matches('+').to_owned()
}

/// A condition, which keeps the last transition of the previous one if unchanged.
pub fn condition(
    last: &[Condition],
    type_: &str,
    holds: bool,
    reason: &str,
    message: String,
    generation: i64,
) -> Condition {
    let status = if holds { "True" } else { "False" };
    let same = last.iter().find(|it| it.type_ == type_ && it.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(generation),
        last_transition_time: same
            .map_or_else(|| Time(Timestamp::now()), |it| it.last_transition_time.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::timeline::TimelineSpec;
    use crate::api::{Member, TimelineNodeSpec};

    const SECOND: i64 = 1_000_000_000;

    fn at(seconds: i64) -> HostInstant {
        HostInstant(Nanos::from_secs(seconds))
    }

    fn timeline(generation: i64, status: Option<TimelineStatus>, rate: &str) -> Timeline {
        let spec = TimelineSpec { rate: Some(rate.into()), ..TimelineSpec::default() };
        let mut timeline = Timeline::new("shop", spec);
        timeline.metadata.uid = Some("u".into());
        timeline.metadata.generation = Some(generation);
        timeline.status = status;
        timeline
    }

    fn node(name: &str, seconds: i64, map: Option<&AgreedMap>, state: NodeState) -> Report {
        let member = Member {
            uid: "u".into(),
            state,
            host_time: map.map(|map| map.host_time.text().into()),
            ..Member::default()
        };
        let spec = TimelineNodeSpec {
            renew_time: Written::from(at(seconds)).text().into(),
            clock_error_ns: Some(3_000_000),
            timelines: vec![member],
            containers: Vec::new(),
        };
        // One whose last report is old has stopped.
        Report { node: Arc::new(TimelineNode::new(name, spec)), is_alive: seconds >= 100 }
    }

    fn decided(
        timeline: &Timeline,
        reports: &[Report],
        seconds: i64,
    ) -> (TimelineStatus, String, bool) {
        let members = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        let lead = Nanos(SECOND);
        let facts = Facts { timeline, members: &members, reports, lead, now: at(seconds) };
        let Decision { status, .. } = decide(&facts);
        let applied = status.conditions[0].clone();
        (status, applied.reason, applied.status == "True")
    }

    #[test]
    fn a_change_is_announced_ahead_by_the_lead_and_the_error() {
        let nodes =
            [node("a", 100, None, NodeState::Pending), node("b", 100, None, NodeState::Pending)];
        let (status, reason, _) = decided(&timeline(1, None, "10"), &nodes, 100);
        let map = status.map.clone().unwrap();
        assert_eq!(map.host_time.value, at(101).after(Nanos(3_000_000)));
        assert_eq!((reason.as_str(), status.lead.as_deref()), (CHANGING, Some("1.003s")));
        assert_eq!((status.members, status.clock_error.as_deref()), (3, Some("3ms")));
        // The next one waits for its instant.
        let (waiting, ..) = decided(&timeline(2, Some(status.clone()), "20"), &nodes, 101);
        assert_eq!(waiting.map, status.map);
        let (next, ..) = decided(&timeline(2, Some(status.clone()), "20"), &nodes, 102);
        assert_eq!(next.previous, status.map);
        assert_eq!(next.map.unwrap().rate.text(), "20");
    }

    #[test]
    fn it_is_applied_once_all_nodes_say_so() {
        use NodeState::{Acknowledged, Applied, CaughtUp, Failed, Held};
        let (status, ..) = decided(&timeline(1, None, "10"), &[], 100);
        let map = status.map.clone().unwrap();
        let timeline = timeline(1, Some(status), "10");
        for (states, reason, holds) in [
            ([Applied, Applied], "Applied", true),
            ([Applied, CaughtUp], "CaughtUp", true),
            ([Applied, Acknowledged], "Waiting", false),
            ([Held, Applied], "Held", false),
            ([Failed, Held], "Failed", false),
        ] {
            let nodes =
                [node("a", 110, Some(&map), states[0]), node("b", 110, Some(&map), states[1])];
            let (_, found, is_applied) = decided(&timeline, &nodes, 110);
            assert_eq!((found.as_str(), is_applied), (reason, holds), "{states:?}");
        }
        // One that no longer reports, one that has not heard of it, and one that has never
        // reported.
        let nodes = [node("a", 110, Some(&map), Applied), node("b", 50, Some(&map), Applied)];
        let (status, reason, _) = decided(&timeline, &nodes, 110);
        assert_eq!(reason, "NoAgent");
        assert_eq!(status.nodes[0].last_report, None);
        assert_eq!(status.nodes[1].last_report.as_deref(), Some("1970-01-01T00:00:50Z"));
        let message = &status.conditions[0].message;
        assert!(message.ends_with("reports: b since 1970-01-01T00:00:50Z"), "{message}");
        let nodes = [node("a", 110, Some(&map), Applied), node("b", 110, None, Applied)];
        assert_eq!(decided(&timeline, &nodes, 110).1, "Waiting");
        assert_eq!(decided(&timeline, &nodes[..1], 110).1, "NoAgent");
    }

    #[test]
    fn what_does_not_concern_the_clocks_is_no_change() {
        let (status, ..) = decided(&timeline(1, None, "10"), &[], 100);
        let (later, ..) = decided(&timeline(2, Some(status.clone()), "10"), &[], 110);
        let (map, last) = (later.map.unwrap(), status.map.unwrap());
        assert_eq!((map.generation, map.host_time), (2, last.host_time));
    }

    #[test]
    fn what_makes_no_sense_or_is_suspended_leaves_the_map() {
        let (status, ..) = decided(&timeline(1, None, "10"), &[], 100);
        let (later, reason, _) = decided(&timeline(2, Some(status.clone()), "0"), &[], 110);
        assert_eq!((later.map.as_ref(), reason.as_str()), (status.map.as_ref(), "Invalid"));
        let mut suspended = timeline(2, Some(status.clone()), "20");
        suspended.spec.suspend = true;
        let (later, reason, _) = decided(&suspended, &[], 110);
        assert_eq!((later.map, reason.as_str()), (status.map, SUSPENDED));
    }
}
