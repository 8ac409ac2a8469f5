//! A process that sees to it that interrupts are put back if their owner's process is killed.
//!
//! It is a child that shares the memory of its parent (CLONE_VM): nothing is copied, now or at the
//! owner's next writes, which a real-time thread would pay for. So it must neither allocate nor
//! touch what is a thread's own, `errno` included: from the moment that it is ready it makes system
//! calls through rustix alone, which has them without the C library, on a stack of its own. It has
//! none of the owner's descriptors, gets no signals, and is in a session of its own. Its end sends
//! no SIGCHLD, and waitpid(-1) does not see it: see `__WCLONE` in wait(2).

use std::ffi::{CStr, c_int, c_void};
use std::fmt::{self, Write as _};
use std::io::Read;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr::{self, NonNull};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, openat, renameat, unlinkat};
use rustix::io::{Errno, read, write};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, chdir, getpid, pidfd_open, pidfd_send_signal,
    setsid, waitid,
};
use rustix::thread::set_name;

use super::super::owner::started_in;
use super::system::{LIST, RECORD, System};

/// The process, as long as it is needed; dropping it ends it.
#[derive(Debug)]
pub struct Guardian {
    process: OwnedFd,
    /// It ends with the owner, also by execve(2), where the process as such goes on.
    _connection: UnixStream,
    owner: Pid,
    memory: Option<Memory>,
}

/// Its stack and what it works with, one above the other, and a page below that is none.
#[derive(Debug)]
struct Memory(NonNull<c_void>);

// SAFETY: it is an address; what is there is the child's.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

const PAGE: usize = 65_536;
const STACK: usize = 65_536;
const LENGTH: usize = PAGE + STACK + size_of::<Work>().next_multiple_of(PAGE);

/// What it needs to do its work without asking for memory.
#[repr(align(16))]
struct Work {
    run: Text<PATH>,
    interrupts: Text<PATH>,
    record: Text<PATH>,
    owner: i32,
    /// The other end of the connection.
    connection: RawFd,
    /// A descriptor of the owner's process.
    owner_ends: RawFd,
    text: [u8; RECORD_LENGTH],
    list: [u8; LIST_LENGTH],
}

const PATH: usize = 512;
/// A record of a thousand interrupts on a hundred processors is as long.
const RECORD_LENGTH: usize = 1 << 18;
const LIST_LENGTH: usize = 1 << 14;

impl Guardian {
    /// Starts one for this process, if it can be had: where it cannot (an old kernel, a limit, a
    /// sandbox), the next one that steers puts back what was left.
    pub fn start(system: &System) -> Option<Self> {
        let (mut here, there) = UnixStream::pair().ok()?;
        let owner = getpid();
        let owner_ends = pidfd_open(owner, PidfdFlags::empty()).ok()?;
        let path = |path: &Path| Text::of(format_args!("{}", path.to_str()?));
        let mut memory = Memory::new()?;
        let work = memory.work();
        work.run = path(&system.run)?;
        work.interrupts = path(&system.interrupts)?;
        work.record = Text::of(format_args!("{RECORD}"))?;
        work.owner = owner.as_raw_nonzero().get();
        work.connection = there.as_raw_fd();
        work.owner_ends = owner_ends.as_raw_fd();
        let child = without_signals(|| memory.start())?;
        // This is a child that nobody else waits for: the number is its own.
        let process = pidfd_open(child, PidfdFlags::empty());
        drop(there);
        let Ok(process) = process else {
            let child = child.as_raw_nonzero().get();
            // SAFETY: they have numbers for arguments, and a place that is none.
            let ended = unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, ptr::null_mut(), libc::__WALL) == child
            };
            if !ended {
                std::mem::forget(memory);
            }
            return None;
        };
        // Until it has answered, the `errno` of this thread may be changed by it.
        let is_ready = here.read_exact(&mut [0]).is_ok();
        let guardian = Self { process, _connection: here, owner, memory: Some(memory) };
        is_ready.then_some(guardian)
    }

    #[cfg(test)]
    pub fn pid(&self) -> i32 {
        let about = format!("/proc/self/fdinfo/{}", self.process.as_raw_fd());
        let about = std::fs::read_to_string(about).unwrap();
        about.lines().find_map(|line| line.strip_prefix("Pid:")).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // In a child that was forked it is a copy: the guardian is that of the parent.
        let memory = self.memory.take();
        if getpid() != self.owner {
            return;
        }
        // It may have ended already.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        // Which waitid(2) knows since Linux 4.7.
        let options = WaitIdOptions::EXITED | WaitIdOptions::from_bits_retain(libc::__WALL as u32);
        let ended = loop {
            match waitid(WaitId::PidFd(self.process.as_fd()), options) {
                Err(Errno::INTR) => {}
                // Somebody else has waited for it.
                Ok(_) | Err(Errno::CHILD) => break true,
                Err(_) => break false,
            }
        };
        if !ended {
            std::mem::forget(memory);
        }
    }
}

