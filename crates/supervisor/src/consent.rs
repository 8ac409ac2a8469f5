//! What the creator of a timeline allows others.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What the creator of a timeline allows others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// Whether containers may join it because their bundle names it.
    pub joinable: bool,
    /// Who may set its wall clock from inside; the usual rule applies by default.
    pub settable_by: Option<SettableBy>,
}

/// Programs that may set the wall clock of their timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SettableBy {
    /// None.
    Nobody,
    /// Those that have CAP_SYS_TIME, as on a host.
    Privileged,
    /// All.
    Anyone,
}

impl SettableBy {
    /// All variants, with their names.
    const ALL: [(&'static str, Self); 3] =
        [("nobody", Self::Nobody), ("privileged", Self::Privileged), ("anyone", Self::Anyone)];
}

impl std::fmt::Display for SettableBy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = Self::ALL.iter().find(|(_, one)| one == self);
        formatter.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for SettableBy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|(name, _)| *name == text);
        named.map(|(_, one)| one).ok_or("it must be nobody, privileged or anyone")
    }
}

impl Consent {
    /// Who may set the wall clock. By default, those who may set it on a host, as long as nothing
    /// else is in the timeline.
    #[must_use]
    pub fn settable_by(self, is_shared: bool) -> SettableBy {
        self.settable_by.unwrap_or(match is_shared {
            true => SettableBy::Nobody,
            false => SettableBy::Privileged,
        })
    }
}

/// Who names the timeline to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamedBy {
    /// The timeline's user, on a command line.
    User,
    /// The bundle of a container, where the name may come from an image.
    Bundle,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_set_it_depends_on_who_shares_it() {
        let silent = Consent::default();
        assert_eq!(silent.settable_by(false), SettableBy::Privileged);
        assert_eq!(silent.settable_by(true), SettableBy::Nobody);
        let said = Consent { settable_by: Some(SettableBy::Anyone), ..silent };
        assert_eq!(said.settable_by(true), SettableBy::Anyone);
    }

    #[test]
    fn names_are_read_and_written() {
        for (name, one) in SettableBy::ALL {
            assert_eq!((name.parse(), one.to_string()), (Ok(one), name.to_owned()));
        }
        assert!("root".parse::<SettableBy>().is_err());
    }
}
