//! What a case finds: memory whose every change is recorded, objects to wait for, and a helper that
//! brings about the awaited event.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use nix::errno::Errno;

use crate::shared::{Mapping, Slot, await_change, bump};
use crate::site::{self, Args};
use crate::span::{ROUNDING, SLACK, Scale, Time, Took, now, uncounted};

/// One for each thread, at addresses that are the same in every run.
const ARENA: u64 = 0x6e00_0000_0000;
const ARENA_STEP: u64 = 1 << 24;
const ARENA_LENGTH: u64 = 64 << 10;
const PAGE: u64 = 4096;
const PADDING: u8 = 0xa5;
/// Between two buffers.
const GAP: u64 = 64;
/// Descriptors are moved here, where nothing that was inherited is.
const DESCRIPTORS: u64 = 100;

/// Signals, and what becomes of them in every process of the comparison.
pub const BREAKS: i32 = libc::SIGUSR1;
pub const RESTARTS: i32 = libc::SIGUSR2;
pub const DEFAULT_IGNORED: i32 = libc::SIGCHLD;
pub const SET_TO_IGNORE: i32 = libc::SIGHUP;

/// Makes a call that prepares a case, which must succeed.
pub fn must(nr: libc::c_long, args: &[u64]) -> u64 {
    let result = may(nr, args);
    assert!(result >= 0, "call {nr} with {args:x?}: {:?}", Errno::last());
    result as u64
}

/// The same, which may fail; the result is as of `syscall()`.
pub fn may(nr: libc::c_long, args: &[u64]) -> i64 {
    let arg = |index: usize| args.get(index).copied().unwrap_or(0);
    // SAFETY: the callers pass pointers to live memory.
    unsafe { libc::syscall(nr, arg(0), arg(1), arg(2), arg(3), arg(4), arg(5)) }
}

/// What a buffer holds, and so how a change of it is recorded.
#[derive(Clone, Copy)]
pub enum Holds {
    Bytes,
    /// Two words of time of which some may be left of what was asked for.
    Left {
        parts_per_second: i64,
    },
    /// Two such times: how often a timer goes off, and when it does next.
    Setting {
        parts_per_second: i64,
    },
    /// A futex with the number of a thread.
    Owner,
    Siginfo,
    /// What the operation itself compares.
    Checked,
}

struct Buffer {
    name: &'static str,
    at: u64,
    before: Vec<u8>,
    holds: Holds,
}

pub type Deed = Box<dyn FnOnce() + Send>;

/// What the helper of a thread is to do when it is asked.
#[derive(Clone, Default)]
pub struct Helper {
    deed: Arc<Mutex<Option<Deed>>>,
    pub tid: Arc<AtomicU32>,
}

impl Helper {
    /// The helper's thread: the slot's `fire` counts what it is asked for.
    pub fn serve(&self, mapping: Mapping, slot: &Slot) {
        self.tid.store(must(libc::SYS_gettid, &[]) as u32, Ordering::Release);
        bump(&slot.done);
        let mut seen = 0;
        loop {
            seen = await_change(&slot.fire, seen);
            let deed = self.deed.lock().expect("no deed panics").take();
            if let Some(deed) = deed {
                deed();
            }
            bump(&slot.done);
            mapping.tell();
        }
    }
}

fn nanos(sec: i64, part: i64, parts_per_second: i64) -> Option<i64> {
    let part = (0..parts_per_second).contains(&part).then_some(part)?;
    // The longest time is more than can be counted.
    Some(
        sec.saturating_mul(1_000_000_000).saturating_add(part * (1_000_000_000 / parts_per_second)),
    )
}

/// What one operation of a thread has to do with.
pub struct World {
    pub mapping: Mapping,
    pub slot: usize,
    pub scale: Scale,
    pub helper: Helper,
    began: i64,
    used: u64,
    buffers: Vec<Buffer>,
    descriptors: Vec<u64>,
    cleanups: Vec<Deed>,
    asked: Time,
    /// Is it counted in ticks?
    in_ticks: bool,
    interval: Time,
    makes_descriptor: bool,
    takes_any_time: bool,
    record: String,
}

