//! The report for Prometheus, through the textfile collector of its node_exporter.
//!
//! Verdicts are [`VERDICT`]; a fact `NAME` is `eigentime_doctor_NAME` with the label `check` and
//! its own labels. Units become those of Prometheus: `clock_read_ns` becomes
//! `…_clock_read_seconds`. Flags are 0 or 1; a text is the label `value` of `…_info`, which is
//! always 1; an unknown fact is [`UNKNOWN`], and never a number.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

pub use prometheus::Error;
use prometheus::TextEncoder;
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};

use crate::{Fact, Report, Value, Verdict, facts};

/// The verdict of each check: 0 ok, 1 note, 2 warning, 3 problem.
pub const VERDICT: &str = "eigentime_doctor_verdict";
/// The facts that cannot be read: always 1.
pub const UNKNOWN: &str = "eigentime_doctor_fact_unknown";

/// The prefix of the names of facts.
const PREFIX: &str = "eigentime_doctor_";

/// The suffixes of names, their replacements, and the divisors of the numbers.
const UNITS: [(&str, &str, f64); 6] = [
    ("_ns", "_seconds", 1e9),
    ("_us", "_seconds", 1e6),
    ("_ms", "_seconds", 1e3),
    ("_ppm", "_ratio", 1e6),
    ("_ppb", "_ratio", 1e9),
    ("_percent", "_ratio", 1e2),
];

/// The report in the text format. `at` is when it was created.
///
/// # Errors
/// If a name is not allowed by Prometheus.
pub fn text(report: &Report, at: SystemTime) -> Result<String, Error> {
    let mut families = Families::default();
    let made = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    families.add(
        "eigentime_doctor_info",
        "Which Eigentime has looked: always 1.",
        &[("version", &report.version)],
        1.0,
    );
    families.add(
        "eigentime_doctor_last_run_timestamp_seconds",
        "When it has looked, in seconds since the epoch.",
        &[],
        made,
    );
    families.add(
        "eigentime_doctor_worst_verdict",
        "The worst of all verdicts: 0 ok, 1 note, 2 warning, 3 problem.",
        &[],
        number(report.verdict),
    );
    for finding in &report.findings {
        families.add(
            VERDICT,
            "How it stands with what a check looks at: 0 ok, 1 note, 2 warning, 3 problem.",
            &[("check", &finding.key), ("topic", finding.topic.name())],
            number(finding.verdict),
        );
        for fact in &finding.facts {
            families.add_fact(&finding.key, fact);
        }
    }
    families.text()
}

fn number(verdict: Verdict) -> f64 {
    f64::from(verdict as u8)
}

/// Metrics by their names, all of them gauges.
#[derive(Default)]
pub struct Families(BTreeMap<String, MetricFamily>);

impl Families {
    /// Adds a sample. Labels without a value are omitted.
    pub fn add(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let family = self.0.entry(name.to_owned()).or_insert_with(|| {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(help.to_owned());
            family.set_field_type(MetricType::GAUGE);
            family
        });
        let labels = labels.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| {
            let mut label = LabelPair::default();
            label.set_name((*name).to_owned());
            label.set_value((*value).to_owned());
            label
        });
        let labels: Vec<_> = labels.collect();
        // The collector rejects a file with duplicates.
        if family.get_metric().iter().any(|metric| metric.get_label() == labels) {
            return;
        }
        let (mut metric, mut gauge) = (Metric::default(), Gauge::default());
        gauge.set_value(value);
        metric.set_label(labels);
        metric.set_gauge(gauge);
        family.mut_metric().push(metric);
    }

    fn add_fact(&mut self, check: &str, fact: &Fact) {
        let mut labels = vec![("check", check)];
        labels.extend(fact.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let (name, divisor) = named(&fact.name);
        let help = help(fact, &name);
        match &fact.value {
            Value::Count(count) => self.add(&name, &help, &labels, *count as f64 / divisor),
            Value::Number(number) => self.add(&name, &help, &labels, number / divisor),
            Value::Flag(flag) => self.add(&name, &help, &labels, f64::from(u8::from(*flag))),
            Value::Text(text) => {
                labels.push(("value", text));
                self.add(&format!("{PREFIX}{}_info", fact.name), &help, &labels, 1.0);
            }
            Value::Unknown(_) => {
                labels.push(("fact", &fact.name));
                self.add(UNKNOWN, "What cannot be read here: always 1.", &labels, 1.0);
            }
        }
    }

    /// All metrics in the text format.
    ///
    /// # Errors
    /// If a name is not allowed by Prometheus.
    pub fn text(self) -> Result<String, Error> {
        TextEncoder::new().encode_to_string(&self.0.into_values().collect::<Vec<_>>())
    }
}

