//! Which events are due when, independent of threads and clocks: all instants are nanoseconds of
//! CLOCK_MONOTONIC, and time passes only as the caller says.
//!
//! A deadline is `start + k · period`, computed from `k` each time, so errors do not accumulate.
//! Each deadline of an event is either fired or counted as missed.

use crate::privilege::Stretch;

/// An instant in nanoseconds of CLOCK_MONOTONIC, or a length in nanoseconds.
pub type Nanos = u64;

/// The assumed duration of the first delivery of an event, in nanoseconds: more than the write to
/// an eventfd that wakes a reader (1 to 2 µs measured on a 2.6 GHz guest).
const ASSUMED_LENGTH: Nanos = 2_000;

/// The number of deliveries remembered to estimate the next.
const REMEMBERED: usize = 8;

/// How long an event is held back for the shielded one, in nanoseconds: 0.1 s. After that it is
/// delivered outside the window even though it will run into it, or right after the shielded one if
/// that leaves no time between its windows. Otherwise an event whose delivery once took long would
/// never be tried again, and one longer than the time between two windows never delivered.
pub const PATIENCE: Nanos = 100_000_000;

/// The events in the order of their deadlines.
///
/// Nothing is allocated after [`Schedule::with_capacity`], up to that number of events.
#[derive(Debug)]
pub struct Schedule<T> {
    slots: Vec<Option<Entry<T>>>,
    free: Vec<usize>,
    /// All waiting events except the shielded one, the next at the end.
    order: Vec<Place>,
    shielded: Option<usize>,
    /// The shielded one was fired, and nothing else could have been since.
    crowded: bool,
    /// The length of the shield window.
    window: Nanos,
    added: u64,
}

/// When an event is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The first deadline.
    pub start: Nanos,
    /// From one deadline to the next; none if there is only one.
    pub period: Option<Nanos>,
}

/// A place in the order: among equals, the one added first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    due: Nanos,
    added: u64,
    slot: usize,
}

#[derive(Debug)]
struct Entry<T> {
    item: T,
    times: Times,
    added: u64,
    /// The number of the next deadline.
    next: u64,
    finished: bool,
    withheld: bool,
    lengths: Lengths,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until an event is added.
    Idle,
    /// Nothing until the given time.
    Wait {
        /// When to ask again.
        until: Nanos,
        /// From when on nothing else may be started: the shield window of a shielded event, `until`
        /// for the others.
        quiet: Nanos,
        /// The slot of the awaited item.
        slot: usize,
    },
    /// Deliver this.
    Fire(Firing),
}

/// A deadline to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The event's slot: for [`Schedule::get`] and [`Schedule::delivered`].
    pub slot: usize,
    /// Which of the event's deadlines it is, counted from zero.
    pub number: u64,
    /// The deadline.
    pub due: Nanos,
    /// The deadlines between the last delivery and this one.
    pub missed: u64,
    /// Whether it was held back for the shielded event.
    pub withheld: bool,
}

/// Another event already has the shield.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken;

impl<T> Schedule<T> {
    /// A schedule for this many events, with a shield window of this length before the deadlines of
    /// the shielded one, shortened to half its period if that is less.
    pub fn with_capacity(capacity: usize, window: Nanos) -> Self {
        Self {
            slots: (0..capacity).map(|_| None).collect(),
            free: (0..capacity).rev().collect(),
            order: Vec::with_capacity(capacity),
            shielded: None,
            crowded: false,
            window,
            added: 0,
        }
    }

    /// The memory that holds the events.
    pub fn memory(&self) -> [Stretch; 3] {
        [
            Stretch::of(self.slots.as_ptr(), self.slots.capacity()),
            Stretch::of(self.free.as_ptr(), self.free.capacity()),
            Stretch::of(self.order.as_ptr(), self.order.capacity()),
        ]
    }

    /// Adds an event.
    ///
    /// # Errors
    /// If it asks for the shield and another event has it.
    pub fn add(&mut self, item: T, times: Times, shielded: bool) -> Result<usize, Taken> {
        if shielded && self.shielded.is_some() {
            return Err(Taken);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.added += 1;
        let entry = Entry {
            item,
            times,
            added: self.added,
            next: 0,
            finished: false,
            withheld: false,
            lengths: Lengths::default(),
        };
        let place = entry.place(slot);
        self.slots[slot] = Some(entry);
        if shielded {
            self.shielded = Some(slot);
        } else {
            self.put(place);
        }
        Ok(slot)
    }

    /// Removes this event.
    pub fn release(&mut self, slot: usize) -> Option<T> {
        let entry = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        if self.shielded == Some(slot) {
            self.shielded = None;
        } else if let Ok(index) = self.find(entry.place(slot)) {
            self.order.remove(index);
        }
        Some(entry.item)
    }

    /// Removes the shielded event.
    pub fn unshield(&mut self) -> Option<T> {
        self.release(self.shielded?)
    }

    /// Removes all events.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        (0..self.slots.len()).filter_map(|slot| self.release(slot))
    }

    /// The item in a slot.
    pub fn get(&self, slot: usize) -> Option<&T> {
        self.slots.get(slot)?.as_ref().map(|entry| &entry.item)
    }

