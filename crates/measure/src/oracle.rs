//! Whether a call is served by the vDSO alone or by the kernel, tested directly instead of timed.
//!
//! A child of this process forbids itself the system calls in question with a seccomp filter, which
//! answers them with an error number that no kernel uses, and then calls the functions of the vDSO.
//! A call that returns this number has made a system call. This needs no privilege, and a
//! deliberate system call of the child first verifies the filter.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use rustix::time::Timespec;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, sock_filter};

use crate::Unknown;
use crate::arch::{NAMES, TIME};
use crate::vdso::Vdso;

/// A call to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `clock_gettime` of this clock.
    ClockGettime(libc::clockid_t),
    /// `clock_getres` of this clock.
    ClockGetres(libc::clockid_t),
    /// `gettimeofday`.
    Gettimeofday,
    /// `time`.
    Time,
    /// `getcpu`.
    Getcpu,
}

impl Asked {
    /// The number of its system call; None if the architecture has none.
    pub const fn number(self) -> Option<c_long> {
        match self {
            Self::ClockGettime(_) => Some(libc::SYS_clock_gettime),
            Self::ClockGetres(_) => Some(libc::SYS_clock_getres),
            Self::Gettimeofday => Some(libc::SYS_gettimeofday),
            Self::Time => TIME,
            Self::Getcpu => Some(libc::SYS_getcpu),
        }
    }

    /// Whether the vDSO of the architecture has a function for it.
    pub const fn is_in_vdso(self) -> bool {
        match self {
            Self::ClockGettime(_) | Self::ClockGetres(_) | Self::Gettimeofday => true,
            Self::Time => NAMES.time.is_some(),
            Self::Getcpu => NAMES.getcpu.is_some(),
        }
    }
}

/// What serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The vDSO, without the kernel.
    Vdso,
    /// The kernel: the vDSO makes a system call, or has no such function.
    SystemCall,
    /// Neither: the vDSO itself rejects it with this error number.
    Failed(i32),
}

/// The error number returned by the filter: above all of Linux's, below the greatest that the
/// kernel passes on (MAX_ERRNO, 4095).
const SENTINEL: c_int = 3333;

/// The timeout of the child: its work takes microseconds on an idle machine. In a timeline a busy
/// host may get a thousandth of that.
const LIMIT: Duration = Duration::from_secs(600);

/// The child's answer if the vDSO served a call successfully; otherwise its error number.
const BY_VDSO: c_int = 0;

/// Why the child gave up, in its first word; [`DONE`] if it did not.
const DONE: c_int = 0;
const NO_PRIVILEGES_REFUSED: c_int = 1;
const FILTER_REFUSED: c_int = 2;
const FILTER_WITHOUT_EFFECT: c_int = 3;

/// The maximum number of questions to one child: it writes all answers at once.
const MOST: usize = 128;

/// Tests what serves these calls, in a child of this process, which may have other threads.
///
/// # Errors
/// [`Unknown`] if no such child can be created or no filter can be set, as in some sandboxes.
pub fn ask(vdso: &Vdso, asked: &[Asked]) -> Result<Vec<Served>, Unknown> {
    // SAFETY: the calls make system calls with memory of their own.
    ask_children(asked, |asked| unsafe { call(vdso, asked) })
}

/// The same for the functions of this program's C library, which may not use those of the vDSO.
/// [`Asked::Getcpu`] is its `sched_getcpu`.
///
/// # Errors
/// [`Unknown`], as [`ask`].
pub fn ask_libc(asked: &[Asked]) -> Result<Vec<Served>, Unknown> {
    // SAFETY: as above.
    ask_children(asked, |asked| unsafe { call_libc(asked) })
}

fn ask_children(asked: &[Asked], call: impl Fn(Asked) -> c_int) -> Result<Vec<Served>, Unknown> {
    let program = program(&calls());
    let mut served = Vec::with_capacity(asked.len());
    for some in asked.chunks(MOST) {
        served.extend(ask_one_child(&program, some.len(), &mut |at| call(some[at]))?);
    }
    Ok(served)
}

/// Tests whether a call of the caller's own makes the system call with this number, or one of those
/// that the vDSO serves. It is made once, in a child, and returns 0 or a negative error number.
///
/// # Errors
/// [`Unknown`], as [`ask`].
///
/// # Safety
/// The call must be async-signal-safe.
pub unsafe fn ask_of(number: c_long, call: &mut dyn FnMut() -> c_int) -> Result<Served, Unknown> {
    let program = program(&[calls(), vec![number]].concat());
    ask_one_child(&program, 1, &mut |_| call()).map(|served| served[0])
}

