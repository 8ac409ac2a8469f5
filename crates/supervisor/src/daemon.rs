//! The supervisor's process.
//!
//! It runs beside the program, related to it only by ptrace. It is not a child of the program, so
//! the program never waits for a child it did not create. It is in its own session, so no signal of
//! the terminal reaches it. It has none of the caller's descriptors, so it keeps no pipe and no
//! terminal open.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Pid, chdir, getpid, setsid};

use crate::caller::{close_all_but, hold_closed_descriptors};
use crate::control::Starts;
use crate::error::{Error, errno};
use crate::host::KernelVdso;
use crate::namespace;
use crate::proc;
use crate::region::Region;
use crate::tracer::{Subject, Supervisor};

/// The supervisor's report that it follows the process.
const FOLLOWING: i32 = 0;

/// Starts the supervisor, and returns once it follows this process, if this process is to start
/// something.
pub fn start_supervisor(
    region: Region,
    subject: Subject,
    starts: Option<&Starts>,
) -> Result<Pid, Error> {
    let kernel = KernelVdso::of_this_process().ok_or(Error::NoVdso)?;
    let (ours, theirs) = pair()?;
    let caller = getpid();
    allow_tracing(starts.is_some());
    if split_off()? {
        drop(ours);
        let starts = starts.map(|starts| (caller, starts));
        supervise(Supervisor::new(region.into(), kernel, subject), starts, theirs);
    }
    drop(theirs);
    let supervisor = await_supervisor(ours)?;
    allow_tracing(false);
    Ok(supervisor)
}

