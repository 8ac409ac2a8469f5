//! Metrics for Prometheus, of the controller and the webhook.

use std::sync::LazyLock;

use kube::ResourceExt;
use prometheus::{
    GaugeVec, IntCounter, IntCounterVec, IntGaugeVec, TextEncoder, register_gauge_vec,
    register_int_counter, register_int_counter_vec, register_int_gauge_vec,
};

use crate::api::timeline::APPLIED;
use crate::api::written::Read;
use crate::api::{Timeline, TimelineStatus};

/// The labels that identify a timeline: scrapers give `namespace` and `node` meanings of their own.
const TIMELINE: [&str; 2] = ["timeline_namespace", "timeline"];

struct Metrics {
    members: IntGaugeVec,
    rate: GaugeVec,
    offset: GaugeVec,
    applied: IntGaugeVec,
    lateness: GaugeVec,
    uncovered: IntGaugeVec,
    changes: IntCounterVec,
    failures: IntCounter,
    requests: IntCounterVec,
    refused: IntCounterVec,
}

static METRICS: LazyLock<Metrics> = LazyLock::new(|| {
    let registered = "each metric is registered once";
    Metrics {
        members: register_int_gauge_vec!(
            "eigentime_timeline_members",
            "Pods that are members, by node.",
            &[TIMELINE[0], TIMELINE[1], "timeline_node"]
        )
        .expect(registered),
        rate: register_gauge_vec!(
            "eigentime_timeline_rate",
            "Virtual seconds in a second; 0 while frozen.",
            &TIMELINE
        )
        .expect(registered),
        offset: register_gauge_vec!(
            "eigentime_timeline_offset_seconds",
            "How far the wall clock of the timeline was ahead when the status was written.",
            &TIMELINE
        )
        .expect(registered),
        applied: register_int_gauge_vec!(
            "eigentime_timeline_applied",
            "1 if the condition Applied holds, else 0.",
            &TIMELINE
        )
        .expect(registered),
        lateness: register_gauge_vec!(
            "eigentime_timeline_spread_seconds",
            "How long after its instant the last change took hold on the latest node.",
            &TIMELINE
        )
        .expect(registered),
        uncovered: register_int_gauge_vec!(
            "eigentime_timeline_not_virtualized",
            "Containers that ran before and are not covered, at least not in all processes.",
            &TIMELINE
        )
        .expect(registered),
        changes: register_int_counter_vec!(
            "eigentime_timeline_changes_total",
            "Changes that were announced.",
            &TIMELINE
        )
        .expect(registered),
        failures: register_int_counter!(
            "eigentime_controller_failures_total",
            "Attempts that are made again later."
        )
        .expect(registered),
        requests: register_int_counter_vec!(
            "eigentime_api_requests_total",
            "Requests to the API server, by method.",
            &["method"]
        )
        .expect(registered),
        refused: register_int_counter_vec!(
            "eigentime_admission_refused_total",
            "Objects that the webhook has refused, by kind.",
            &["resource"]
        )
        .expect(registered),
    }
});

/// Exports the metrics from the beginning, those without labels as 0.
pub fn register() {
    LazyLock::force(&METRICS);
}

/// Counts something that is retried later.
pub fn failed() {
    METRICS.failures.inc();
}

/// Counts a request to the API server.
pub fn asked(method: &str) {
    METRICS.requests.with_label_values(&[method]).inc();
}

/// Counts a refused object.
pub fn refused(resource: &str) {
    METRICS.refused.with_label_values(&[resource]).inc();
}

