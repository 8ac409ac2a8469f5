//! What is known of a level.

use std::collections::BTreeMap;

use eigentime_doctor::Report;
use serde::{Deserialize, Serialize};

/// The properties of a level.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelFacts {
    /// How it was set up: `accelerator`, `namespaces`, …
    pub notes: BTreeMap<String, String>,
    /// The doctor's report there, from before the first measurement.
    pub facts: Option<Report>,
    /// Why it was not available, if it was not.
    pub unavailable: Option<String>,
}