    /// What to do now. The event of a returned delivery has its next deadline from here on.
    pub fn step(&mut self, now: Nanos) -> Step {
        let shield = self.shield();
        if let Some(shield) = shield
            && shield.quiet <= now
        {
            if self.crowded
                && let Some(place) = self.order.pop_if(|place| place.is_overdue(now))
            {
                self.crowded = false;
                self.entry(place.slot).withheld = true;
                return Step::Fire(self.take(place.slot, now));
            }
            if shield.due <= now {
                self.crowded = true;
                return Step::Fire(self.take(shield.slot, now));
            }
        } else {
            self.crowded = false;
        }
        for index in (0..self.order.len()).rev() {
            let place = self.order[index];
            let within = |shield: Shield| place.due >= shield.quiet;
            if place.due > now && !shield.is_some_and(within) {
                return Step::Wait { until: place.due, quiet: place.due, slot: place.slot };
            }
            if place.due > now {
                break;
            }
            let Some(entry) = &mut self.slots[place.slot] else { continue };
            if shield.is_none_or(|shield| entry.may_run(now, place, shield)) {
                self.order.remove(index);
                return Step::Fire(self.take(place.slot, now));
            }
            entry.withheld = true;
        }
        match shield {
            Some(Shield { due, quiet, slot }) => Step::Wait { until: due, quiet, slot },
            None => Step::Idle,
        }
    }

    /// Records that the fired event was delivered, and how long that took. An event without further
    /// deadlines is returned.
    pub fn delivered(&mut self, slot: usize, length: Nanos) -> Option<T> {
        let entry = self.slots.get_mut(slot)?.as_mut()?;
        entry.lengths.add(length);
        if entry.finished { self.release(slot) } else { None }
    }

    fn take(&mut self, slot: usize, now: Nanos) -> Firing {
        let entry = self.entry(slot);
        let number = entry.times.reached(now).unwrap_or(entry.next).max(entry.next);
        let firing = Firing {
            slot,
            number,
            due: entry.times.at(number),
            missed: number - entry.next,
            withheld: entry.withheld,
        };
        entry.next = number + 1;
        entry.withheld = false;
        entry.finished = entry.times.period.is_none();
        let place = entry.place(slot);
        if !entry.finished && self.shielded != Some(slot) {
            self.put(place);
        }
        firing
    }

    fn entry(&mut self, slot: usize) -> &mut Entry<T> {
        self.slots[slot].as_mut().expect("what has a place in the order is there")
    }

    fn put(&mut self, place: Place) {
        let (Ok(index) | Err(index)) = self.find(place);
        self.order.insert(index, place);
    }

    /// The index of a place in the order, or where it belongs.
    fn find(&self, place: Place) -> Result<usize, usize> {
        self.order.binary_search_by(|other| place.cmp(other))
    }

    fn shield(&self) -> Option<Shield> {
        let slot = self.shielded?;
        let entry = self.slots[slot].as_ref()?;
        if entry.finished {
            return None;
        }
        let window = entry.times.period.map_or(self.window, |period| self.window.min(period / 2));
        let due = entry.due();
        Some(Shield { due, quiet: due.saturating_sub(window), slot })
    }
}

/// The next deadline of the shielded event, and the start of its window.
#[derive(Clone, Copy)]
struct Shield {
    due: Nanos,
    quiet: Nanos,
    slot: usize,
}

impl<T> Entry<T> {
    fn due(&self) -> Nanos {
        self.times.at(self.next)
    }

    fn place(&self, slot: usize) -> Place {
        Place { due: self.due(), added: self.added, slot }
    }

    fn may_run(&self, now: Nanos, place: Place, shield: Shield) -> bool {
        let fits = now.saturating_add(self.lengths.expected()) <= shield.quiet;
        fits || now < shield.quiet && place.is_overdue(now)
    }
}

impl Place {
    /// Whether it was held back for long enough.
    fn is_overdue(&self, now: Nanos) -> bool {
        now.saturating_sub(self.due) >= PATIENCE
    }
}

impl Times {
    /// The deadline with this number; the last possible instant for those beyond it.
    pub fn at(&self, number: u64) -> Nanos {
        let after = u128::from(number) * u128::from(self.period.unwrap_or(0));
        self.start.saturating_add(u64::try_from(after).unwrap_or(Nanos::MAX))
    }

    /// The number of the last deadline that has passed.
    pub fn reached(&self, now: Nanos) -> Option<u64> {
        let since = now.checked_sub(self.start)?;
        Some(self.period.map_or(0, |period| since / period))
    }

    /// The same deadlines, all later by this much.
    pub fn later(self, by: Nanos) -> Self {
        Self { start: self.start.saturating_add(by), ..self }
    }

    /// The same deadlines, without those that have passed.
    pub fn from(self, now: Nanos) -> Self {
        match (self.period, self.reached(now)) {
            (Some(_), Some(over)) => Self { start: self.at(over + 1), ..self },
            _ => self,
        }
    }
}

/// The durations of the last deliveries of an event.
#[derive(Clone, Debug, Default)]
struct Lengths {
    last: [Nanos; REMEMBERED],
    seen: usize,
}

impl Lengths {
    fn add(&mut self, length: Nanos) {
        self.last[self.seen % REMEMBERED] = length;
        self.seen += 1;
    }

    /// The second longest of those remembered, so that a single delivery during which the thread
    /// was stopped does not count against the event.
    fn expected(&self) -> Nanos {
        let seen = &self.last[..self.seen.min(REMEMBERED)];
        let (mut longest, mut second) = (0, 0);
        for length in seen {
            if *length >= longest {
                (longest, second) = (*length, longest);
            } else {
                second = second.max(*length);
            }
        }
        match seen.len() {
            0 => ASSUMED_LENGTH,
            1 => longest,
            _ => second,
        }
    }
}

#[cfg(test)]
mod tests;