/// The system calls that the filter answers, so that the child can make them only through the vDSO.
fn calls() -> Vec<c_long> {
    let all = [
        Asked::ClockGettime(libc::CLOCK_REALTIME),
        Asked::ClockGetres(libc::CLOCK_REALTIME),
        Asked::Gettimeofday,
        Asked::Time,
        Asked::Getcpu,
    ];
    all.into_iter().filter_map(Asked::number).collect()
}

fn ask_one_child(
    program: &[sock_filter],
    asked: usize,
    call: &mut dyn FnMut(usize) -> c_int,
) -> Result<Vec<Served>, Unknown> {
    let refused = |what: &str, error: &io::Error| Unknown::because(format!("{what}: {error}"));
    let (from, to) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|it| refused("no pipe can be made", &it.into()))?;
    let mut answers = vec![0; asked + 2];
    // SAFETY: the child, which has only this thread, makes system calls and calls the vDSO; it
    // allocates nothing, takes no lock, and does not return.
    let child = match unsafe { fork() } {
        // SAFETY: this is the child.
        0 => unsafe { be_the_child(program, &mut answers, call, &to) },
        failed if failed < 0 => {
            return Err(refused("no child can be made", &io::Error::last_os_error()));
        }
        child => Child(Pid::from_raw(child as i32)),
    };
    drop(to);
    let said = hear(&from, answers.len() * size_of::<c_int>())
        .map_err(|error| refused("the child was not heard", &error.into()))?;
    let ended = child.end();
    let mut words = said.chunks_exact(size_of::<c_int>()).map(|word| {
        c_int::from_ne_bytes(word.try_into().expect("chunks are as long as they were asked to be"))
    });
    let (Some(state), Some(error)) = (words.next(), words.next()) else {
        let how = ended.map_or_else(|| "without a word".into(), |how| format!("{how:?}"));
        return Err(Unknown::because(format!("the child that was to ask has ended: {how}")));
    };
    let why = || io::Error::from_raw_os_error(error);
    match state {
        DONE => Ok(words.map(served).collect()),
        NO_PRIVILEGES_REFUSED => Err(refused("no_new_privs is refused", &why())),
        FILTER_REFUSED => Err(refused("a seccomp filter is refused", &why())),
        _ => Err(Unknown::because("a seccomp filter has no effect here")),
    }
}

fn served(result: c_int) -> Served {
    match -result {
        BY_VDSO => Served::Vdso,
        SENTINEL => Served::SystemCall,
        error => Served::Failed(error),
    }
}

/// The filter: these calls are answered with the sentinel, all others are made.
fn program(refused: &[c_long]) -> BpfProgram {
    let always = |call: &c_long| (*call, Vec::new());
    let architecture =
        std::env::consts::ARCH.try_into().expect("it is one that there is a vDSO of");
    let answer = SeccompAction::Errno(SENTINEL as u32);
    let rules = refused.iter().map(always).collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture);
    filter.and_then(TryInto::try_into).expect("a few calls are a filter")
}

/// Forks without the handlers registered by the C library and others (pthread_atfork), with all
/// signals blocked in the child: the program's handlers must not run there.
///
/// # Safety
/// The child may call only async-signal-safe functions.
unsafe fn fork() -> libc::c_long {
    // SAFETY: plain system calls with room for what they write; without CLONE_VM the child has
    // a copy of this stack.
    unsafe {
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        let mut before = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if child != 0 {
            let error = *libc::__errno_location();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
            *libc::__errno_location() = error;
        }
        child
    }
}

/// Sets the filter, runs the tests, writes the answers and exits.
///
/// # Safety
/// Only for the child of [`fork`].
unsafe fn be_the_child(
    program: &[sock_filter],
    answers: &mut [c_int],
    call: &mut dyn FnMut(usize) -> c_int,
    to: &OwnedFd,
) -> ! {
    // SAFETY: the calls make system calls with memory of this function's arguments, of which the
    // child has its own copy.
    unsafe {
        (answers[0], answers[1]) = confine(program);
        if answers[0] == DONE {
            for (at, answer) in answers[2..].iter_mut().enumerate() {
                *answer = call(at);
            }
        }
        let length = size_of_val(answers);
        // Less than a pipe takes at once (PIPE_BUF); a failure cannot be reported.
        libc::write(to.as_raw_fd(), answers.as_ptr().cast(), length);
        libc::_exit(0)
    }
}

