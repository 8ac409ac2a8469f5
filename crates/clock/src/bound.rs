use std::fmt;
use std::time::Duration;

/// How far a reading can be from the clock it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorBound {
    /// At most this far, before or after.
    Within(Duration),
    /// Unknown: the kernel reports that its clock is not synchronized.
    Unbounded,
}

impl ErrorBound {
    /// The bound, if there is one.
    #[must_use]
    pub const fn within(self) -> Option<Duration> {
        match self {
            Self::Within(bound) => Some(bound),
            Self::Unbounded => None,
        }
    }

    /// The bound of a sum of two quantities.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Within(a), Self::Within(b)) => Self::Within(a.saturating_add(b)),
            _ => Self::Unbounded,
        }
    }
}

impl fmt::Display for ErrorBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within(bound) => write!(f, "±{bound:?}"),
            Self::Unbounded => f.write_str("unbounded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_stays_unknown() {
        let known = ErrorBound::Within(Duration::from_nanos(40));
        assert_eq!(known.plus(known).within(), Some(Duration::from_nanos(80)));
        assert_eq!(known.plus(ErrorBound::Unbounded), ErrorBound::Unbounded);
        assert_eq!(ErrorBound::Unbounded.within(), None);
        assert!(known < ErrorBound::Unbounded);
        assert_eq!(known.to_string(), "±40ns");
    }
}
