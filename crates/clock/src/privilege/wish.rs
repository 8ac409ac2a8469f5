use std::fmt;

/// Something that was asked for so as to be on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wish {
    /// To run as a real-time thread (SCHED_FIFO) of this priority.
    Realtime(u8),
    /// That no processor enters an idle state from which it wakes late.
    HoldLatency,
    /// To stay on this processor.
    Pin(usize),
    /// To wait for a timerfd, which no timer slack delays.
    Timerfd,
    /// That the stack of the thread and what it works with are not paged out.
    LockMemory,
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Realtime(priority) => write!(f, "real-time priority {priority}"),
            Self::HoldLatency => f.write_str("processors that wake quickly"),
            Self::Pin(cpu) => write!(f, "processor {cpu}"),
            Self::Timerfd => f.write_str("a timerfd"),
            Self::LockMemory => f.write_str("locked memory"),
        }
    }
}

/// A wish that was not granted: all works without it, but less precisely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degradation {
    /// What was asked for.
    pub what: Wish,
    /// What stands in the way, and what would help.
    pub why: String,
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {}: {}", self.what, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_degradation_is_a_sentence() {
        let lost = Degradation { what: Wish::Realtime(50), why: "it needs CAP_SYS_NICE".into() };
        assert_eq!(lost.to_string(), "no real-time priority 50: it needs CAP_SYS_NICE");
    }
}
