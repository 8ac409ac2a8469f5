//! Waits for stops with open eyes for a moment, as hypervisors wait for their guests (halt polling):
//! where one comes soon, nobody has to be woken, which takes longer than to answer it where
//! processors are virtual.

use std::task::Poll;
use std::time::{Duration, Instant};

use super::tracee::{Stop, Tracee};

/// How long it looks before it sleeps.
const LONGEST: Duration = Duration::from_micros(50);
/// How many times in a row it sleeps at once, at most, where nothing came soon again and again.
const MOST_SLEEPS: u32 = 64;

/// What it has learnt.
#[derive(Debug, Default)]
pub struct Polling {
    /// How many times it still sleeps at once.
    sleeps: u32,
    /// How many that were to be when it last looked in vain.
    penalty: u32,
}

impl Polling {
    /// Waits until any traced thread stops or ends, which is `expected` to be soon or may be at any
    /// time; `None` when there is none left.
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

    /// Does it look before it sleeps?
    fn looks(&self) -> bool {
        self.sleeps == 0
    }

    /// Something came soon, or not.
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

    /// Of so many waits, in which nothing comes soon, how many begin with a look?
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
