use super::kernel::{KernelWaiter, Nanosleep, Timerfd, Woken};
use super::{Degradation, Request};
use std::time::Duration;

/// The mechanism a sleeper waits with in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KernelWait {
    /// A timerfd: not subject to timer slack, so the thread's slack is not touched. It takes a
    /// descriptor; without one, [`KernelWait::Nanosleep`] is used and reported as a degradation.
    #[default]
    Timerfd,
    /// clock_nanosleep(2), which takes no descriptor. The thread's timer slack is a nanosecond
    /// meanwhile and is then restored. Signal handlers that run meanwhile see the changed slack,
    /// and one that jumps out leaves it.
    Nanosleep,
}

#[derive(Debug)]
pub enum Waiter {
    Timerfd(Timerfd),
    Nanosleep { degradation: Option<Degradation> },
}

impl Waiter {
    pub fn new(wait: KernelWait) -> Self {
        match wait {
            KernelWait::Timerfd => Timerfd::new().map_or_else(Self::without, Self::Timerfd),
            KernelWait::Nanosleep => Self::Nanosleep { degradation: None },
        }
    }

    /// Whether there is an unreported loss.
    pub const fn has_lost(&self) -> bool {
        matches!(self, Self::Nanosleep { degradation: Some(_) })
    }

    /// The loss, on the first call after it.
    pub fn lost(&mut self) -> Option<Degradation> {
        match self {
            Self::Timerfd(_) => None,
            Self::Nanosleep { degradation } => degradation.take(),
        }
    }

    fn without(error: rustix::io::Errno) -> Self {
        let why = format!(
            "{error}: clock_nanosleep is used, with the timer slack at 1 ns meanwhile; close \
             descriptors or raise RLIMIT_NOFILE to have it"
        );
        Self::Nanosleep { degradation: Some(Degradation { what: Request::Timerfd, why }) }
    }
}

impl KernelWaiter for Waiter {
    fn wait(&mut self, until: Duration) -> Woken {
        if let Self::Timerfd(timer) = self {
            match timer.wait(until) {
                Ok(woken) => return woken,
                Err(error) => *self = Self::without(error),
            }
        }
        Nanosleep.wait(until)
    }
}
