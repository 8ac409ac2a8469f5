//! The process's clock: the reading done on every call, and the upkeep when it is due.
//!
//! A count is the processor's counter plus an offset, which is zero unless the counter was measured
//! again after a jump. While the counter is not trusted, counts are derived from CLOCK_MONOTONIC
//! with the same line that converts counts to nanoseconds, so all instants of a process can be
//! compared.

mod hot;
mod phase;
mod record;

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use rustix::time::ClockId;

use crate::counter;
use crate::kernel;
use crate::latch::Latch;
use crate::line::{self, Line, Slope, UNKNOWN};
use crate::trust::{self, Reason, Trust};
use crate::verdict::{self, timeline, vmclock};

use hot::HOT;
use phase::{PHASE, Turn};
use record::{Record, Steering};

macro_rules! latch {
    ($words:expr) => {{
        let copies = [const { [const { AtomicU64::new(0) }; $words] }; 2];
        Latch::new(AtomicU64::new(0), copies)
    }};
}

/// The line, written by the thread that holds the record.
static LINE: Latch<{ line::WORDS }> = latch!(line::WORDS);

/// A copy of the line's rate for durations, which need nothing else of the line.
static RATE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The current source and the reason, written by the thread that holds the record.
static TRUST: Latch<{ trust::WORDS }> = latch!(trust::WORDS);

/// A clock this far behind was set back, in nanoseconds: other threads read it, too.
const PUT_BACK: u64 = 1_000_000;

/// The count, unordered.
#[inline]
pub fn now() -> u64 {
    HOT.count(counter::read()).unwrap_or_else(slow)
}

/// The count, without upkeep that may be due, for callers that cannot spare a few microseconds.
#[inline]
pub fn now_in_haste() -> u64 {
    HOT.count(counter::read()).unwrap_or_else(|| match HOT.offset() {
        Some(offset) if !timeline::is_here() => late(counter::read(), offset),
        _ => slow(),
    })
}

/// A count read although upkeep is due. It is recorded before it is used, so that no line drawn
/// meanwhile changes what has been read.
fn late(ticks: u64, offset: u64) -> u64 {
    let count = ticks.wrapping_add(offset);
    HOT.note_late(count);
    LINE.announce();
    count
}

/// The count, ordered after everything before it.
#[inline]
pub fn now_ordered() -> u64 {
    HOT.count(counter::read_ordered()).unwrap_or_else(slow)
}

/// A recent count.
#[inline]
pub fn recent() -> u64 {
    match HOT.recent() {
        recent if recent != 0 && HOT.is_counting() => recent,
        _ => now(),
    }
}

/// The raw counter.
#[inline]
pub fn raw() -> u64 {
    counter::read()
}

/// The raw counter, ordered.
#[inline]
pub fn raw_ordered() -> u64 {
    counter::read_ordered()
}

/// The current line, as far as CLOCK_MONOTONIC is concerned.
pub fn line() -> Line {
    if ready() == Turn::Unfinished {
        // Counts are the counter's; their meaning is not known yet.
        let line = Line { error: UNKNOWN, ..Line::NANOSECONDS };
        return with_others(line.from(counter::read_ordered(), kernel::monotonic()));
    }
    Line::from_words(LINE.read())
}

/// The current rate of counts.
pub fn rate() -> Slope {
    if ready() == Turn::Unfinished {
        return Slope::ONE;
    }
    // The two words are independent, so it does not matter if one is older.
    let [nanos_per_tick, ticks_per_nano] = [0, 1].map(|word: usize| RATE[word].load(Relaxed));
    Slope { nanos_per_tick, ticks_per_nano }
}

/// Publishes a line.
fn write(line: &Line) {
    LINE.write(&line.to_words());
    write_rate(line);
}

/// Publishes a line unless a late reading was made since `seen`.
fn write_if(seen: u64, line: &Line) -> bool {
    let written = LINE.write_if(seen, &line.to_words());
    if written {
        write_rate(line);
    }
    written
}

fn write_rate(line: &Line) {
    RATE[0].store(line.rate.nanos_per_tick, Relaxed);
    RATE[1].store(line.rate.ticks_per_nano, Relaxed);
}

/// The line, including the offsets of the other clocks.
pub fn line_to_others() -> Line {
    let line = line();
    // Another clock may be set at any time; if the kernel's is read it is asked each time.
    if HOT.is_counting() { line } else { with_others(line) }
}

fn with_others(line: Line) -> Line {
    let (wall, boot) = (kernel::ahead(ClockId::Realtime), kernel::ahead(ClockId::Boottime));
    Line { wall_ahead: wall.middle(), wall_error: wall.error(), boot_ahead: boot.middle(), ..line }
}