/// Splits off an orphaned process, and returns whether this is it.
fn split_off() -> Result<bool, Error> {
    // A child that sends no signal when it ends, so that the program never finds one pending.
    let clone = || {
        // SAFETY: a plain fork of a process with one thread; no exit signal.
        let result = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
        Errno::result(result).map_err(Error::system("start the supervisor"))
    };
    let between = clone()?;
    if between == 0 {
        let status = match clone() {
            Ok(0) => return Ok(true),
            Ok(_) => 0,
            Err(Error::System { cause, .. }) => cause as i32,
            Err(_) => libc::EIO,
        };
        // SAFETY: ends this process without running the caller's exit handlers.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the pointer is to an int of ours.
    let waited = unsafe { libc::waitpid(between as i32, &raw mut status, libc::__WALL) };
    Errno::result(waited).map_err(Error::system("wait for the start of the supervisor"))?;
    match libc::WEXITSTATUS(status) {
        0 => Ok(false),
        cause => {
            Err(Error::System { action: "start the supervisor", cause: Errno::from_raw(cause) })
        }
    }
}

/// Runs the supervisor.
fn supervise(mut supervisor: Supervisor, starts: Option<(Pid, &Starts)>, caller: UnixStream) -> ! {
    let mut kept = supervisor.descriptors();
    kept.push(caller.as_raw_fd());
    detach(kept);
    // Before `follow`, which may create another thread.
    let prepared = match starts {
        Some((program, Starts::Program)) => supervisor.pass_signals_to(Some(program)),
        None => supervisor.pass_signals_to(None),
        Some(_) => supervisor.ignore_signals(),
    };
    let outcome = match prepared.and_then(|()| supervisor.open()) {
        Err(error) => -(error as i32),
        Ok(()) => {
            let follow = |(process, starts)| supervisor.follow(process, starts);
            starts.map_or(Ok(()), follow).map_or_else(|error| error as i32, |()| FOLLOWING)
        }
    };
    answer_and_serve(supervisor, caller, outcome)
}

/// Reports the outcome to the caller, and keeps the timeline if that is a success.
fn answer_and_serve(mut supervisor: Supervisor, mut caller: UnixStream, outcome: i32) -> ! {
    let reported = report_outcome(&mut caller, outcome);
    drop(caller);
    if outcome == FOLLOWING && reported.is_ok() {
        supervisor.serve();
    }
    // SAFETY: ends this process without running the caller's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Gives up everything that ties the supervisor to its caller, except these descriptors.
fn detach(kept: Vec<i32>) {
    // None of these can fail in a way that matters: a new process can create a session, and "/"
    // exists.
    let _ = setsid();
    let _ = chdir(c"/");
    let _ = nix::sys::prctl::set_name(proc::SUPERVISOR);
    close_all_but(kept);
    hold_closed_descriptors();
    raise_descriptor_limit();
}

/// Raises the descriptor limit. Each caller needs one descriptor, and each thread two where time is
/// skipped. The supervisor starts no program that would inherit the limit.
fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Without them, callers take turns, and files are opened each time.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Reports the outcome and the supervisor's process ID to the caller.
fn report_outcome(caller: &mut UnixStream, outcome: i32) -> std::io::Result<()> {
    let words = [outcome, std::process::id() as i32];
    caller.write_all(&words.map(i32::to_ne_bytes).concat())
}

/// Waits until the supervisor follows this process, and returns its process ID.
fn await_supervisor(mut supervisor: UnixStream) -> Result<Pid, Error> {
    let mut words = [[0; 4]; 2];
    for word in &mut words {
        supervisor.read_exact(word).map_err(|_| Error::SupervisorGone)?;
    }
    match words.map(i32::from_ne_bytes) {
        [FOLLOWING, process] => Ok(Pid::from_raw(process)),
        [cause, _] if cause > 0 => Err(Error::TraceForbidden(Errno::from_raw(cause))),
        [cause, _] => Err(namespace::refusal(Errno::from_raw(-cause))),
    }
}

/// Splits off a supervisor that traces no program between its calls. It waits on the other end of
/// the connection until [`follow_notified`] passes it the listener.
pub fn start_notified_supervisor(region: Region, subject: Subject) -> Result<UnixStream, Error> {
    let (ours, theirs) = pair()?;
    let program = getpid();
    allow_tracing(true);
    if split_off()? {
        drop(ours);
        let kernel = KernelVdso::of_this_process();
        let supervisor = kernel.map(|kernel| Supervisor::new(region.into(), kernel, subject));
        supervise_notified(supervisor, program, theirs);
    }
    Ok(ours)
}

/// Passes the listener to that supervisor, and returns once it listens.
pub fn follow_notified(mut supervisor: UnixStream, listener: &OwnedFd) -> Result<(), Error> {
    let reported = supervisor.write_all(&listener.as_raw_fd().to_ne_bytes());
    reported.map_err(|_| Error::SupervisorGone)?;
    await_supervisor(supervisor)?;
    allow_tracing(false);
    Ok(())
}

/// Runs a supervisor that traces no program between its calls.
fn supervise_notified(supervisor: Option<Supervisor>, program: Pid, mut caller: UnixStream) -> ! {
    if let Some(mut supervisor) = supervisor {
        let mut kept = supervisor.descriptors();
        kept.push(caller.as_raw_fd());
        detach(kept);
        let mut number = [0; 4];
        if caller.read_exact(&mut number).is_ok() {
            let listens = supervisor
                .pass_signals_to(Some(program))
                .and_then(|()| supervisor.listen_to_first(program, u32::from_ne_bytes(number)));
            let outcome = listens.map_or_else(|error| error as i32, |()| FOLLOWING);
            answer_and_serve(supervisor, caller, outcome);
        }
    }
    // SAFETY: ends this process without running the caller's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Splits off a process that takes over a timeline, and returns once it keeps it. Of this process's
/// descriptors it keeps only `kept`.
pub fn start_successor(
    kept: i32,
    take_over: impl FnOnce() -> Result<Supervisor, String>,
) -> Result<(), Error> {
    const KEEPS: &str = "keeps";
    let (mut ours, mut theirs) = pair()?;
    if split_off()? {
        drop(ours);
        detach(vec![kept, theirs.as_raw_fd()]);
        let taken = take_over();
        let told = taken.as_ref().map_or_else(String::as_str, |_| KEEPS);
        // The receiver may be gone.
        let _ = theirs.write_all(told.as_bytes());
        drop(theirs);
        if let Ok(mut supervisor) = taken {
            supervisor.serve();
        }
        // SAFETY: ends this process without running the caller's exit handlers.
        unsafe { libc::_exit(0) }
    }
    drop(theirs);
    let mut told = String::new();
    match ours.read_to_string(&mut told) {
        Ok(_) if told == KEEPS => Ok(()),
        Ok(_) if !told.is_empty() => Err(Error::Timeline(told)),
        _ => Err(Error::SupervisorGone),
    }
}

/// The two ends of a connection between the caller and its supervisor.
fn pair() -> Result<(UnixStream, UnixStream), Error> {
    UnixStream::pair()
        .map_err(|error| Error::System { action: "make a pair of sockets", cause: errno(error) })
}

/// Permits tracing of this process: Yama lets only its ancestors trace it, or those that it names.
pub fn allow_tracing(by_anyone: bool) {
    let who = if by_anyone { libc::PR_SET_PTRACER_ANY } else { 0 };
    // SAFETY: no memory is involved. Without Yama the kernel does not know the request, and none is
    // needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, who, 0, 0, 0) };
}