impl World {
    /// Maps the arena of a thread.
    pub fn new(mapping: Mapping, slot: usize, scale: Scale, helper: Helper) -> Self {
        let at = ARENA + slot as u64 * ARENA_STEP;
        let (all, none) = ((libc::PROT_READ | libc::PROT_WRITE) as u64, libc::PROT_NONE as u64);
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let length = ARENA_LENGTH + 2 * PAGE;
        must(libc::SYS_mmap, &[at, length, all, flags, u64::MAX, 0]);
        must(libc::SYS_mprotect, &[at + ARENA_LENGTH, PAGE, none]);
        must(libc::SYS_mprotect, &[at + ARENA_LENGTH + PAGE, PAGE, libc::PROT_READ as u64]);
        Self {
            mapping,
            slot,
            scale,
            helper,
            began: 0,
            used: 0,
            buffers: Vec::new(),
            descriptors: Vec::new(),
            cleanups: Vec::new(),
            asked: Time::Null,
            in_ticks: false,
            interval: Time::Null,
            makes_descriptor: false,
            takes_any_time: false,
            record: String::new(),
        }
    }

    fn arena(&self) -> u64 {
        ARENA + self.slot as u64 * ARENA_STEP
    }

    /// Where nothing can be read.
    pub fn unmapped(&self) -> u64 {
        self.arena() + ARENA_LENGTH
    }

    /// Where nothing can be written.
    pub fn read_only(&self) -> u64 {
        self.arena() + ARENA_LENGTH + PAGE
    }

    /// The last eight bytes that can be written.
    pub fn edge(&self) -> u64 {
        self.arena() + ARENA_LENGTH - 8
    }

    /// Clears what the last operation has left.
    pub fn begin(&mut self) {
        // SAFETY: it is mapped, and nobody else uses it.
        let arena = unsafe {
            std::slice::from_raw_parts_mut(self.arena() as *mut u8, ARENA_LENGTH as usize)
        };
        arena.fill(PADDING);
        (self.used, self.asked, self.interval) = (GAP, Time::Null, Time::Null);
        self.began = now(libc::CLOCK_MONOTONIC);
        (self.makes_descriptor, self.takes_any_time) = (false, false);
        self.record.clear();
    }

    /// A buffer of this content. Its changes are recorded after the call.
    pub fn buffer(&mut self, name: &'static str, content: &[u8], holds: Holds) -> u64 {
        let at = self.arena() + self.used;
        self.used = (self.used + content.len() as u64).next_multiple_of(16) + GAP;
        assert!(self.used < ARENA_LENGTH - PAGE, "the arena is full");
        self.write(at, content);
        self.buffers.push(Buffer { name, at, before: content.to_vec(), holds });
        at
    }

    /// A buffer of words.
    pub fn words(&mut self, name: &'static str, words: &[u64], holds: Holds) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.buffer(name, &bytes, holds)
    }

    /// A buffer of half words.
    pub fn halves(&mut self, name: &'static str, halves: &[u32], holds: Holds) -> u64 {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_ne_bytes()).collect();
        self.buffer(name, &bytes, holds)
    }

    /// A time as an argument, of which some may be left.
    pub fn time(&mut self, words: [i64; 2], parts_per_second: i64) -> u64 {
        self.words("time", &words.map(|word| word as u64), Holds::Left { parts_per_second })
    }

    fn write(&self, at: u64, content: &[u8]) {
        // SAFETY: within the arena.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), at as *mut u8, content.len()) };
    }

    pub fn read<const BYTES: usize>(&self, at: u64) -> [u8; BYTES] {
        // SAFETY: within the arena.
        unsafe { std::ptr::read_volatile(at as *const [u8; BYTES]) }
    }

    pub fn read_words<const WORDS: usize>(&self, at: u64) -> [i64; WORDS] {
        // SAFETY: within the arena, where buffers are aligned to 16 bytes.
        unsafe { std::ptr::read_volatile(at as *const [i64; WORDS]) }
    }

    /// Takes a descriptor to where it has the same number in every run.
    pub fn keep(&mut self, descriptor: u64) -> u64 {
        let base = DESCRIPTORS * (self.slot as u64 + 1);
        let kept = must(libc::SYS_fcntl, &[descriptor, libc::F_DUPFD_CLOEXEC as u64, base]);
        must(libc::SYS_close, &[descriptor]);
        self.descriptors.push(kept);
        kept
    }

    /// The same for one that lasts as long as the process.
    pub fn reserve(&self, descriptor: u64) -> u64 {
        let reserved = [descriptor, libc::F_DUPFD_CLOEXEC as u64, DESCRIPTORS / 2];
        let kept = must(libc::SYS_fcntl, &reserved);
        must(libc::SYS_close, &[descriptor]);
        kept
    }

    pub fn eventfd(&mut self) -> u64 {
        let made = must(libc::SYS_eventfd2, &[0, 0]);
        self.keep(made)
    }