/// The same, with what the kernel reports of its own clock if the counter is not in use.
pub fn line_to_utc() -> Line {
    let mut line = line_to_others();
    if !HOT.is_counting() && !HOT.is_confined() && !timeline::is_here() {
        line.utc_error = Steering::now().utc_error;
    }
    line
}

/// The current source and the reason.
pub fn trust() -> Trust {
    if ready() == Turn::Unfinished {
        return Trust::Kernel(Reason::Measuring);
    }
    with_record(|record| {
        if !HOT.is_counting() || record.is_unexamined_since(kernel::monotonic()) {
            record.upkeep(true);
        }
    });
    Trust::from_words(TRUST.read())
}

/// Compares the clock with the kernel's, and asks the kernel for its verdict.
pub fn upkeep() {
    ready();
    with_record(|record| record.upkeep(true));
}

/// The upkeep of a dedicated thread.
pub fn routine() {
    with_record(|record| record.upkeep(false));
}

/// Runs a function on the record, if it is free. A signal handler that left it by a jump would keep
/// it for good.
fn with_record(what: impl FnOnce(&mut Record)) {
    without_signals(|| {
        if let Some(mut record) = Record::take() {
            what(&mut record);
        }
    });
}

/// Whether the counter is read and shows the host's time.
pub fn is_counting() -> bool {
    HOT.is_counting() && !timeline::is_here()
}

/// Forbids readers all system calls but `clock_gettime` from now on.
pub fn confine() {
    HOT.confine();
    ready();
}

/// Takes the counter out of use for good.
pub fn distrust(reason: Reason) {
    ready();
    with_record(|record| record.give_up(reason));
}

/// The slow path, when the count cannot simply be read.
#[cold]
#[inline(never)]
fn slow() -> u64 {
    if ready() == Turn::Unfinished {
        // A signal handler has interrupted the very first reading.
        return counter::read_ordered();
    }
    if HOT.is_counting() {
        routine();
    } else if HOT.is_to_be_tried(kernel::monotonic()) {
        with_record(Record::try_again);
    }
    match HOT.offset() {
        Some(offset) if !timeline::is_here() => {
            let ticks = counter::read_ordered();
            HOT.count(ticks).unwrap_or_else(|| late(ticks, offset))
        }
        _ => kernel_count(),
    }
}

/// The count according to the kernel's clock. Instants never go back: if that clock does (when a
/// program leaves a timeline that was ahead of the host), they continue from the last one.
fn kernel_count() -> u64 {
    // In this order: whatever was counted before, the clock read afterwards is not behind it.
    // Between a reading and a later look others may have advanced the count by any amount.
    let last = HOT.last();
    fence(SeqCst);
    let now = kernel::monotonic();
    let line = Line::from_words(LINE.read());
    let count = line.when(now);
    if count >= last {
        HOT.raise(count);
        return count;
    }
    if line.rate.nanos(last - count) < PUT_BACK {
        return count;
    }
    with_record(|record| record.go_on_from(last, now));
    last
}

/// Records that the kernel reports this count as reached: its timer for it has expired.
pub fn has_come(count: u64) {
    if !HOT.is_counting() {
        HOT.raise(count);
    }
}

/// Runs in a forked child.
extern "C" fn look_again() {
    HOT.expire();
}

/// Ensures that the clock is measured.
#[inline]
fn ready() -> Turn {
    match PHASE.lock() {
        Turn::First => {
            without_signals(|| {
                begin();
                PHASE.finish();
            });
            Turn::Ready
        }
        turn => turn,
    }
}

/// Runs a function with signals blocked: a signal handler would find the clock unmeasured, and
/// could leave by a jump and never come back. A process confined to essential system calls takes
/// that risk itself.
fn without_signals(what: impl FnOnce()) {
    if HOT.is_confined() {
        return what();
    }
    // SAFETY: both sets are valid to write and read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        let blocked = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        what();
        if blocked == 0 {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
    }
}

/// Makes the first measurement.
#[cold]
fn begin() {
    timeline::look();
    vmclock::look();
    // A forked child may live in another time namespace: it checks before it counts. SAFETY: the
    // handler stores a number in a static. If registration fails, a child checks when its upkeep is
    // due.
    unsafe { libc::pthread_atfork(None, None, Some(look_again)) };
    let record = Record::make();
    let verdict = verdict::examine().and_then(|()| record.ok_or(Reason::NoMemory)?.measure());
    if let Err(reason) = verdict {
        // Instants are nanoseconds of CLOCK_MONOTONIC here, now and later.
        write(&Line { error: 1, ..Line::NANOSECONDS });
        TRUST.write(&Trust::Kernel(reason).to_words());
    }
}
