//! A shift of the wall clock of running containers, in the form of Chaos Mesh's TimeChaos.

#![allow(clippy::duplicated_attributes, reason = "the columns of a table have the same attributes")]

use std::collections::BTreeMap;
use std::time::Duration;

use eigentime_timeline::Nanos;
use eigentime_timeline::text::parse_offset;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelectorRequirement};
use kube::{CustomResource, KubeSchema, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The condition that containers were selected.
pub const SELECTED: &str = "Selected";
/// The condition that the clocks of all of them are shifted.
pub const ALL_INJECTED: &str = "AllInjected";
/// The condition that the clocks of all of them are the node's again.
pub const ALL_RECOVERED: &str = "AllRecovered";
/// The condition that the clocks are not shifted because an annotation says so.
pub const PAUSED: &str = "Paused";

/// The annotation with which users pause it.
const PAUSE: &str = "experiment.chaos-mesh.org/pause";

/// A shift of the wall clock of running containers. The spec is that of Chaos Mesh's TimeChaos.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "eigentime.io",
    version = "v1alpha1",
    kind = "TimeChaos",
    plural = "timechaos",
    namespaced,
    status = "TimeChaosStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Offset", type_ = "string", json_path = ".spec.timeOffset"),
    printcolumn(name = "Duration", type_ = "string", json_path = ".spec.duration"),
    printcolumn(name = "Desired", type_ = "string", json_path = ".status.experiment.desiredPhase"),
    printcolumn(
        name = "Injected",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="AllInjected")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("the spec of a TimeChaos cannot be changed: delete it and make another"),
    validation = Rule::new("self.mode in ['one', 'all'] || (has(self.value) && self.value.matches('^[1-9][0-9]{0,8}$') && (self.mode == 'fixed' || int(self.value) <= 100))")
        .message("mode fixed needs a value of at least 1, fixed-percent and random-max-percent one from 1 to 100"),
    validation = Rule::new("!has(self.clockIds) || self.clockIds.all(clock, clock in ['CLOCK_REALTIME', 'CLOCK_REALTIME_COARSE', 'CLOCK_REALTIME_ALARM'])")
        .message("only the wall clock can be shifted: monotonic clocks would step back on recovery, and clocks of processor time are not virtualized"),
    validation = Rule::new("!has(self.clockIds) || self.clockIds.size() == 0 || 'CLOCK_REALTIME' in self.clockIds")
        .message("CLOCK_REALTIME_COARSE and CLOCK_REALTIME_ALARM are other forms of CLOCK_REALTIME: name that, too"),
    validation = Rule::new("!has(self.remoteCluster) || self.remoteCluster == ''")
        .message("remoteCluster is not supported: make the object in that cluster"),
)]
pub struct TimeChaosSpec {
    /// The pods to choose from.
    pub selector: PodSelector,
    /// How many of them to affect.
    pub mode: Mode,
    /// The number for mode fixed, or the percentage for fixed-percent and random-max-percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub value: Option<String>,
    /// The containers to affect in each pod; by default, the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_names: Vec<String>,
    /// How far to shift the wall clock: -10m100ns, 1.5h. Units are ns, us, ms, s, m and h.
    #[schemars(
        length(max = 64),
        regex(pattern = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$")
    )]
    pub time_offset: String,
    /// The clocks to shift: CLOCK_REALTIME and its variants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub clock_ids: Vec<ClockId>,
    /// How long to shift them, from the creation of the object on; by default, forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 64),
        regex(pattern = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)?$")
    )]
    pub duration: Option<String>,
    /// Not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub remote_cluster: Option<String>,
}

/// The pods to choose from: those that meet all of these conditions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSelector {
    /// They are in one of these namespaces; by default, in that of the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// They have these fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub field_selectors: BTreeMap<String, String>,
    /// They have these labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub label_selectors: BTreeMap<String, String>,
    /// Their labels match these expressions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expression_selectors: Vec<LabelSelectorRequirement>,
    /// They have these annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotation_selectors: BTreeMap<String, String>,
    /// They are on one of these nodes, or on one that nodeSelectors selects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// They are on a node with these labels, or on one that nodes lists.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selectors: BTreeMap<String, String>,
    /// They are in one of these phases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_phase_selectors: Vec<String>,
    /// The names of the pods, by namespace; the other conditions are then ignored.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, Vec<String>>,
}

/// How many of the pods to affect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One, at random.
    #[default]
    One,
    /// All.
    All,
    /// This many, at random.
    Fixed,
    /// This percentage, at random.
    FixedPercent,
    /// Of a random percentage up to this one, at random.
    RandomMaxPercent,
}

/// A kernel clock, by its name in Chaos Mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "clock_gettime(2) has them")]
pub enum ClockId {
    ClockRealtime,
    ClockMonotonic,
    ClockProcessCputimeId,
    ClockThreadCputimeId,
    ClockMonotonicRaw,
    ClockRealtimeCoarse,
    ClockMonotonicCoarse,
    ClockBoottime,
    ClockRealtimeAlarm,
    ClockBoottimeAlarm,
}