    pub fn sockets(&mut self, kind: i32) -> [u64; 2] {
        let mut pair = [0i32; 2];
        let args = [libc::AF_UNIX as u64, kind as u64, 0, pair.as_mut_ptr() as u64];
        must(libc::SYS_socketpair, &args);
        pair.map(|one| self.keep(one as u64))
    }

    /// What is to be done when the operation is over.
    pub fn later(&mut self, deed: impl FnOnce() + Send + 'static) {
        self.cleanups.push(Box::new(deed));
    }

    /// The awaited event: happens now, or when the driver asks for it.
    pub fn event(&mut self, at_once: bool, deed: impl FnOnce() + Send + 'static) {
        if at_once {
            deed();
        } else {
            *self.helper.deed.lock().expect("no deed panics") = Some(Box::new(deed));
        }
    }

    /// Has the helper bring about the event beside what the caller does next; for `await_helper`.
    pub fn fire(&self) -> u32 {
        let slot = &self.mapping.get().slots[self.slot];
        let done = slot.done.load(Ordering::Acquire);
        bump(&slot.fire);
        done
    }

    /// Waits until the helper has done what was asked for.
    pub fn await_helper(&self, done: u32) {
        await_change(&self.mapping.get().slots[self.slot].done, done);
    }

    pub fn caller(&self) -> u64 {
        must(libc::SYS_gettid, &[])
    }

    /// Takes what the preparation has written to a buffer as its content.
    pub fn settle(&mut self, name: &str) {
        let at = self.buffers.iter().position(|buffer| buffer.name == name).expect("a buffer");
        let buffer = &self.buffers[at];
        let content = self.bytes(buffer.at, buffer.before.len());
        self.buffers[at].before = content;
    }

    /// The call's result is a descriptor, of which the number says nothing.
    pub fn makes_descriptor(&mut self) {
        self.makes_descriptor = true;
    }

    /// How long the call takes says nothing, unless that is late.
    pub fn takes_any_time(&mut self) {
        self.takes_any_time = true;
    }

    /// Says for how long the call is to wait; what is recorded of its duration depends on it.
    pub fn asks(&mut self, time: Time) {
        (self.asked, self.in_ticks) = (time, false);
    }

    /// The same for a time that the kernel counts in ticks.
    pub fn asks_in_ticks(&mut self, time: Time) {
        (self.asked, self.in_ticks) = (time, true);
    }

    /// The same for a timer that goes off again and again.
    pub fn asks_every(&mut self, interval: Time) {
        self.interval = interval;
    }

    /// Makes the call that is compared, and records all that came of it. `began` is when its time
    /// was asked for.
    pub fn call(&mut self, nr: u32, args: &Args, began: i64) -> i64 {
        let slot = &self.mapping.get().slots[self.slot];
        slot.nr.store(nr, Ordering::Relaxed);
        slot.state.fetch_or(1, Ordering::Release);
        let result = site::call(nr, args);
        let ended = now(libc::CLOCK_MONOTONIC);
        let early = if self.in_ticks { uncounted() } else { ROUNDING };
        let took = Took::of(self.asked, ended - began, early, self.scale);
        // When it is interrupted is the driver's to say; what is not there waits for nothing.
        let untimed = [libc::EINTR, libc::ENOSYS].map(|error| -i64::from(error));
        let any_time = self.takes_any_time || untimed.contains(&result);
        let took = if any_time && took != Took::Late { Took::Untimed } else { took };
        self.note_result("", result);
        let _ = write!(self.record, " took={took}");
        self.note_changes(ended - began);
        result
    }

    /// Makes a call again and again, each time with the arena as it is now, until it says something
    /// other than `over`, that its time is; records the last.
    pub fn call_until_ready(&mut self, nr: u32, args: &Args, over: i64) {
        let slot = &self.mapping.get().slots[self.slot];
        let arena = self.bytes(self.arena(), self.used as usize);
        slot.nr.store(nr, Ordering::Relaxed);
        slot.state.fetch_or(1, Ordering::Release);
        let result = loop {
            self.write(self.arena(), &arena);
            let result = site::call(nr, args);
            if result != over {
                break result;
            }
        };
        self.note_result("", result);
        self.note_changes(i64::MAX);
    }

    /// Makes a call whose duration says nothing.
    pub fn quick(&mut self, key: &str, nr: u32, args: &Args) -> i64 {
        let result = site::call(nr, args);
        self.note_result(key, result);
        let elapsed = now(libc::CLOCK_MONOTONIC) - self.began;
        self.note_changes(elapsed);
        result
    }

    /// Adds to the record.
    pub fn note(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = write!(self.record, " {key}={value}");
    }

