//! Signals to the supervisor itself.
//!
//! A service manager that stops a service sends SIGTERM to all its processes. If that ended the
//! supervisor, the kernel would kill the programs before they could end in an orderly way. So a signal
//! that asks a program to end is passed on to the program that was started first; once that program has
//! ended, the signal ends the supervisor, and with it what is left.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

use super::journal::ENDED_AT;
use crate::control::server::note_woken;

/// Signals that ask a program to end.
const PASSED_ON: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// Signals that end a process by default and mean nothing to the supervisor.
const IGNORED: [Signal; 5] =
    [Signal::SIGPIPE, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGALRM, Signal::SIGVTALRM];

/// The program that was started first; zero once it has ended.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// The signal that asks a timeline without a name to take one: the number that is queued with it.
pub const ASKS_FOR_NAME: Signal = Signal::SIGUSR1;

/// Who has asked for a name, and for which one; zero if none was requested.
static ASKED_NAME: AtomicU64 = AtomicU64::new(0);

/// The journal that tells the guardian that the programs must end; none if they end anyway.
static JOURNAL: AtomicI32 = AtomicI32::new(-1);

/// Passes the signals on to `program` from now on.
pub fn pass_to(program: Option<Pid>) {
    PROGRAM.store(program.map_or(0, Pid::as_raw), Ordering::Relaxed);
    let set = |signal, handler| {
        let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler below makes one system call and nothing else. These signals can all be
        // handled, so there is no failure to report.
        let _ = unsafe { sigaction(signal, &action) };
    };
    PASSED_ON.into_iter().for_each(|signal| set(signal, SigHandler::Handler(pass_on)));
    IGNORED.into_iter().for_each(|signal| set(signal, SigHandler::SigIgn));
    // The caller may have blocked them; that cannot fail either.
    let _ = SigSet::all().thread_unblock();
}

/// Ignores all these signals: another process acts on them.
pub fn ignore() {
    for signal in PASSED_ON.into_iter().chain(IGNORED) {
        // SAFETY: no handler is involved. These signals can all be ignored.
        let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) };
    }
    let _ = SigSet::all().thread_unblock();
}

/// Lets a timeline receive requests for a name from now on.
pub fn hear_of_names() {
    let action =
        SigAction::new(SigHandler::SigAction(note_name), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler stores to two atomics and does nothing else. It can be handled.
    let _ = unsafe { sigaction(ASKS_FOR_NAME, &action) };
}

extern "C" fn note_name(_: i32, told: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the siginfo of the signal, and whether it was queued determines what
    // that holds.
    let (is_queued, asker, value) =
        unsafe { ((*told).si_code == libc::SI_QUEUE, (*told).si_pid(), (*told).si_value()) };
    if is_queued {
        let number = value.sival_ptr.addr() as u32;
        ASKED_NAME.store(u64::from(asker as u32) << 32 | u64::from(number), Ordering::Relaxed);
        note_woken();
    }
}

/// Who has asked for a name since the last call, and for which one.
pub fn asked_name() -> Option<(Pid, Pid)> {
    if ASKED_NAME.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let asked = ASKED_NAME.swap(0, Ordering::Relaxed);
    Some((Pid::from_raw((asked >> 32) as i32), Pid::from_raw(asked as i32)))
}

/// Whether signals are passed on to this program.
pub fn is_passed_to(program: Pid) -> bool {
    PROGRAM.load(Ordering::Relaxed) == program.as_raw()
}

/// The program that signals are passed on to.
pub fn program() -> Option<Pid> {
    Some(PROGRAM.load(Ordering::Relaxed)).filter(|program| *program != 0).map(Pid::from_raw)
}

/// Makes a signal that comes once that program has ended also end programs that survive their
/// supervisor; this journal records it.
pub fn end_by(journal: BorrowedFd<'_>) {
    JOURNAL.store(journal.as_raw_fd(), Ordering::Relaxed);
}

/// Notes that the program that was started first has ended.
pub fn first_program_ended() {
    PROGRAM.store(0, Ordering::Relaxed);
}

/// Notes that a process has ended.
pub fn program_ended(process: Pid) {
    let _ = PROGRAM.compare_exchange(process.as_raw(), 0, Ordering::Relaxed, Ordering::Relaxed);
}

extern "C" fn pass_on(signal: i32) {
    match PROGRAM.load(Ordering::Relaxed) {
        // SAFETY: writes a byte of ours, and ends the process at once; the kernel or the guardian ends
        // the programs with it.
        0 => unsafe {
            let journal = JOURNAL.load(Ordering::Relaxed);
            libc::pwrite(journal, [1u8].as_ptr().cast(), 1, ENDED_AT as i64);
            libc::_exit(0)
        },
        // SAFETY: kill has no preconditions.
        program => unsafe { libc::kill(program, signal) },
    };
}