/// The state of a TimeChaos.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TimeChaosStatus {
    /// Selected, AllInjected, AllRecovered and Paused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The desired state, and the progress towards it.
    pub experiment: Experiment,
}

/// The desired state, and the progress towards it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Experiment {
    /// Whether the clocks should be shifted.
    pub desired_phase: DesiredPhase,
    /// The containers that were selected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_records: Vec<Record>,
}

/// Whether clocks should be shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DesiredPhase {
    /// They should be shifted.
    #[default]
    Run,
    /// They should be the node's.
    Stop,
}

/// A container that was selected.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Namespace, pod and container.
    pub id: String,
    /// The selector that has found it: there is only one.
    #[serde(default)]
    pub selector_key: String,
    /// Whether its clock is shifted.
    #[serde(default)]
    pub phase: Phase,
    /// Why it is not shifted, or what is not covered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Whether a clock is shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// It is not shifted.
    #[default]
    #[serde(rename = "Not Injected")]
    NotInjected,
    /// It is shifted.
    Injected,
}

/// The id of a container's record.
#[must_use]
pub fn record_id(namespace: &str, pod: &str, container: &str) -> String {
    format!("{namespace}/{pod}/{container}")
}

impl TimeChaos {
    /// The shift of the wall clock.
    ///
    /// # Errors
    ///
    /// If the text is invalid.
    pub fn offset(&self) -> Result<Nanos, String> {
        parse_go_duration(&self.spec.time_offset)
    }

    /// The duration of the shift.
    ///
    /// # Errors
    ///
    /// If the text is invalid.
    pub fn duration(&self) -> Result<Option<Duration>, String> {
        let text = self.spec.duration.as_deref().filter(|text| !text.is_empty());
        let span = text.map(parse_go_duration).transpose()?;
        Ok(span.map(|span| Duration::from_nanos(span.0.unsigned_abs())))
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.annotations().get(PAUSE).is_some_and(|value| value == "true")
    }

    /// Whether a container's clock is to be shifted.
    #[must_use]
    pub fn concerns(&self, record: &str) -> bool {
        let experiment = self.status.as_ref().map(|status| &status.experiment);
        self.metadata.deletion_timestamp.is_none()
            && experiment.is_some_and(|it| {
                it.desired_phase == DesiredPhase::Run
                    && it.container_records.iter().any(|one| one.id == record)
            })
    }
}

/// Parses a duration as Go writes it: numbers with units, in any order, optionally with fractions.
fn parse_go_duration(text: &str) -> Result<Nanos, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let (mut rest, mut sum) = (unsigned, Nanos::ZERO);
    while !rest.is_empty() {
        let unit = rest.find(|letter| !is_number(letter)).unwrap_or(rest.len());
        let end = rest[unit..].find(is_number).map_or(rest.len(), |length| unit + length);
        let (number, name) = (&rest[..unit], &rest[unit..end]);
        // Go allows omitting digits on either side of the point, and has two signs for micro.
        let part =
            format!("0{}{}", number.trim_end_matches('.'), name.replace('\u{3bc}', "\u{b5}"));
        let part = parse_offset(&part).map_err(|error| format!("{text}: {error}"))?;
        sum = Nanos(sum.0.checked_add(part.0).ok_or_else(|| format!("{text}: it is too long"))?);
        rest = &rest[end..];
    }
    Ok(if text.starts_with('-') { Nanos(-sum.0) } else { sum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_go_reads_them() {
        const SECOND: i64 = 1_000_000_000;
        for (text, expected) in [
            ("-10m100ns", -(600 * SECOND + 100)),
            ("1.5h30m", 2 * 3600 * SECOND),
            ("1s1h", 3601 * SECOND),
            ("300ms", 300_000_000),
            ("+.5s", SECOND / 2),
            ("1.s", SECOND),
            ("2\u{3bc}s2\u{b5}s2us", 6_000),
            ("0", 0),
        ] {
            assert_eq!(parse_go_duration(text), Ok(Nanos(expected)), "{text}");
        }
        for wrong in ["fast", "1y", "9999999h", "2562047h1h"] {
            parse_go_duration(wrong).unwrap_err();
        }
    }

    #[test]
    fn only_what_is_to_be_shifted_is() {
        let mut chaos = TimeChaos::new("skew", TimeChaosSpec::default());
        assert!(!chaos.concerns("a/b/c"));
        let record = Record { id: record_id("a", "b", "c"), ..Record::default() };
        let mut experiment =
            Experiment { container_records: vec![record], ..Experiment::default() };
        chaos.status =
            Some(TimeChaosStatus { experiment: experiment.clone(), ..Default::default() });
        assert!(chaos.concerns("a/b/c") && !chaos.concerns("a/b/d"));
        experiment.desired_phase = DesiredPhase::Stop;
        chaos.status = Some(TimeChaosStatus { experiment, ..Default::default() });
        assert!(!chaos.concerns("a/b/c"));
        let annotations = [(PAUSE.to_owned(), "true".to_owned())];
        chaos.metadata.annotations = Some(annotations.into());
        assert!(chaos.is_paused());
    }
}