/// Sets the filter and verifies it: returns why that failed, and the error number.
///
/// # Safety
/// It cannot be undone.
unsafe fn confine(program: &[sock_filter]) -> (c_int, c_int) {
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel copies the program; the time is written to a valid location.
    unsafe {
        // If the parent ends first, the answers are not needed.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return (NO_PRIVILEGES_REFUSED, *libc::__errno_location());
        }
        let mode = libc::SECCOMP_MODE_FILTER;
        if libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0) != 0 {
            return (FILTER_REFUSED, *libc::__errno_location());
        }
        let mut time = std::mem::zeroed::<libc::timespec>();
        let result = libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time);
        match result == -1 && *libc::__errno_location() == SENTINEL {
            true => (DONE, 0),
            false => (FILTER_WITHOUT_EFFECT, 0),
        }
    }
}

/// Makes a call through the vDSO: 0, or a negative error number.
///
/// # Safety
/// None; it allocates nothing and takes no lock.
unsafe fn call(vdso: &Vdso, asked: Asked) -> c_int {
    // SAFETY: the functions are given room for their results, or null where they accept it.
    let result = unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        match asked {
            Asked::ClockGettime(clock) => vdso.clock_gettime().map(|it| it(clock, &raw mut time)),
            Asked::ClockGetres(clock) => vdso.clock_getres().map(|it| it(clock, &raw mut time)),
            Asked::Gettimeofday => {
                let mut time = std::mem::zeroed::<libc::timeval>();
                vdso.gettimeofday().map(|it| it(&raw mut time, ptr::null_mut()))
            }
            // A time before 1970 is a valid time; the one that equals the sentinel is in 1969.
            Asked::Time => vdso.time().map(|it| match it(ptr::null_mut()) {
                time if time == -c_long::from(SENTINEL) => -SENTINEL,
                _ => 0,
            }),
            Asked::Getcpu => {
                let mut cpu = 0;
                vdso.getcpu().map(|it| it(&raw mut cpu, ptr::null_mut(), ptr::null_mut()))
            }
        }
    };
    result.unwrap_or(-SENTINEL)
}

/// Makes a call through the C library: 0, or a negative error number.
///
/// # Safety
/// None; all of these are async-signal-safe.
unsafe fn call_libc(asked: Asked) -> c_int {
    // SAFETY: as in `call`; `errno` is this thread's.
    unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        let failed = match asked {
            Asked::ClockGettime(clock) => libc::clock_gettime(clock, &raw mut time) != 0,
            Asked::ClockGetres(clock) => libc::clock_getres(clock, &raw mut time) != 0,
            Asked::Gettimeofday => {
                let mut time = std::mem::zeroed::<libc::timeval>();
                libc::gettimeofday(&raw mut time, ptr::null_mut()) != 0
            }
            Asked::Time => libc::time(ptr::null_mut()) == -1,
            Asked::Getcpu => libc::sched_getcpu() < 0,
        };
        if failed { -*libc::__errno_location() } else { 0 }
    }
}

/// Reads until this many bytes have arrived, the pipe has ended or the time is over.
fn hear(from: &OwnedFd, wanted: usize) -> Result<Vec<u8>, Errno> {
    let deadline = Instant::now() + LIMIT;
    let mut heard = vec![0; wanted];
    let mut length = 0;
    while length < wanted {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => match read(from, &mut heard[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            },
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    heard.truncate(length);
    Ok(heard)
}

/// The child, which is killed and waited for when dropped.
struct Child(Option<Pid>);

impl Child {
    /// Kills it: its answers have been read. None if someone else has waited for it.
    fn end(mut self) -> Option<WaitStatus> {
        self.reap()
    }

    fn reap(&mut self) -> Option<WaitStatus> {
        let pid = self.0.take()?;
        // It may have ended already, but has not been waited for: its id is still valid.
        let _ = kill_process(pid, Signal::KILL);
        loop {
            match waitpid(Some(pid), WaitOptions::empty()) {
                Ok(status) => return status.map(|(_, status)| status),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.reap();
    }
}

#[cfg(test)]
mod tests;