/// Records a written status.
pub fn of_status(timeline: &Timeline, status: &TimelineStatus) {
    let (namespace, name) = (timeline.namespace().unwrap_or_default(), timeline.name_any());
    let labels = [namespace.as_str(), name.as_str()];
    for node in &status.nodes {
        let labels = [labels[0], labels[1], &node.name];
        METRICS.members.with_label_values(&labels).set(node.members as i64);
    }
    let last = timeline.status.as_ref();
    for node in last.into_iter().flat_map(|last| &last.nodes) {
        if !status.nodes.iter().any(|it| it.name == node.name) {
            // It is already gone after another status.
            let _ = METRICS.members.remove_label_values(&[labels[0], labels[1], &node.name]);
        }
    }
    let holds = status.conditions.iter().any(|it| it.type_ == APPLIED && it.status == "True");
    METRICS.applied.with_label_values(&labels).set(i64::from(holds));
    let uncovered = status.uncovered.unwrap_or(0);
    METRICS.uncovered.with_label_values(&labels).set(uncovered as i64);
    let late = status.nodes.iter().filter_map(|node| node.late.as_deref());
    let late = late.filter_map(|late| eigentime_timeline::Nanos::read(late).ok()).max();
    METRICS.lateness.with_label_values(&labels).set(seconds(late.unwrap_or_default()));
    let Some(map) = &status.map else { return };
    let ratio = map.rate.value.virtual_span(eigentime_timeline::Nanos::from_secs(1_000));
    let rate = if map.frozen { 0.0 } else { seconds(ratio) / 1_000.0 };
    METRICS.rate.with_label_values(&labels).set(rate);
    let now = crate::clock::now();
    let ahead = map.virtual_at(now).0.minus(now.0);
    METRICS.offset.with_label_values(&labels).set(seconds(ahead));
    let is_new =
        last.and_then(|last| last.map.as_ref()).is_none_or(|last| last.host_time != map.host_time);
    METRICS.changes.with_label_values(&labels).inc_by(u64::from(is_new));
}

fn seconds(span: eigentime_timeline::Nanos) -> f64 {
    span.0 as f64 / 1e9
}

/// Removes a deleted timeline.
pub fn forget(timeline: &Timeline) {
    let (namespace, name) = (timeline.namespace().unwrap_or_default(), timeline.name_any());
    let labels = [namespace.as_str(), name.as_str()];
    let nodes = timeline.status.iter().flat_map(|status| &status.nodes);
    // A label that was never set cannot be removed.
    for node in nodes {
        let _ = METRICS.members.remove_label_values(&[labels[0], labels[1], &node.name]);
    }
    for gauge in [&METRICS.rate, &METRICS.offset, &METRICS.lateness] {
        let _ = gauge.remove_label_values(&labels);
    }
    for gauge in [&METRICS.applied, &METRICS.uncovered] {
        let _ = gauge.remove_label_values(&labels);
    }
    let _ = METRICS.changes.remove_label_values(&labels);
}

/// All metrics in Prometheus's text format.
#[must_use]
pub fn text() -> String {
    TextEncoder::new().encode_to_string(&prometheus::gather()).expect("metrics are text")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::timeline::{NodeStatus, TimelineSpec};

    /// The names of metrics in a text.
    fn names(text: &str) -> BTreeSet<String> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let is_name = |word: &&str| {
            let ours = [
                "eigentime_timeline_",
                "eigentime_controller_",
                "eigentime_admission_",
                "eigentime_api_",
            ];
            ours.iter().any(|prefix| word.starts_with(prefix))
        };
        words.filter(is_name).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_told_is_what_is_looked_at() {
        let at = eigentime_timeline::HostInstant::from_nanos(0);
        let timeline = Timeline::new("shop", TimelineSpec::default());
        let map = timeline.spec.next_map(None, 1, at).unwrap();
        let nodes = vec![NodeStatus { name: "a".into(), members: 2, ..NodeStatus::default() }];
        let status = TimelineStatus { map: Some(map), nodes, ..TimelineStatus::default() };
        of_status(&timeline, &status);
        failed();
        asked("GET");
        refused("pods");
        let told = text();
        assert!(
            told.contains(r#"eigentime_timeline_members{timeline="shop",timeline_namespace="",timeline_node="a"} 2"#),
            "{told}"
        );
        for looked_at in [
            include_str!("../../../deploy/kubernetes/monitoring/alerts.yaml"),
            include_str!("../../../deploy/kubernetes/monitoring/dashboard.json"),
            include_str!("../../../docs/kubernetes/timelines.md"),
        ] {
            let missing: Vec<_> = names(looked_at).difference(&names(&told)).cloned().collect();
            assert!(missing.is_empty(), "nobody tells {missing:?}");
        }
        let timeline = Timeline { status: Some(status), ..timeline };
        forget(&timeline);
        assert!(!text().contains("shop"), "{}", text());
    }
}