/// The description of a fact as a sentence, with the unit of its metric.
fn help(fact: &Fact, metric: &str) -> String {
    const ENDS: [(&str, &str); 2] =
        [("_seconds", ", in seconds"), ("_ratio", ", as a ratio (1 is the whole)")];
    let what = facts::of(&fact.name).map_or("A fact of eigentime doctor", |(_, what)| what);
    let end = match &fact.value {
        Value::Flag(_) => ": 1 if so, 0 if not",
        Value::Text(_) => ", as the label value: always 1",
        _ => ENDS.iter().find(|(end, _)| metric.ends_with(end)).map_or("", |(_, says)| says),
    };
    format!("{what}{end}.")
}

/// The name of a fact's metric, and the divisor of its number.
fn named(fact: &str) -> (String, f64) {
    let converted = UNITS.iter().find_map(|(end, becomes, divisor)| {
        let stem = fact.strip_suffix(end)?;
        Some((format!("{PREFIX}{stem}{becomes}"), *divisor))
    });
    converted.unwrap_or_else(|| (format!("{PREFIX}{fact}"), 1.0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::machine::Unknown;
    use crate::{Finding, Machine, Options, Topic};

    fn made_up() -> Report {
        let finding = Finding::warning("it is slow")
            .fact_of("clock_read_ns", &[("clock", "CLOCK_REALTIME"), ("by", "vdso")], 560.5)
            .fact_of("clock_falls_back", &[("clock", "CLOCK_REALTIME")], true)
            .fact("clocksource", "he \"said\"\\so\n")
            .fact("made_up_offset_ppm", 12.5)
            .fact("made_up_demotions", 3_u32)
            .fact("made_up_mode", Err::<u32, _>(Unknown::because("no such file")));
        let finding = Finding { key: "clocks".into(), topic: Topic::Clocks, ..finding };
        Report { version: "1.2.3".into(), ..Report::of(vec![finding]) }
    }

    #[test]
    fn a_report_becomes_metrics() {
        let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_500);
        let text = text(&made_up(), at).unwrap();
        let expected = [
            "eigentime_doctor_info{version=\"1.2.3\"} 1",
            "eigentime_doctor_last_run_timestamp_seconds 1700000000.5",
            "eigentime_doctor_worst_verdict 2",
            "# TYPE eigentime_doctor_verdict gauge",
            "# HELP eigentime_doctor_clock_read_seconds Median cost of a call, in seconds.",
            "eigentime_doctor_verdict{check=\"clocks\",topic=\"clocks\"} 2",
            "eigentime_doctor_clock_falls_back{check=\"clocks\",clock=\"CLOCK_REALTIME\"} 1",
            "eigentime_doctor_clocksource_info{check=\"clocks\",value=\"he \\\"said\\\"\\\\so\\n\"} 1",
            "eigentime_doctor_made_up_offset_ratio{check=\"clocks\"} 0.0000125",
            "eigentime_doctor_made_up_demotions{check=\"clocks\"} 3",
            "eigentime_doctor_fact_unknown{check=\"clocks\",fact=\"made_up_mode\"} 1",
        ];
        for line in expected {
            assert!(text.lines().any(|it| it == line), "no line {line}\n{text}");
        }
        let cost = "eigentime_doctor_clock_read_seconds{by=\"vdso\",check=\"clocks\",\
                    clock=\"CLOCK_REALTIME\"} ";
        let cost = text.lines().find_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            let (name, labels) = name.split_once('{')?;
            let is_it = cost.starts_with(name) && labels.contains("by=\"vdso\"");
            is_it.then(|| value.parse::<f64>().ok()).flatten()
        });
        assert!((cost.unwrap() - 560.5e-9).abs() < 1e-15, "{text}");
    }

    #[test]
    fn nothing_is_said_twice_and_everything_is_explained() {
        let options = Options {
            warp: Duration::from_millis(10),
            wake_ups: Duration::from_millis(10),
            costs: Duration::from_millis(1),
            ..Options::default()
        };
        let report = crate::examine(&Machine::default(), &options, |_| {});
        let text = text(&report, SystemTime::now()).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<_> = samples.map(|line| line.rsplit_once(' ').unwrap().0).collect();
        let different: BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        for name in &names {
            let family = name.split('{').next().unwrap();
            assert!(text.contains(&format!("# HELP {family} ")), "{family}");
            assert!(text.contains(&format!("# TYPE {family} gauge")), "{family}");
        }
        let mut facts = BTreeSet::new();
        for finding in &report.findings {
            for fact in &finding.facts {
                let is_new = facts.insert((&finding.key, &fact.name, &fact.labels));
                assert!(is_new, "{} says {fact:?} twice", finding.key);
            }
        }
    }
}
