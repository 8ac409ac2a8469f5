use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use super::alarm::{Alarm, Woken, blind};
use super::record::{After, Delivery, Record, add, contained, raise};
use super::schedule::{Firing, Nanos, PATIENCE, Schedule, Step};
use super::shared::{Message, Shared, nanos};
use super::{Ended, GAP, Tick};
use crate::privilege::{LatencyHold, MemoryLock};
use crate::sleeper::{Guard, Policy};
use crate::{Instant, Reason, Trust};

/// The least time before the next deadline, or the shield window, at which a message is taken from
/// the inbox, in nanoseconds: it takes some 200 ns with ten events, 1 µs with four thousand.
const TAKE_UP: Nanos = 2_000;
/// The least time before a deadline at which the clock may compare itself with the kernel's, in
/// nanoseconds: that takes a few microseconds, and once a second some more.
const REFINING: Nanos = 30_000;
/// The longest time without such a comparison, in nanoseconds: 1 s, in which a counter whose rate
/// is known to 1 ppm is off by 1 µs.
const UNREFINED: Nanos = 1_000_000_000;
/// The shortest wait left to the kernel, in nanoseconds: the two calls alone take 1 µs.
const WORTHWHILE: Nanos = 5_000;
/// After this many clock readings the deadline is converted again, since the clock may have been
/// refined: about 0.1 ms.
const FRESH: u32 = 4_096;
/// A clock that shows the same value this often is frozen, and is waited for in the kernel.
const STANDS: u32 = 2_000;
/// A deadline further away than this does not need low wake-up latency yet, in nanoseconds: 20 ms.
const FAR: Nanos = 20_000_000;
/// How long before such a deadline low latency is requested again, in nanoseconds: 2 ms, for the
/// processor to leave the deepest idle state, which takes some 0.2 ms, and for the call.
const AHEAD: Nanos = 2_000_000;
/// A clock this far behind what it has shown was set back, in nanoseconds.
const PUT_BACK: Nanos = 1_000_000;
/// The smallest lateness for which a culprit is recorded, in nanoseconds.
const LATE: Nanos = 1_000;

/// The ticker's thread.
pub struct Worker {
    /// Includes the schedule's memory, so it is dropped before that.
    _memory: Option<MemoryLock>,
    shared: Arc<Shared>,
    schedule: Schedule<Arc<Record>>,
    policy: Policy,
    guard: Guard,
    alarm: Alarm,
    latency: Option<LatencyHold>,
    is_mock: bool,
    /// The smallest gap that is not the loop's own, in ticks.
    gap: u64,
    /// The stolen time since the last tick, in nanoseconds.
    stolen: Nanos,
    /// When the last wait ended.
    rested: Nanos,
    /// When the inbox was last checked.
    looked: Nanos,
    /// When the clock last had a chance to compare itself with the kernel's.
    refined: Nanos,
    busy: Option<Busy>,
    /// The latest time so far, and how far CLOCK_MONOTONIC was set back since the start: the
    /// schedule's time never goes back.
    seen: Nanos,
    put_back: Nanos,
}

/// Back-to-back deliveries.
struct Busy {
    until: Nanos,
    /// The longest of them, and its event.
    longest: Nanos,
    culprit: Arc<Record>,
}

impl Worker {
    pub fn new(
        shared: Arc<Shared>,
        schedule: Schedule<Arc<Record>>,
        policy: Policy,
        alarm: Alarm,
        latency: Option<LatencyHold>,
        memory: Option<MemoryLock>,
    ) -> Self {
        let is_mock = shared.clock.trust() == Trust::Kernel(Reason::Mock);
        let gap = shortest_gap(&shared);
        let guard = Guard::new();
        Self {
            _memory: memory,
            shared,
            schedule,
            policy,
            guard,
            alarm,
            latency,
            is_mock,
            gap,
            stolen: 0,
            rested: 0,
            looked: 0,
            refined: 0,
            busy: None,
            seen: 0,
            put_back: 0,
        }
    }

