//! How engines identify a container.

use serde::{Deserialize, Serialize};

use crate::lifelong::Lifelong;

/// A container, as its engine identifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Container {
    /// Its ID, by which the OCI runtime knows it.
    pub id: String,
    /// Where the runtime keeps its containers, if not in the usual place: elsewhere, another
    /// container can have the same ID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root: String,
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether its runtime is in its time namespace, because it could not enter that itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherits_time: bool,
    /// Why it is traced for its whole life, if its creator requests that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifelong: Option<Lifelong>,
}

impl Container {
    /// Whether it is the same container, ignoring everything else known of it.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        (&self.id, &self.root) == (&other.id, &other.root)
    }
}

impl std::fmt::Display for Container {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// How many characters of an ID engines show.
        const SHOWN: usize = 12;
        // IDs that Eigentime makes are short and descriptive.
        let is_engines = self.id.chars().all(|letter| letter.is_ascii_hexdigit());
        let id = self.id.get(..SHOWN).filter(|_| is_engines).unwrap_or(&self.id);
        match &self.name {
            Some(name) => write!(formatter, "{name} ({id})"),
            None => formatter.write_str(id),
        }
    }
}
