//! Polls for stops for a moment before sleeping, as hypervisors do for their guests (halt polling): if
//! a stop comes soon, this avoids a wake-up, which takes longer than answering the stop where
//! processors are virtual.

use std::task::Poll;
use std::time::{Duration, Instant};

use super::tracee::{Stop, Tracee};

/// How long it polls before it sleeps.
const LONGEST: Duration = Duration::from_micros(50);
/// The maximum number of waits in a row that sleep at once, after polling was repeatedly in vain.
const MOST_SLEEPS: u32 = 64;

/// What it has learned.
#[derive(Debug, Default)]
pub struct Polling {
    /// How many more waits sleep at once.
    sleeps: u32,
    /// The number of such waits set when it last polled in vain.
    penalty: u32,
}

impl Polling {
    /// Waits until any traced thread stops or ends, which is `expected` to be soon or may be at any
    /// time; `None` if no traced thread is left.
    pub fn wait(&mut self, expected: bool) -> nix::Result<Option<(Tracee, Stop)>> {
        let begin = Instant::now();
        let looks = expected || self.looks();
        while looks && begin.elapsed() < LONGEST {
            if let Poll::Ready(event) = Tracee::poll_any()? {
                self.learn(looks, true);
                return Ok(event);
            }
            std::thread::yield_now();
        }
        let event = Tracee::wait_for_any();
        self.learn(looks, begin.elapsed() < LONGEST);
        event
    }

    /// Whether it polls before it sleeps.
    fn looks(&self) -> bool {
        self.sleeps == 0
    }

    /// Records whether an event came soon.
    fn learn(&mut self, looked: bool, soon: bool) {
        (self.sleeps, self.penalty) = match (soon, looked) {
            (true, _) => (0, 0),
            (false, true) => {
                let penalty = (self.penalty * 2).clamp(1, MOST_SLEEPS);
                (penalty, penalty)
            }
            (false, false) => (self.sleeps - 1, self.penalty),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of waits that begin with polling, out of `waits` in which nothing comes soon.
    fn looks(polling: &mut Polling, waits: usize) -> usize {
        let mut wait = || {
            let looks = polling.looks();
            polling.learn(looks, false);
            looks
        };
        (0..waits).filter(|_| wait()).count()
    }

    #[test]
    fn looks_less_and_less_where_nothing_comes() {
        let mut polling = Polling::default();
        assert_eq!(looks(&mut polling, 2 + 3 + 5 + 9 + 17 + 33), 6);
        assert_eq!(looks(&mut polling, 650), 10);
    }

    #[test]
    fn looks_again_once_something_came_soon() {
        let mut polling = Polling::default();
        looks(&mut polling, 1_000);
        assert!(!polling.looks());
        polling.learn(false, true);
        assert!(polling.looks());
        polling.learn(true, true);
        assert!(polling.looks());
    }
}
