//! What may wake a waiting thread.

/// What may wake a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeSource {
    /// Members of the timeline only.
    Members,
    /// Anybody may send something, but nobody is expected to.
    Anybody(Cause),
    /// A process outside the timeline is expected to send something.
    Outside(Cause),
    /// A member has sent something: it is on its way.
    OnItsWay(Cause),
}

/// The means by which a process outside may wake it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The descriptor, if it is one.
    pub descriptor: Option<i32>,
    /// What it is.
    pub what: String,
}

impl WakeSource {
    fn rank(&self) -> u8 {
        match self {
            Self::Members => 0,
            Self::Anybody(_) => 1,
            Self::Outside(_) => 2,
            Self::OnItsWay(_) => 3,
        }
    }

    /// The stronger of the two.
    pub fn or(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    pub fn outside(descriptor: impl Into<Option<i32>>, what: impl Into<String>) -> Self {
        Self::Outside(Cause { descriptor: descriptor.into(), what: what.into() })
    }

    /// A signal that resumes it, which nobody is expected to send.
    pub fn by_signal() -> Self {
        let what = "it is stopped, and goes on at a SIGCONT".to_owned();
        Self::Anybody(Cause { descriptor: None, what })
    }

    pub fn anybody(descriptor: i32, what: impl Into<String>) -> Self {
        Self::Anybody(Cause { descriptor: Some(descriptor), what: what.into() })
    }

    pub fn on_its_way(descriptor: i32, what: impl Into<String>) -> Self {
        Self::OnItsWay(Cause { descriptor: Some(descriptor), what: what.into() })
    }
}