    pub fn run(mut self) {
        while !self.shared.is_stopping() {
            let now = self.shared.clock.now_in_haste();
            let nanos = self.seen(now);
            match self.schedule.step(nanos) {
                Step::Idle => self.idle(nanos),
                Step::Wait { until, quiet, .. } => self.rest(nanos, until, quiet),
                Step::Fire(firing) => self.fire(firing, now, nanos),
            }
        }
    }

    /// The time of an instant later than all before. CLOCK_MONOTONIC goes back if the program
    /// leaves a timeline that was ahead of the host.
    fn seen(&mut self, now: Instant) -> Nanos {
        let mut time = self.nanos(now);
        if self.is_put_back(time) {
            self.put_back += self.seen - time;
            time = self.seen;
        }
        self.seen = self.seen.max(time);
        time
    }

    fn is_put_back(&self, time: Nanos) -> bool {
        self.seen.saturating_sub(time) > PUT_BACK
    }

    fn nanos(&self, instant: Instant) -> Nanos {
        nanos(self.shared.clock.monotonic(instant)).saturating_add(self.put_back)
    }

    fn instant(&self, time: Nanos) -> Instant {
        let monotonic = time.saturating_sub(self.put_back);
        self.shared.clock.at_monotonic(Duration::from_nanos(monotonic))
    }

    fn now(&self) -> Nanos {
        self.nanos(self.shared.clock.now_in_haste())
    }

    /// Lets the clock compare itself with the kernel's if that is due and there is time; if there
    /// never is, at the cost of an occasional late tick. Returns the time afterwards.
    fn refine(&mut self, now: Nanos, quiet: Nanos) -> Nanos {
        let room = quiet.saturating_sub(now);
        let overdue = room > 0 && now.saturating_sub(self.refined) >= UNREFINED;
        if room < REFINING && !overdue {
            return now;
        }
        self.refined = self.nanos(self.shared.clock.now());
        self.refined
    }

    /// Delivers an event.
    fn fire(&mut self, firing: Firing, fired: Instant, begin: Nanos) {
        let Some(record) = self.schedule.get(firing.slot).map(Arc::clone) else { return };
        let tick = Tick {
            event: record.id,
            number: firing.number,
            due: self.instant(firing.due),
            fired,
            missed: firing.missed,
            stolen: Duration::from_nanos(std::mem::take(&mut self.stolen)),
        };
        let late = begin - firing.due;
        let after = record.deliver(|delivery| {
            self.note(&record, &firing, &tick, late);
            deliver(delivery, tick, &record)
        });
        let end = self.now();
        let length = end.saturating_sub(begin);
        record.seen.note_length(length);
        self.note_busy(&record, end, length);
        let over = self.schedule.delivered(firing.slot, length).is_some();
        if over || after != Some(After::Waits) {
            self.schedule.release(firing.slot);
            self.shared.leave(&record);
        }
        // Even if there is never time, new events are still taken up, slowly.
        if end.saturating_sub(self.looked) >= PATIENCE {
            self.take_up(end);
        }
    }

    /// Counts a deadline before the woken receiver can look.
    fn note(&self, record: &Record, firing: &Firing, tick: &Tick, late: Nanos) {
        record.seen.note_tick(firing.missed, late, nanos(tick.stolen), firing.withheld);
        add(&self.shared.totals.fired, 1);
        add(&self.shared.totals.missed, firing.missed);
        if let Some(busy) = &self.busy
            && late > LATE
            && firing.due < busy.until
        {
            record.seen.note_delayed_by(busy.culprit.id);
            if busy.culprit.id != record.id {
                busy.culprit.seen.note_delayed_others(1 + firing.missed);
            }
        }
    }

    fn note_busy(&mut self, record: &Arc<Record>, until: Nanos, length: Nanos) {
        match &mut self.busy {
            Some(busy) if busy.longest >= length => busy.until = until,
            busy => *busy = Some(Busy { until, longest: length, culprit: Arc::clone(record) }),
        }
    }

