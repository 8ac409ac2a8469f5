//! The state that upkeep keeps between runs, and its actions.
//!
//! It lies in a page that the kernel zeroes in a forked child (MADV_WIPEONFORK): whatever a thread
//! of the parent was doing to it at that moment, the child finds a free and empty record, which is
//! valid.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::getpid;
use rustix::thread::gettid;
use rustix::time::ClockId;

use super::hot::HOT;
use super::phase::is_alive;
use super::{LINE, TRUST, write, write_if};
use crate::arch::PAGE;
use crate::counter;
use crate::discipline::Discipline;
use crate::interval::Interval;
use crate::kernel::{self, Sample};
use crate::line::{Line, Slope, UNKNOWN};
use crate::trust::{Reason, Trust};
use crate::verdict::{self, timeline, vmclock};

/// The duration of the first measurement, in nanoseconds: its error is then some 30 ppm, which
/// later ones reduce to 0.03 within a second.
const FIRST_SPAN: u64 = 1_000_000;

/// How far ahead of the present a new line begins, in nanoseconds: longer than it takes to write
/// it, unless the thread is interrupted. After three such interruptions the old line stays.
const LEADS: [u64; 3] = [50_000, 500_000, 5_000_000];

/// How long the counter is measured after a jump before it is used again, in nanoseconds.
const AGAIN_SPAN: u64 = 10_000_000;

/// The interval between questions to the kernel that take system calls, in nanoseconds.
const EXAMINED_EVERY: u64 = 1_000_000_000;

/// The kernel's increase of its own error in that time, in microseconds: 500 ppm.
const EXAMINED_GROWTH: u64 = 500;

/// The kernel's units of frequency, 2^-16 ppm, and of the tick, whose usual length is 10,000, as
/// parts of the clock's rate.
const FREQUENCY: f64 = 1e-6 / 65_536.0;
const TICK: f64 = 1e-4;

/// The record is free.
const FREE: u32 = 0;

/// A thread that must not ask the kernel for its id has it: its end cannot be detected.
const UNNAMED: u32 = u32::MAX;

/// A reading may be this much older than the last comparison and still belong to the counter in
/// use, in nanoseconds: another thread came first.
const LATE: u64 = 1_000_000;

/// If CLOCK_BOOTTIME advanced by this much more than CLOCK_MONOTONIC, in nanoseconds, the machine
/// was suspended.
const SLEPT: u64 = 1_000_000;

static PLACE: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());

#[repr(C)]
struct Page {
    /// The id of the thread that has the record, or [`FREE`] or [`UNNAMED`].
    owner: AtomicU32,
    /// Used only by the owner.
    kept: UnsafeCell<Kept>,
}

const _: () = assert!(size_of::<Page>() <= PAGE);

/// The kept state; all zeroes in a new process.
#[repr(C)]
pub struct Kept {
    discipline: Discipline,
    /// Whether the next three are set.
    known: bool,
    wall: Interval,
    boot: Interval,
    disruptions: u64,
    /// When the kernel was last asked, on CLOCK_MONOTONIC.
    examined: u64,
    /// The first of two comparisons after a jump, or none.
    again: Sample,
}

/// Exclusive access to the record. It is taken over only from a thread that has ended, however long
/// that had it.
pub struct Record {
    page: &'static Page,
    in_one_thread: PhantomData<*const ()>,
}

/// Whether the thread that had the record has ended. If its id was reused, the record waits for the
/// new thread to end.
fn has_ended(owner: u32) -> bool {
    // The first process of a namespace may share the memory of one outside, which it cannot see.
    const FIRST: i32 = 1;
    owner != UNNAMED && getpid().as_raw_nonzero().get() != FIRST && !is_alive(owner)
}

impl Deref for Record {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        // SAFETY: the thread owns the page, and this is the only value that grants access.
        unsafe { &*self.page.kept.get() }
    }
}

impl DerefMut for Record {
    fn deref_mut(&mut self) -> &mut Kept {
        // SAFETY: as above.
        unsafe { &mut *self.page.kept.get() }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.page.owner.store(FREE, Release);
    }
}

