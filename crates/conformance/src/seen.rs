//! What a measurement shows.

use serde::{Deserialize, Serialize};

/// The clock that a measurement agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// The timeline's, and not the untranslated one.
    Virtual,
    /// The untranslated one, and not the timeline's.
    Host,
    /// Both: they do not differ here.
    Both,
    /// Neither.
    Neither,
}

impl Seen {
    /// Combines the two comparisons.
    #[must_use]
    pub fn of(is_virtual: bool, is_host: bool) -> Self {
        match (is_virtual, is_host) {
            (true, true) => Self::Both,
            (true, false) => Self::Virtual,
            (false, true) => Self::Host,
            (false, false) => Self::Neither,
        }
    }

    /// Combines two measurements of the same thing.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Both, one) | (one, Self::Both) => one,
            (one, same) if one == same => one,
            _ => Self::Neither,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_must_agree() {
        assert_eq!(Seen::Both.and(Seen::Virtual), Seen::Virtual);
        assert_eq!(Seen::Host.and(Seen::Both), Seen::Host);
        assert_eq!(Seen::Virtual.and(Seen::Virtual), Seen::Virtual);
        assert_eq!(Seen::Virtual.and(Seen::Host), Seen::Neither);
    }
}
