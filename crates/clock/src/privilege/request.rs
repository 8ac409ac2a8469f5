use std::fmt;

/// A privilege requested in order to be on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Request {
    /// Run as a real-time thread (SCHED_FIFO) with this priority.
    Realtime(u8),
    /// Keep processors out of idle states with a high exit latency.
    HoldLatency,
    /// Stay on this processor.
    Pin(usize),
    /// Wait for a timerfd, which no timer slack delays.
    Timerfd,
    /// Keep the thread's stack and working data from being paged out.
    LockMemory,
}

impl fmt::Display for Request {
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

/// A request that was not granted: everything works without it, but less precisely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degradation {
    /// What was requested.
    pub what: Request,
    /// The reason, and a remedy.
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
        let lost = Degradation { what: Request::Realtime(50), why: "it needs CAP_SYS_NICE".into() };
        assert_eq!(lost.to_string(), "no real-time priority 50: it needs CAP_SYS_NICE");
    }
}
