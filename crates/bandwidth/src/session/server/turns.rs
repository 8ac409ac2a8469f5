//! Whose turn it is: clients are served one at a time, in the order in which they have come.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue of clients. The first is the one that is served.
#[derive(Debug, Default)]
pub struct Turns {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    waiting: VecDeque<u64>,
}

/// A place in the queue, which is given up when this goes.
#[derive(Debug)]
pub struct Place<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    fn line(&self) -> MutexGuard<'_, Line> {
        // A thread that panicked has left a queue that is as good as before.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last place; none if so many are in the queue already.
    pub fn enter(&self, most: usize) -> Option<Place<'_>> {
        let mut line = self.line();
        if line.waiting.len() >= most {
            return None;
        }
        let number = line.next;
        line.next += 1;
        line.waiting.push_back(number);
        Some(Place { turns: self, number })
    }
}

impl Place<'_> {
    fn in_line(&self, line: &Line) -> u32 {
        line.waiting.iter().take_while(|it| **it != self.number).count() as u32
    }

    /// How many are before it, once that is less than it was, or after so much time.
    pub fn wait(&self, was: u32, time: Duration) -> u32 {
        let line = self.turns.line();
        let still = |line: &mut Line| self.in_line(line) >= was;
        let waited = self.turns.moved.wait_timeout_while(line, time, still);
        let (line, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.in_line(&line)
    }

    /// How many are before it.
    #[must_use]
    pub fn before(&self) -> u32 {
        self.in_line(&self.turns.line())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.turns.line().waiting.retain(|it| *it != self.number);
        self.turns.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_move_up_when_others_leave() {
        let turns = Turns::default();
        let [first, second, third] = [(); 3].map(|()| turns.enter(3).unwrap());
        assert!(turns.enter(3).is_none());
        assert_eq!([first.before(), second.before(), third.before()], [0, 1, 2]);
        drop(second);
        assert_eq!(third.wait(2, Duration::from_secs(60)), 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| third.wait(1, Duration::from_secs(60)));
            drop(first);
            assert_eq!(waiting.join().unwrap(), 0);
        });
        let fourth = turns.enter(3).unwrap();
        assert_eq!(fourth.wait(1, Duration::from_millis(1)), 1);
    }
}