    /// Waits for something to do.
    fn idle(&mut self, now: Nanos) {
        self.busy = None;
        if self.take_up(now) {
            return;
        }
        if let Some(latency) = &mut self.latency {
            // If it fails, the processors wake quickly for nothing.
            let _ = latency.relax();
        }
        self.sleep(None);
        self.rested = self.now();
    }

    /// Waits for a deadline, first in the kernel and then spinning, and takes messages that arrive
    /// before `quiet`. It may return early.
    fn rest(&mut self, now: Nanos, until: Nanos, quiet: Nanos) {
        self.busy = None;
        if now.saturating_add(TAKE_UP) <= quiet && self.take_up(now) {
            return;
        }
        if self.is_mock {
            // Only the test knows when its clock moves.
            blind();
            return;
        }
        let now = self.refine(now, quiet);
        // A shield window is spun from its beginning.
        let length = quiet.saturating_sub(now);
        let ahead = match length {
            0..WORTHWHILE => length,
            _ => self.ahead(length, until.saturating_sub(self.rested)),
        };
        if length.saturating_sub(ahead) >= WORTHWHILE {
            let end = quiet - ahead;
            if self.sleep_until(now, end) == Woken::Otherwise {
                return;
            }
            self.guard.observe(length, self.now().saturating_sub(end));
        }
        let begin = self.now();
        if self.is_put_back(begin) {
            return;
        }
        let stands = self.spin(until, quiet);
        let end = self.now();
        self.rested = end;
        let spun = end.saturating_sub(begin);
        add(&self.shared.totals.spun, spun);
        if !self.is_unlimited() {
            self.guard.spent(spun);
        }
        if stands && !self.is_put_back(end) {
            // Whatever froze the clock freezes the kernel's timers, too.
            self.sleep(Some(until));
        }
    }

    /// How much of the end of a wait of this length to spin.
    fn ahead(&mut self, length: Nanos, cycle: Nanos) -> Nanos {
        if self.is_unlimited() && length <= nanos(self.policy.max_guard) {
            // No trial of the kernel's punctuality either: it would show in the intervals.
            return length;
        }
        self.guard.plan(&self.policy, length, cycle)
    }

    fn is_unlimited(&self) -> bool {
        self.policy.cpu >= 1.0
    }

    /// Takes a message from the inbox and returns whether there was one.
    fn take_up(&mut self, now: Nanos) -> bool {
        self.looked = now;
        let Some(message) = self.shared.inbox.pop() else { return false };
        match message {
            Message::Add(record) if record.is_removed() => self.shared.leave(&record),
            Message::Add(record) => {
                let (times, shielded) = (record.times.later(self.put_back), record.shielded);
                let add =
                    |schedule: &mut Schedule<_>| schedule.add(Arc::clone(&record), times, shielded);
                let slot = add(&mut self.schedule).or_else(|_taken| {
                    // The previous shielded event was removed, but the message found no room.
                    if let Some(before) = self.schedule.unshield() {
                        self.shared.leave(&before);
                    }
                    add(&mut self.schedule)
                });
                debug_assert!(slot.is_ok(), "the shield is free now");
                if let Ok(slot) = slot {
                    record.slot.store(slot, Relaxed);
                }
            }
            Message::Remove(record) => self.forget(&record),
        }
        true
    }

    fn forget(&mut self, record: &Arc<Record>) {
        let slot = record.slot.load(Relaxed);
        // It may have been forgotten before, and its slot reused.
        if self.schedule.get(slot).is_some_and(|there| Arc::ptr_eq(there, record)) {
            self.schedule.release(slot);
            self.shared.leave(record);
        }
    }

    /// Sleeps until `end`, with low wake-up latency when it is near.
    fn sleep_until(&mut self, now: Nanos, end: Nanos) -> Woken {
        let Some(latency) = &mut self.latency else { return self.sleep(Some(end)) };
        if end.saturating_sub(now) > FAR {
            let _ = latency.relax();
            let woken = self.sleep(Some(end - AHEAD));
            if woken == Woken::Otherwise {
                return woken;
            }
        }
        if let Some(latency) = &mut self.latency {
            // If it fails, the wake-up is as late as without it, which the guard learns.
            let _ = latency.hold();
        }
        self.sleep(Some(end))
    }

