//! The JSON report, parsed again.

use std::fs;

use serde_json::Value;

use crate::command::Finished;
use crate::suite::Broken;
use crate::workspace;

/// The doctor's report, which conforms to the schema.
pub struct Report(Value);

impl Report {
    /// Reads and validates it.
    pub fn read(finished: &Finished) -> Result<Self, Broken> {
        let report: Value = serde_json::from_str(&finished.output())
            .map_err(|error| finished.broken(format_args!("no JSON: {error}")))?;
        let schema = fs::read_to_string(workspace::root().join("docs/doctor/schema.json"))?;
        let schema: Value = serde_json::from_str(&schema)?;
        let validator = jsonschema::validator_for(&schema)?;
        let errors: Vec<_> = validator.iter_errors(&report).map(|it| it.to_string()).collect();
        finished.ensure(errors.is_empty(), format_args!("not of the schema: {errors:?}"))?;
        Ok(Self(report))
    }

    /// The worst verdict.
    pub fn verdict(&self) -> &str {
        self.0["verdict"].as_str().unwrap_or_default()
    }

    /// The keys of the checks.
    pub fn keys(&self) -> Vec<&str> {
        self.findings().filter_map(|finding| finding["key"].as_str()).collect()
    }

    /// The verdict of a check.
    pub fn verdict_of(&self, key: &str) -> Result<&str, Broken> {
        let verdict = self.finding(key)?["verdict"].as_str();
        verdict.ok_or_else(|| Broken(format!("{key} has no verdict")))
    }

    /// A fact of a check, with labels.
    pub fn fact(&self, key: &str, name: &str, labels: &[(&str, &str)]) -> Result<&Value, Broken> {
        let facts = self.finding(key)?["facts"].as_array().into_iter().flatten();
        let mut facts = facts.filter(|fact| fact["name"] == name);
        let is_it =
            |fact: &&Value| labels.iter().all(|(label, value)| fact["labels"][*label] == *value);
        let fact = facts.find(is_it);
        fact.ok_or_else(|| Broken(format!("{key} has no fact {name} {labels:?}\n{:#}", self.0)))
    }

    /// Whether a call makes a system call, according to the oracle.
    pub fn falls_back(&self, function: &str, clock: &str) -> Result<bool, Broken> {
        let labels = [("function", function), ("clock", clock)];
        let fact = self.fact("clock-reads", "clock_falls_back", &labels)?;
        let flag = fact["flag"].as_bool();
        flag.ok_or_else(|| Broken(format!("it is not known who serves {function} {clock}: {fact}")))
    }

    /// The cost of the vDSO's function for a clock, in nanoseconds.
    pub fn cost(&self, clock: &str) -> Result<f64, Broken> {
        let fact =
            self.fact("clock-reads", "clock_read_ns", &[("clock", clock), ("by", "vdso")])?;
        let number = fact["number"].as_f64();
        number.ok_or_else(|| Broken(format!("what {clock} costs is not known: {fact}")))
    }

    fn findings(&self) -> impl Iterator<Item = &Value> {
        self.0["findings"].as_array().into_iter().flatten()
    }

    fn finding(&self, key: &str) -> Result<&Value, Broken> {
        let finding = self.findings().find(|finding| finding["key"] == key);
        finding.ok_or_else(|| Broken(format!("no finding {key}\n{:#}", self.0)))
    }
}