    fn note_result(&mut self, key: &str, result: i64) {
        let _ = match result {
            -4095..0 => match Errno::from_raw(-result as i32) {
                Errno::UnknownErrno => write!(self.record, " {key}={result}"),
                error => write!(self.record, " {key}={error:?}"),
            },
            // It is left open: the end of a ring, later, would interrupt other calls.
            _ if self.makes_descriptor => write!(self.record, " {key}=descriptor"),
            _ => write!(self.record, " {key}={result}"),
        };
    }

    /// Compares every byte of the arena with what it was.
    fn note_changes(&mut self, elapsed: i64) {
        let buffers = std::mem::take(&mut self.buffers);
        let mut inside = vec![false; self.used as usize];
        for buffer in &buffers {
            let from = (buffer.at - self.arena()) as usize;
            inside[from..from + buffer.before.len()].fill(true);
            let after = self.bytes(buffer.at, buffer.before.len());
            if matches!(buffer.holds, Holds::Checked) {
                continue;
            }
            if after == buffer.before {
                if matches!(buffer.holds, Holds::Left { .. } | Holds::Setting { .. }) {
                    let _ = write!(self.record, " {}:untouched", buffer.name);
                }
            } else {
                let shown = self.shown(buffer, &after, elapsed);
                let _ = write!(self.record, " {}:{shown}", buffer.name);
            }
        }
        let all = self.bytes(self.arena(), self.used as usize);
        let stray = all.iter().zip(&inside).position(|(byte, inside)| !inside && *byte != PADDING);
        if let Some(at) = stray {
            let _ = write!(self.record, " written-beside:{at:#x}");
        }
        // What has changed once is what a later call finds.
        self.buffers = buffers
            .into_iter()
            .map(|buffer| Buffer { before: self.bytes(buffer.at, buffer.before.len()), ..buffer })
            .collect();
    }

    fn bytes(&self, at: u64, length: usize) -> Vec<u8> {
        // SAFETY: within the arena; a copy is made at once.
        unsafe { std::slice::from_raw_parts(at as *const u8, length) }.to_vec()
    }

    fn shown(&self, buffer: &Buffer, after: &[u8], elapsed: i64) -> String {
        let half = |at: usize| u32::from_ne_bytes(after[at..at + 4].try_into().expect("four"));
        let word = |at: usize| i64::from_ne_bytes(after[at..at + 8].try_into().expect("eight"));
        match buffer.holds {
            Holds::Bytes => after.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }),
            Holds::Left { parts_per_second } => match nanos(word(0), word(8), parts_per_second) {
                // It is some or none by when the call was made.
                Some(0) if self.takes_any_time => "some".to_owned(),
                Some(left) => self.scale.left(self.asked, SLACK, left, elapsed).to_owned(),
                None => format!("{}s+{}", word(0), word(8)),
            },
            Holds::Setting { parts_per_second } => {
                let interval = match nanos(word(0), word(8), parts_per_second) {
                    Some(0) => "none",
                    Some(span) if self.scale.is_about(self.interval, span) => "as-asked",
                    _ => "other",
                };
                let left = match nanos(word(16), word(24), parts_per_second) {
                    Some(left) => self.scale.left(self.asked, 0, left, elapsed),
                    None => "malformed",
                };
                format!("every-{interval},left-{left}")
            }
            Holds::Owner => {
                const TID: u32 = 0x3fff_ffff;
                let owner = match half(0) & TID {
                    0 => "nobody",
                    tid if u64::from(tid) == self.caller() => "caller",
                    tid if tid == self.helper.tid.load(Ordering::Relaxed) => "helper",
                    _ => "stranger",
                };
                format!("{owner}+{:x}", half(0) & !TID)
            }
            Holds::Checked => unreachable!("not shown"),
            Holds::Siginfo => {
                let own = u64::from(half(16)) == must(libc::SYS_getpid, &[]);
                let rest: u32 = (20..after.len()).step_by(4).map(half).fold(0, |all, it| all | it);
                format!(
                    "signo{} errno{} code{} own{own} rest{rest:x}",
                    half(0),
                    half(4),
                    half(8) as i32
                )
            }
        }
    }

    /// Undoes what was prepared, and gives out the record.
    pub fn end(&mut self) -> String {
        for deed in std::mem::take(&mut self.cleanups).into_iter().rev() {
            deed();
        }
        self.helper.deed.lock().expect("no deed panics").take();
        for descriptor in std::mem::take(&mut self.descriptors) {
            must(libc::SYS_close, &[descriptor]);
        }
        self.buffers.clear();
        std::mem::take(&mut self.record)
    }
}
