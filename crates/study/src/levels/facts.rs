//! What is known of a level.

use std::collections::BTreeMap;

use eigentime_doctor::Report;
use serde::{Deserialize, Serialize};

/// What is known of a level.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelFacts {
    /// How it was made: `accelerator`, `namespaces`, …
    pub notes: BTreeMap<String, String>,
    /// What the doctor said there, before the first measurement.
    pub facts: Option<Report>,
    /// Why it could not be had, if it could not.
    pub unavailable: Option<String>,
}