    fn sleep(&self, until: Option<Nanos>) -> Woken {
        let Shared { asleep, inbox, bell, totals, .. } = &*self.shared;
        let begin = self.now();
        // SeqCst, with that of `Shared::ring`.
        asleep.store(true, SeqCst);
        let woken = if !inbox.is_empty() || self.shared.is_stopping() {
            Woken::Otherwise
        } else if self.is_mock {
            blind()
        } else if let Some(until) = until {
            self.alarm.wait(until.saturating_sub(self.put_back), bell)
        } else {
            self.alarm.wait_for(bell)
        };
        asleep.store(false, SeqCst);
        add(&totals.waits, 1);
        add(&totals.waited, self.now().saturating_sub(begin));
        woken
    }

    /// Reads the clock until it shows `until`, or a message arrives before `quiet`. Returns whether
    /// the clock is frozen.
    fn spin(&mut self, until: Nanos, quiet: Nanos) -> bool {
        let (clock, put_back) = (&self.shared.clock, self.put_back);
        let instant = |time: Nanos| {
            let monotonic = Duration::from_nanos(time.saturating_sub(put_back));
            clock.at_monotonic(monotonic).as_ticks()
        };
        let mut last = clock.now_in_haste().as_ticks();
        let mut same = 0;
        loop {
            let (target, open) = (instant(until), instant(quiet.saturating_sub(TAKE_UP)));
            for _ in 0..FRESH {
                let now = clock.now_in_haste().as_ticks();
                let moved = now.saturating_sub(last);
                if moved > self.gap {
                    let away = nanos(Instant::from_ticks(now) - Instant::from_ticks(last));
                    self.stolen += away;
                    let totals = &self.shared.totals;
                    add(&totals.gaps, 1);
                    add(&totals.stolen, away);
                    raise(&totals.longest_gap, away);
                }
                if now >= target {
                    return false;
                }
                same = if moved == 0 { same + 1 } else { 0 };
                if same > STANDS || last.saturating_sub(now) > self.gap {
                    return true;
                }
                last = now.max(last);
                if self.shared.is_stopping() || now < open && !self.shared.inbox.is_empty() {
                    return false;
                }
                std::hint::spin_loop();
            }
        }
    }
}

impl Drop for Worker {
    /// Also if the thread panics: nothing may wait for a ticker that is gone.
    fn drop(&mut self) {
        self.shared.close();
        for record in self.schedule.drain() {
            record.stop();
        }
        if self.shared.is_abandoned() {
            self.busy = None;
            self.shared.clear();
        }
    }
}

/// Four times the duration of a spin round here, but at least [`GAP`]: if a reading is a system
/// call or leaves the guest, that is not a gap.
fn shortest_gap(shared: &Shared) -> u64 {
    let clock = &shared.clock;
    let mut last = clock.now_in_haste().as_ticks();
    let rounds = (0..8).map(|_| {
        std::hint::spin_loop();
        let before = std::mem::replace(&mut last, clock.now_in_haste().as_ticks());
        last.saturating_sub(before)
    });
    let round = rounds.min().unwrap_or(0);
    (round * 4).max((clock.frequency() * GAP.as_secs_f64()) as u64)
}

/// Delivers, and returns how the event has ended, if it has.
fn deliver(delivery: &mut Delivery, tick: Tick, record: &Record) -> Option<Ended> {
    match delivery {
        Delivery::Callback(callback) => {
            if !contained(|| callback(tick)) {
                return Some(Ended::Panicked);
            }
        }
        Delivery::Counter(counter) => counter.publish(tick.missed),
        Delivery::Eventfd(descriptor) => {
            let number = (1 + tick.missed).to_ne_bytes();
            if rustix::io::write(&*descriptor, &number).is_err() {
                record.seen.note_undelivered();
            }
        }
    }
    record.times.period.is_none().then_some(Ended::Done)
}