impl Memory {
    fn new() -> Option<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping that overlaps nothing.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), LENGTH, access, flags) }.ok()?;
        let memory = Self(NonNull::new(start)?);
        // SAFETY: the first part of the mapping, which nothing uses.
        unsafe { mprotect(start, PAGE, MprotectFlags::empty()) }.ok()?;
        Some(memory)
    }

    /// What is there before the child is started, zeros at first.
    fn work(&mut self) -> &mut Work {
        // SAFETY: it is within the mapping and aligned, nobody else uses it yet, and zeros are
        // numbers and empty texts.
        unsafe { self.place().as_mut() }
    }

    fn place(&self) -> NonNull<Work> {
        // SAFETY: it is within the mapping.
        unsafe { self.0.byte_add(PAGE + STACK) }.cast()
    }

    fn start(&self) -> Option<Pid> {
        let work: *mut c_void = self.place().as_ptr().cast();
        // No signal at its end.
        let flags = libc::CLONE_VM;
        // SAFETY: the stack, which ends where the work begins, and the work stay until the child
        // has ended, and are used by nobody else.
        let child = unsafe { libc::clone(child, work, flags, work) };
        Pid::from_raw(child.max(0))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the child has ended, or was never started.
        let _ = unsafe { munmap(self.0.as_ptr(), LENGTH) };
    }
}

/// Calls it with all signals blocked: what it starts has them blocked for ever.
fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are filled in before they are used; the mask is the calling thread's.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let done = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        done
    }
}

/// The child: what it returns is its exit status.
extern "C" fn child(work: *mut c_void) -> c_int {
    // SAFETY: it is the work that was made for this process.
    let work = unsafe { &mut *work.cast::<Work>() };
    // SAFETY: these two descriptors are not closed here.
    let connection = unsafe { BorrowedFd::borrow_raw(work.connection) };
    // SAFETY: as above.
    let owner_ends = unsafe { BorrowedFd::borrow_raw(work.owner_ends) };
    let is_ready = close_others(work.connection, work.owner_ends)
        && set_name(c"eigentime-irq").is_ok()
        && setsid().is_ok()
        && chdir(c"/").is_ok()
        && write(connection, b"!").is_ok();
    if !is_ready {
        return 1;
    }
    let either =
        &mut [PollFd::new(&connection, PollFlags::IN), PollFd::new(&owner_ends, PollFlags::IN)];
    while !matches!(poll(either, None), Ok(1..)) {}
    i32::from(work.put_back().is_none())
}

/// Closes all descriptors but these.
fn close_others(one: RawFd, other: RawFd) -> bool {
    let (low, high) = (one.min(other).cast_unsigned(), one.max(other).cast_unsigned());
    let close = |first: u32, last: u32| {
        // SAFETY: the descriptors are this process's own copies, which nothing uses. The owner's
        // thread, whose `errno` this may change, waits meanwhile.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
    };
    (low == 0 || close(0, low - 1))
        && close(low + 1, high.wrapping_sub(1))
        && close(high + 1, u32::MAX)
}

