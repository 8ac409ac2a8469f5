//! The memory that the driver, outside of the timeline, shares with one of its servers inside.
//!
//! The driver never waits for a clock of the timeline, and the server never waits for a time other
//! than the one under test: both sides meet here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How many threads of one process make calls at the same time.
pub const CALLERS: usize = 3;
const SPEC: usize = 4096;
const TEXT: usize = 1 << 20;

/// Marks an exit status in `exited`.
pub const HAS_EXITED: u32 = 1 << 31;
/// The site was rewritten in the server, or was not.
pub const COLD: u32 = 1;
pub const HOT: u32 = 2;

/// What a thread that makes calls shows.
#[repr(C)]
pub struct Slot {
    /// Twice the index of the operation plus one when it is entered, plus two when it is finished.
    pub state: AtomicU32,
    /// The number of the call that is about to be made.
    pub nr: AtomicU32,
    pub tid: AtomicU32,
    /// How often a handler has run.
    pub handled: AtomicU32,
    /// Asks the thread's helper to bring about the awaited event.
    pub fire: AtomicU32,
    /// How often the helper has done what it was asked for; the first time it says that it is there.
    pub done: AtomicU32,
    length: AtomicU32,
    text: [u8; TEXT],
}

/// The whole of it.
#[repr(C)]
pub struct Shared {
    /// Counts the processes that were asked for.
    pub command: AtomicU32,
    /// Zero, [`COLD`] or [`HOT`].
    pub ready: AtomicU32,
    pub pid: AtomicU32,
    pub exited: AtomicU32,
    pub stopped: AtomicU32,
    pub continued: AtomicU32,
    /// Counts what the driver was told of: it waits here instead of looking again and again.
    pub told: AtomicU32,
    spec_length: AtomicU32,
    spec: [u8; SPEC],
    pub slots: [Slot; CALLERS],
}

/// A mapping of a file.
#[derive(Clone, Copy)]
pub struct Mapping(*mut Shared);

// SAFETY: the fields are atomics, and each text has one writer at a time: it is read by others only
// after the atomic that follows the write.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes the file, filled with zeros.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(size_of::<Shared>() as u64)?;
        Self::of(&file)
    }

    /// Maps what the other side has made.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(&OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn of(file: &File) -> io::Result<Self> {
        let (protection, length) = (libc::PROT_READ | libc::PROT_WRITE, size_of::<Shared>());
        // SAFETY: a new mapping of a file that is as long.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(at.cast())) }
    }

    /// What is mapped, for as long as the process lives.
    pub fn get(self) -> &'static Shared {
        // SAFETY: it is never unmapped.
        unsafe { &*self.0 }
    }

    /// Says what the next process is to do.
    pub fn set_spec(self, spec: &str) {
        assert!(spec.len() <= SPEC, "too much for one process: {spec}");
        // SAFETY: the server reads it after `command` has changed only.
        let to = unsafe { &mut (*self.0).spec };
        to[..spec.len()].copy_from_slice(spec.as_bytes());
        self.get().spec_length.store(spec.len() as u32, Ordering::Release);
    }

    /// What the next process is to do.
    pub fn spec(self) -> String {
        let shared = self.get();
        let length = shared.spec_length.load(Ordering::Acquire) as usize;
        String::from_utf8_lossy(&shared.spec[..length]).into_owned()
    }

    /// Adds to the record of a thread. What does not fit is left out, which the driver sees.
    pub fn append(self, slot: usize, text: &str) {
        let length = self.get().slots[slot].length.load(Ordering::Relaxed) as usize;
        let end = (length + text.len()).min(TEXT);
        // SAFETY: the thread alone writes, and others read up to `length`.
        let to = unsafe { &mut (*self.0).slots[slot].text };
        to[length..end].copy_from_slice(&text.as_bytes()[..end - length]);
        self.get().slots[slot].length.store(end as u32, Ordering::Release);
    }

    /// What a thread has recorded.
    pub fn text(self, slot: usize) -> String {
        let slot = &self.get().slots[slot];
        let length = slot.length.load(Ordering::Acquire) as usize;
        String::from_utf8_lossy(&slot.text[..length]).into_owned()
    }

    /// Tells the driver that something has changed.
    pub fn tell(self) {
        bump(&self.get().told);
    }

    /// Waits until `holds`, for so long at most; returns whether it does. What nobody tells of is
    /// looked at again after each pause.
    pub fn wait(
        self,
        limit: Duration,
        mut pauses: impl FnMut() -> Duration,
        mut holds: impl FnMut() -> bool,
    ) -> bool {
        let told = &self.get().told;
        let deadline = Instant::now() + limit;
        loop {
            let seen = told.load(Ordering::Acquire);
            if holds() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            await_change_for(told, seen, pauses().min(left));
        }
    }

    /// Makes it ready for another process.
    pub fn clear(self) {
        let shared = self.get();
        for word in [&shared.pid, &shared.exited, &shared.stopped, &shared.continued] {
            word.store(0, Ordering::Relaxed);
        }
        for slot in &shared.slots {
            let Slot { state, nr, tid, handled, fire, done, length, text: _ } = slot;
            for word in [state, nr, tid, handled, fire, done, length] {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Adds one, and wakes who waits for that, in any process.
pub fn bump(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Release);
    // SAFETY: wakes waiters at the address of a live atomic.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Waits, for so long at most, for the word to be another than `seen`.
fn await_change_for(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit =
        libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    // SAFETY: waits at the address of a live atomic, by a live time.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const limit)
    };
}

/// Waits, without a timeout, until the word is another than `seen`.
pub fn await_change(word: &AtomicU32, seen: u32) -> u32 {
    loop {
        let now = word.load(Ordering::Acquire);
        if now != seen {
            return now;
        }
        let never: *const libc::timespec = std::ptr::null();
        // SAFETY: waits at the address of a live atomic.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, never) };
    }
}