impl Record {
    /// The record, unless another thread or the interrupted code has it, or none exists because the
    /// counter was never in use.
    pub fn take() -> Option<Self> {
        let page = PLACE.load(Acquire);
        if page.is_null() {
            return None;
        }
        // SAFETY: the page is never unmapped, and all of it can be shared between threads.
        let page = unsafe { &*page };
        let confined = HOT.is_confined();
        let owner = page.owner.load(Relaxed);
        if owner != FREE && (confined || !has_ended(owner)) {
            return None;
        }
        let own = if confined { UNNAMED } else { gettid().as_raw_nonzero().get().cast_unsigned() };
        page.owner.compare_exchange(owner, own, Acquire, Relaxed).ok()?;
        Some(Self { page, in_one_thread: PhantomData })
    }

    /// Creates a record.
    pub fn make() -> Option<Self> {
        // SAFETY: a new mapping, at an address chosen by the kernel.
        let page = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let page = mmap_anonymous(ptr::null_mut(), PAGE, access, MapFlags::PRIVATE).ok()?;
            madvise(page, PAGE, Advice::LinuxWipeOnFork).ok()?;
            page
        };
        PLACE.store(page.cast(), Release);
        Self::take()
    }

    /// Makes the first measurement, which takes a millisecond.
    pub fn measure(&mut self) -> Result<(), Reason> {
        let first = kernel::compare(ClockId::Monotonic);
        while kernel::monotonic().saturating_sub(first.nanos) < FIRST_SPAN {
            std::hint::spin_loop();
        }
        let line = self
            .discipline
            .begin(first, kernel::compare(ClockId::Monotonic))
            .ok_or(Reason::NoRate)?;
        HOT.begin(0);
        self.examined = line.sample_nanos;
        let mut utc_error = UNKNOWN;
        if !HOT.is_confined() {
            let steering = Steering::now();
            self.discipline.steer(steering.rate);
            utc_error = steering.utc_error;
        }
        self.publish(Line { utc_error, ..line });
        TRUST.write(&Trust::Counter.to_words());
        Ok(())
    }

    /// Whether the kernel has not been asked for a while.
    pub fn is_unexamined_since(&self, now: u64) -> bool {
        now.saturating_sub(self.examined) >= EXAMINED_EVERY
    }

    /// Compares the counter with the kernel's clock, and asks for the kernel's verdict if that is
    /// due or `now` is set.
    pub fn upkeep(&mut self, now: bool) {
        let Some(offset) = HOT.offset() else {
            return self.try_again();
        };
        if timeline::is_here() {
            return self.give_up(Reason::Timeline);
        }
        let marker = vmclock::disruptions();
        if self.known && marker != self.disruptions {
            return self.give_up(Reason::Moved);
        }
        let (sample, old) =
            (with(kernel::compare(ClockId::Monotonic), offset), Line::from_words(LINE.read()));
        let due = !HOT.is_confined() && self.is_unexamined_since(sample.nanos);
        let mut utc_error = old.utc_error;
        if now || due {
            self.examined = sample.nanos;
            if let Err(reason) = verdict::examine_again() {
                return self.give_up(reason);
            }
            let steering = Steering::now();
            self.discipline.steer(steering.rate);
            utc_error = steering.utc_error;
        }
        match self.discipline.follow(&old, sample) {
            Ok(line) => self.join(Line { utc_error, ..line }, &old, offset),
            Err(_) => {
                let slept = self.known
                    && kernel::ahead(ClockId::Boottime).low - self.boot.high > SLEPT as i64;
                self.give_up(if slept { Reason::Suspended } else { Reason::Jumped });
            }
        }
    }

    /// Publishes a line after another without changing what has been read. If no reading was made
    /// since upkeep was due, as after a pause, the line is drawn from there; otherwise from a count
    /// in the future.
    fn join(&mut self, line: Line, old: &Line, offset: u64) {
        let (now, line) = (line.sample_ticks, self.with_others(line));
        let seen = LINE.seen();
        let read_until = HOT.read_until();
        if read_until < now {
            let line = line.after(old, read_until);
            if write_if(seen, &line) {
                return self.extend(&line, now);
            }
        }
        for lead in LEADS {
            let lead = old.rate.ticks(lead).unwrap_or(0);
            let base = counter::read().wrapping_add(offset).saturating_add(lead);
            let line = line.after(old, base);
            // A thread interrupted here for longer than that tries again.
            if counter::read().wrapping_add(offset) < base {
                write(&line);
                break;
            }
        }
        self.extend(&line, now);
    }

    /// Publishes a line regardless of the previous one.
    fn publish(&mut self, line: Line) {
        let line = self.with_others(line);
        write(&line);
        self.extend(&line, line.sample_ticks);
    }

    /// The line with the offsets of the other clocks.
    fn with_others(&mut self, line: Line) -> Line {
        let (wall, boot) = (kernel::ahead(ClockId::Realtime), kernel::ahead(ClockId::Boottime));
        let kept = &mut **self;
        // They are constant until the clock is set or the machine is suspended, and become more
        // precise with each reading.
        let narrowed = |old: Interval, new: Interval| {
            if kept.known { old.and(new).unwrap_or(new) } else { new }
        };
        (kept.wall, kept.boot) = (narrowed(kept.wall, wall), narrowed(kept.boot, boot));
        if !kept.known {
            kept.disruptions = vmclock::disruptions();
            kept.known = true;
        }
        Line {
            wall_ahead: kept.wall.middle(),
            wall_error: kept.wall.error(),
            boot_ahead: kept.boot.middle(),
            ..line
        }
    }

    /// Allows the counter to be read until the next comparison is due, `now` being the last.
    fn extend(&self, line: &Line, now: u64) {
        HOT.note(now);
        let late = line.rate.ticks(LATE).unwrap_or(0);
        let from = now.wrapping_sub(HOT.raw_offset()).wrapping_sub(late);
        HOT.extend(from, self.discipline.due_in(line).saturating_add(late));
    }

    /// Switches to the kernel's clock: instants continue from here, readings are the kernel's.
    pub fn give_up(&mut self, reason: Reason) {
        let line = Line::from_words(LINE.read());
        let count = match HOT.offset() {
            Some(offset) => counter::read_ordered().wrapping_add(offset),
            None => line.when(kernel::monotonic()),
        };
        let line = Line {
            error: 1,
            growth: 0,
            past_growth: 0,
            known_from: count,
            utc_error: UNKNOWN,
            ..line.from(count, kernel::monotonic())
        };
        write(&line);
        TRUST.write(&Trust::Kernel(reason).to_words());
        HOT.raise(count);
        HOT.end();
        self.again = Sample::ZERO;
        HOT.try_at(line.sample_nanos);
    }

    /// Continues from a count at a reading of the kernel's clock, which was set back.
    pub fn go_on_from(&mut self, count: u64, now: u64) {
        let line = Line::from_words(LINE.read());
        // Unless another thread was here before.
        if line.when(now) < count {
            write(&Line { known_from: count, ..line.from(count, now) });
        }
    }

    /// Takes the counter into use again, once it has been measured again.
    pub fn try_again(&mut self) {
        let now = kernel::monotonic();
        if !HOT.is_to_be_tried(now) {
            return;
        }
        HOT.try_at(now.saturating_add(EXAMINED_EVERY));
        let verdict = match Trust::from_words(TRUST.read()) {
            Trust::Kernel(Reason::Warp) => return,
            // A passing cause leaves the kernel's last verdict unchanged.
            Trust::Kernel(
                Reason::Suspended | Reason::Moved | Reason::Jumped | Reason::Timeline,
            ) if HOT.is_confined() && !timeline::is_here() => Ok(()),
            _ if HOT.is_confined() => return,
            _ => verdict::examine(),
        };
        if let Err(reason) = verdict {
            self.again = Sample::ZERO;
            TRUST.write(&Trust::Kernel(reason).to_words());
            return;
        }
        let line = Line::from_words(LINE.read());
        if line.rate == Slope::ONE {
            // Instants are nanoseconds, and cannot become anything else.
            TRUST.write(&Trust::Kernel(Reason::Begun).to_words());
            return;
        }
        let (first, sample) = (self.again, kernel::compare(ClockId::Monotonic));
        if first == Sample::ZERO || sample.nanos.saturating_sub(first.nanos) < AGAIN_SPAN {
            self.again = sample;
            HOT.try_at(now.saturating_add(AGAIN_SPAN));
            return;
        }
        self.again = Sample::ZERO;
        let offset = line.when(sample.nanos).wrapping_sub(sample.ticks);
        let measured = self.discipline.begin(with(first, offset), with(sample, offset));
        if let Some(measured) = measured {
            HOT.begin(offset);
            self.known = false;
            self.publish(Line { known_from: measured.sample_ticks, ..measured });
            TRUST.write(&Trust::Counter.to_words());
        }
    }
}