impl Work {
    /// Takes the owner off the record. If there is no other, all goes back to where it was;
    /// otherwise the last of the others does that, or its guardian. None if that fails.
    fn put_back(&mut self) -> Option<()> {
        let (flags, name) = (OFlags::CLOEXEC, self.record.c_str()?);
        let run = openat(CWD, self.run.c_str()?, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
        flock(&run, FlockOperation::LockExclusive).ok()?;
        let text = match openat(&run, name, flags, Mode::empty()) {
            Ok(file) => whole(file, &mut self.text)?,
            Err(Errno::NOENT) => return Some(()),
            Err(_) => return None,
        };
        let owner = self.owner;
        let is_owners = |line: &str| holder(line).is_some_and(|(process, ..)| process == owner);
        let goes_on = |line: &str| {
            !is_owners(line)
                && holder(line).is_some_and(|(process, thread, started)| {
                    birth(process, thread) == Some(started)
                })
        };
        if text.lines().any(goes_on) {
            let new = Text::<PATH>::of(format_args!("{}.new", self.record.as_str()?))?;
            let create = flags | OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY;
            let file = openat(&run, new.c_str()?, create, Mode::from_raw_mode(0o600)).ok()?;
            for line in text.lines().filter(|line| !is_owners(line)) {
                all(&file, line.as_bytes())?;
                all(&file, b"\n")?;
            }
            return renameat(&run, new.c_str()?, &run, name).ok();
        }
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some("interrupt"), Some(number), Some(was), Some(now)) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            let folder = self.interrupts.as_str()?;
            let Some(path) = Text::<PATH>::of(format_args!("{folder}/{number}/{LIST}")) else {
                continue;
            };
            // What somebody else has set since is theirs; what is refused stays refused.
            let is = openat(CWD, path.c_str()?, flags, Mode::empty());
            let is = is.ok().and_then(|file| whole(file, &mut self.list));
            if is.and_then(Cpus::of).is_some_and(|is| Some(is) == Cpus::of(now)) {
                let write = flags | OFlags::WRONLY | OFlags::TRUNC;
                let file = openat(CWD, path.c_str()?, write, Mode::empty());
                let _ = file.ok().and_then(|file| all(file, was.as_bytes()));
            }
        }
        unlinkat(&run, name, AtFlags::empty()).ok()
    }
}

/// The process, the thread and its start in a line about an owner.
fn holder(line: &str) -> Option<(i32, i32, u64)> {
    let mut words = line.split(' ');
    let ("owner" | "onto") = words.next()? else { return None };
    let mut word = || words.next();
    Some((word()?.parse().ok()?, word()?.parse().ok()?, word()?.parse().ok()?))
}

/// As that of `owner`, without memory.
fn birth(process: i32, thread: i32) -> Option<u64> {
    let path = Text::<64>::of(format_args!("/proc/{process}/task/{thread}/stat"))?;
    let file = openat(CWD, path.c_str()?, OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = [0; 4096];
    let length = read(&file, &mut bytes).ok()?;
    // The program's name may be anything.
    let end = bytes.get(..length)?.iter().rposition(|byte| *byte == b')')?;
    started_in(std::str::from_utf8(bytes.get(end + 1..length)?).ok()?)
}

/// All that is in a file, if there is room for it.
fn whole(file: OwnedFd, room: &mut [u8]) -> Option<&str> {
    let mut length = 0;
    loop {
        match read(&file, room.get_mut(length..)?).ok()? {
            0 if length < room.len() => break,
            0 => return None,
            more => length += more,
        }
    }
    std::str::from_utf8(room.get(..length)?).ok()
}

fn all(file: impl AsFd, mut bytes: &[u8]) -> Option<()> {
    while !bytes.is_empty() {
        bytes = bytes.get(write(&file, bytes).ok()?..)?;
    }
    Some(())
}

/// A set of processors, as many as kernels can be made for.
#[derive(PartialEq, Eq)]
struct Cpus([u64; 128]);

impl Cpus {
    fn of(list: &str) -> Option<Self> {
        let mut cpus = [0; 128];
        for part in list.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            for cpu in first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()? {
                *cpus.get_mut(cpu / 64)? |= 1 << (cpu % 64);
            }
        }
        Some(Self(cpus))
    }
}

/// A text that ends with a zero.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    /// None if it is too long.
    fn of(what: fmt::Arguments) -> Option<Self> {
        let mut text = Self { bytes: [0; N], length: 0 };
        text.write_fmt(what).ok()?;
        Some(text)
    }

    fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..self.length)?).ok()
    }

    fn c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = self.length + more.len();
        // One is left for the zero.
        let room = self.bytes.get_mut(self.length..end).filter(|_| end < N).ok_or(fmt::Error)?;
        room.copy_from_slice(more.as_bytes());
        self.length = end;
        Ok(())
    }
}
