//! The result of a check.

use serde::{Deserialize, Serialize};

use crate::facts::{Fact, Value};
use crate::machine::Unknown;

/// A verdict, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Worth knowing, or unknown.
    Note,
    /// Time costs more or is less precise than it could be.
    Warning,
    /// Time is wrong, or something cannot work.
    Problem,
}

/// The topic of a finding, by which the page is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// The cost of reading clocks, and its reasons.
    Clocks,
    /// Clocks that go backwards.
    Order,
    /// Programs that adjust the clocks.
    Discipline,
    /// Timers and wake-ups.
    Timers,
    /// Hypervisor, container, namespaces, control groups.
    Surroundings,
    /// The requirements of timelines and containers.
    Containers,
}

impl Verdict {
    /// All verdicts, from good to bad.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Note, Self::Warning, Self::Problem];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl Topic {
    /// All topics, in the order of the page.
    pub const ALL: [Self; 6] = [
        Self::Clocks,
        Self::Order,
        Self::Discipline,
        Self::Timers,
        Self::Surroundings,
        Self::Containers,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clocks => "clocks",
            Self::Order => "order",
            Self::Discipline => "discipline",
            Self::Timers => "timers",
            Self::Surroundings => "surroundings",
            Self::Containers => "containers",
        }
    }
}

/// A remedy, and its risk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Advice {
    /// What to do.
    pub what: String,
    /// What may go wrong; empty if nothing can.
    #[serde(default)]
    pub risk: String,
}

/// Where something is documented.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Link {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
}

/// The finding of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Finding {
    /// The check's ID, for `--only` and `--explain`.
    pub key: String,
    /// The check's topic.
    pub topic: Topic,
    /// The verdict.
    pub verdict: Verdict,
    /// The finding, in a sentence.
    pub found: String,
    /// The details, one line each: the chain of causes, a row for each clock.
    #[serde(default)]
    pub lines: Vec<String>,
    /// The remedies.
    #[serde(default)]
    pub advice: Vec<Advice>,
    /// The sources of the advice.
    #[serde(default)]
    pub links: Vec<Link>,
    /// The facts, for programs.
    #[serde(default)]
    pub facts: Vec<Fact>,
}

impl Finding {
    /// A finding with this verdict and sentence. Its key and topic are filled in from the table.
    pub fn new(verdict: Verdict, found: impl Into<String>) -> Self {
        Self {
            key: String::new(),
            topic: Topic::Clocks,
            verdict,
            found: found.into(),
            lines: Vec::new(),
            advice: Vec::new(),
            links: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// As it should be.
    pub fn ok(found: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, found)
    }

    /// Worth knowing.
    pub fn note(found: impl Into<String>) -> Self {
        Self::new(Verdict::Note, found)
    }

    /// Costlier or less precise than it could be.
    pub fn warning(found: impl Into<String>) -> Self {
        Self::new(Verdict::Warning, found)
    }

    /// Wrong, or unable to work.
    pub fn problem(found: impl Into<String>) -> Self {
        Self::new(Verdict::Problem, found)
    }

    /// A fact that could not be read.
    pub fn unknown(what: &str, why: &Unknown) -> Self {
        Self::note(format!("{what} is unknown: {why}"))
    }

    /// Adds a line.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Adds advice; `risk` is empty if there is none.
    #[must_use]
    pub fn advise(mut self, what: impl Into<String>, risk: impl Into<String>) -> Self {
        self.advice.push(Advice { what: what.into(), risk: risk.into() });
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn fact(self, name: &str, value: impl Into<Value>) -> Self {
        self.fact_of(name, &[], value)
    }

    /// Adds a fact of one of several objects.
    #[must_use]
    pub fn fact_of(mut self, name: &str, labels: &[(&str, &str)], value: impl Into<Value>) -> Self {
        let labels = labels.iter().map(|(label, of)| ((*label).into(), (*of).into())).collect();
        let value = value.into();
        // Whatever machine a test makes up, a name is known and always of one kind.
        #[cfg(test)]
        if let (Some((known, _)), Some(kind)) = (crate::facts::of(name), value.kind()) {
            assert_eq!(kind, known, "{name}");
        } else {
            let is_known = crate::facts::of(name).is_some() || name.starts_with("made_up_");
            assert!(is_known, "{name} is not in the table of facts");
        }
        self.facts.push(Fact { name: name.into(), labels, value });
        self
    }
}

/// The findings of all checks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Report {
    /// The version of this format.
    pub schema: u32,
    /// The version of Eigentime.
    pub version: String,
    /// The worst of all verdicts.
    pub verdict: Verdict,
    /// The finding of each check, in the order of the page.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The version of the format that this code writes.
    pub const SCHEMA: u32 = 1;

    /// The report of these findings.
    pub fn of(findings: Vec<Finding>) -> Self {
        let verdict = findings.iter().map(|finding| finding.verdict).max();
        Self {
            schema: Self::SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            verdict: verdict.unwrap_or(Verdict::Ok),
            findings,
        }
    }
}