/// A comparison in counts.
const fn with(sample: Sample, offset: u64) -> Sample {
    Sample { ticks: sample.ticks.wrapping_add(offset), ..sample }
}

/// The kernel's report on how its clock is steered.
pub struct Steering {
    /// How far the wall clock can be from UTC, in nanoseconds; [`UNKNOWN`] if it is not
    /// synchronized or the kernel does not report it.
    pub utc_error: u64,
    /// The relative rate correction of the clock: from its frequency and the length of its tick.
    rate: f64,
}

impl Steering {
    /// The current state (adjtimex(2)).
    pub fn now() -> Self {
        // SAFETY: all zeroes requests no change.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes its state into `timex`; a signal handler that reads the clock
        // must leave `errno` as it was.
        let state = unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            let state = libc::syscall(libc::SYS_adjtimex, &raw mut timex);
            *errno = before;
            state
        };
        let synchronized = state >= 0
            && state != i64::from(libc::TIME_ERROR)
            && timex.status & libc::STA_UNSYNC == 0;
        let utc_error = match u64::try_from(timex.maxerror) {
            Ok(micros) if synchronized => (micros + EXAMINED_GROWTH).saturating_mul(1000),
            _ => UNKNOWN,
        };
        let rate = timex.freq as f64 * FREQUENCY + timex.tick as f64 * TICK;
        Self { utc_error, rate }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Runs a test in a forked child, whose clock is its own, and returns its result.
    fn in_a_child(is_so: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child starts threads and reads clocks; glibc takes care of its own allocator.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = i32::from(!is_so());
            // SAFETY: it ends the child at once.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        loop {
            // SAFETY: `child` is a child of this process, and no other code waits for it.
            unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) };
            if !libc::WIFSTOPPED(status) {
                return status == 0;
            }
            // Longer than any upkeep takes, and longer than a record was once considered in use.
            thread::sleep(Duration::from_secs(8));
            // SAFETY: this only continues the child.
            unsafe { libc::kill(child, libc::SIGCONT) };
        }
    }

    #[test]
    fn who_is_stopped_within_upkeep_keeps_the_record() {
        if super::super::trust() != Trust::Counter {
            eigentime_harness::skip!("a counter that the kernel keeps time by");
        }
        assert!(in_a_child(|| {
            let Some(record) = Record::take() else { return false };
            // SAFETY: the parent continues it.
            unsafe { libc::raise(libc::SIGSTOP) };
            let other = thread::spawn(|| Record::take().is_none()).join().unwrap_or(false);
            drop(record);
            other && thread::spawn(|| Record::take().is_some()).join().unwrap_or(false)
        }));
    }

    #[test]
    fn of_a_thread_that_has_ended_within_upkeep_another_takes_it() {
        static ENDED: AtomicI32 = AtomicI32::new(0);
        if super::super::trust() != Trust::Counter {
            eigentime_harness::skip!("a counter that the kernel keeps time by");
        }
        assert!(in_a_child(|| {
            let ended = thread::spawn(|| {
                ENDED.store(gettid().as_raw_nonzero().get(), SeqCst);
                Record::take().map(std::mem::forget).is_some()
            });
            let taken = ended.join().unwrap_or(false);
            // A joined thread may exist for another moment.
            while is_alive(ENDED.load(SeqCst).cast_unsigned()) {
                thread::yield_now();
            }
            taken && Record::take().is_some()
        }));
    }
}
