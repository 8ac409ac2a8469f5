//! The queue of clients: they are served one at a time, in the order of arrival.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue of clients. The first one is being served.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: VecDeque<u64>,
}

/// A place in the queue, given up when dropped.
#[derive(Debug)]
pub struct Place<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has left the queue consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last place; none if the queue has this many clients already.
    pub fn enter(&self, most: usize) -> Option<Place<'_>> {
        let mut state = self.state();
        if state.waiting.len() >= most {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        Some(Place { queue: self, number })
    }
}

impl Place<'_> {
    fn before_in(&self, state: &State) -> u32 {
        state.waiting.iter().take_while(|it| **it != self.number).count() as u32
    }

    /// The number of clients before it, once that is less than it was, or after this time.
    pub fn wait(&self, was: u32, time: Duration) -> u32 {
        let state = self.queue.state();
        let still = |state: &mut State| self.before_in(state) >= was;
        let waited = self.queue.moved.wait_timeout_while(state, time, still);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.before_in(&state)
    }

    /// The number of clients before it.
    #[must_use]
    pub fn before(&self) -> u32 {
        self.before_in(&self.queue.state())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.state().waiting.retain(|it| *it != self.number);
        self.queue.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_move_up_when_others_leave() {
        let queue = Queue::default();
        let [first, second, third] = [(); 3].map(|()| queue.enter(3).unwrap());
        assert!(queue.enter(3).is_none());
        assert_eq!([first.before(), second.before(), third.before()], [0, 1, 2]);
        drop(second);
        assert_eq!(third.wait(2, Duration::from_secs(60)), 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| third.wait(1, Duration::from_secs(60)));
            drop(first);
            assert_eq!(waiting.join().unwrap(), 0);
        });
        let fourth = queue.enter(3).unwrap();
        assert_eq!(fourth.wait(1, Duration::from_millis(1)), 1);
    }
}
