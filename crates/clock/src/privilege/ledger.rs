use std::sync::{Mutex, MutexGuard, PoisonError};

use super::owner::Owner;

/// The previous settings of threads, kept until they are restored, so that they can be restored in
/// any order.
pub struct Ledger<T>(Mutex<Entries<T>>);

struct Entries<T> {
    next: u64,
    entries: Vec<Entry<T>>,
}

struct Entry<T> {
    number: u64,
    owner: Owner,
    before: T,
}

impl<T: Copy> Ledger<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(Entries { next: 0, entries: Vec::new() }))
    }

    /// Records the calling thread's setting; the number is for [`Ledger::leave`].
    pub fn enter(&self, before: T) -> u64 {
        let mut ledger = self.lock();
        let number = ledger.next;
        ledger.next += 1;
        ledger.entries.push(Entry { number, owner: Owner::here(), before });
        number
    }

    /// The thread and the setting to restore. None if the same thread has changed it again since:
    /// that entry then inherits this one's setting to restore.
    pub fn leave(&self, number: u64) -> Option<(Owner, T)> {
        let mut ledger = self.lock();
        let place = ledger.entries.iter().position(|entry| entry.number == number)?;
        let entry = ledger.entries.remove(place);
        match ledger.entries[place..].iter_mut().find(|later| later.owner == entry.owner) {
            Some(later) => {
                later.before = entry.before;
                None
            }
            None => Some((entry.owner, entry.before)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(ledger: &Ledger<u32>, number: u64) -> Option<u32> {
        ledger.leave(number).map(|(_, before)| before)
    }

    #[test]
    fn the_last_gives_back_what_was_there_before_the_first() {
        let ledger = Ledger::new();
        let [first, second, third] = [10, 20, 30].map(|before| ledger.enter(before));
        assert_eq!(left(&ledger, first), None);
        assert_eq!(left(&ledger, third), Some(30), "the second is in force again");
        assert_eq!(left(&ledger, second), Some(10));
        assert_eq!(left(&ledger, second), None);
    }

    #[test]
    fn threads_have_nothing_to_do_with_one_another() {
        let ledger = Ledger::new();
        let here = ledger.enter(1);
        std::thread::scope(|scope| {
            scope.spawn(|| ledger.enter(2));
        });
        assert_eq!(left(&ledger, here), Some(1));
    }
}
