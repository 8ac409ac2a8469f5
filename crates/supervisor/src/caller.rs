//! The calling process, which becomes the program.

use std::convert::Infallible;
use std::env;
use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use eigentime_timeline::{Nanos, Rate};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::execvp;

use crate::error::{Error, ExecError};
use crate::filter::{self, Privileges};
use crate::proc;

/// The kernel's default timer slack, by which it may delay a wake-up.
const TIMER_SLACK: Nanos = Nanos(50_000);

/// Closes all descriptors but these, which nothing in this process uses any more.
pub fn close_all_but(mut kept: Vec<i32>) {
    kept.sort_unstable();
    let mut from = 0;
    for kept in kept.into_iter().map(|descriptor| descriptor as u32) {
        close_range(from, kept.checked_sub(1));
        from = kept + 1;
    }
    close_range(from, Some(u32::MAX));
}

fn close_range(from: u32, to: Option<u32>) {
    if let Some(to) = to.filter(|to| from <= *to) {
        // SAFETY: the caller vouches that nothing uses the descriptors closed here.
        unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
    }
}

/// Takes the numbers of those of the three standard descriptors that are closed, so that no file of
/// ours gets one of them. Reading and writing there still fails, and they are closed again when a
/// program starts.
pub fn hold_closed_descriptors() {
    // The lowest free number each time.
    while let Ok(held) = open(c"/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()) {
        if held.as_raw_fd() > libc::STDERR_FILENO {
            return;
        }
        let _held_until_exec = held.into_raw_fd();
    }
}

/// What a program that starts at C's `main` was started with.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// What this process was started with. Rust's own function knows it from glibc; musl tells only C's
/// `main`.
pub fn arguments() -> Vec<OsString> {
    ARGUMENTS.get().cloned().unwrap_or_else(|| env::args_os().collect())
}

/// Keeps what C's `main` was called with.
///
/// # Safety
///
/// There are as many words as `count` says, and all end with a zero.
pub unsafe fn keep_arguments(count: i32, words: *const *const c_char) {
    let word = |at| {
        // SAFETY: as the caller says.
        let word = unsafe { CStr::from_ptr(*words.add(at)) };
        OsStr::from_bytes(word.to_bytes()).to_owned()
    };
    ARGUMENTS.get_or_init(|| (0..count as usize).map(word).collect());
}

/// Defines C's `main`, as which a program starts that becomes another one: Rust's own start-up would
/// leave traces in that (SIGPIPE ignored, closed standard descriptors opened). Unit tests have a start
/// of their own.
#[macro_export]
macro_rules! c_main {
    ($main:path) => {
        /// What the C library calls first.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(clippy::not_unsafe_ptr_arg_deref, reason = "nobody else calls it")]
        pub extern "C" fn main(count: i32, words: *const *const std::ffi::c_char) -> i32 {
            // SAFETY: so it is called.
            unsafe { $crate::keep_arguments(count, words) };
            $crate::hold_closed_descriptors();
            $main()
        }
    };
}

/// As many are used at most, by this process or its supervisor, until the program is started.
const DESCRIPTORS: usize = 8;

/// Are that many free?
pub fn check_descriptors() -> Result<(), Error> {
    let free = || open(c"/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
    let held: nix::Result<Vec<_>> = (0..DESCRIPTORS).map(|_| free()).collect();
    held.map(drop).map_err(|error| match error {
        Errno::EMFILE => Error::FewDescriptors { needed: DESCRIPTORS },
        error => Error::System { action: "open /", cause: error },
    })
}

/// Can this process be followed?
pub fn check_this_process() -> Result<(), Error> {
    if lives_in_timeline()? {
        return Err(Error::AlreadyInTimeline);
    }
    match proc::tracer_of("self") {
        Some(tracer) => Err(Error::AlreadyTraced {
            pid: tracer.as_raw(),
            name: proc::name_of(tracer).unwrap_or_default(),
        }),
        None => Ok(()),
    }
}

/// Does this process live in a timeline?
pub fn lives_in_timeline() -> Result<bool, Error> {
    proc::is_in_timeline("self").map_err(|_| Error::NoProc)
}

/// The caller's groups.
pub fn groups() -> Result<Vec<u32>, Error> {
    let groups = nix::unistd::getgroups().map_err(Error::system("read the groups"))?;
    Ok(groups.into_iter().map(nix::unistd::Gid::as_raw).collect())
}

/// Turns the calling process, which is followed already, into the program.
pub fn start_program(
    command: &[CString],
    filter: &[libc::sock_filter],
    privileges: Privileges,
    rate: Rate,
) -> Result<Infallible, Error> {
    filter::install(filter, privileges).map_err(Error::FilterForbidden)?;
    start_filtered(command, rate)
}

/// The same, where the filter is in force.
pub fn start_filtered(command: &[CString], rate: Rate) -> Result<Infallible, Error> {
    scale_timer_slack(rate);
    execute(command)
}

/// Turns the calling process into the program, in whatever timeline it is.
pub fn execute(command: &[CString]) -> Result<Infallible, Error> {
    let program = command[0].clone();
    Err(match execvp(&program, command) {
        // The kernel's answer to a call that a filter tells of where nobody listens any more.
        Err(Errno::ENOSYS) => Error::SupervisorGone,
        Err(cause) => ExecError { program, cause }.into(),
    })
}

/// The kernel may delay a wake-up by a slack in host time, which a fast rate would
/// make long in virtual time.
fn scale_timer_slack(rate: Rate) {
    if rate.virtual_span(TIMER_SLACK) > TIMER_SLACK
        && let Some(slack) = rate.host_span(TIMER_SLACK)
    {
        // SAFETY: no memory is involved; the kernel takes any positive number.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.0.max(1), 0, 0, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Told, of_all_clocks};

    #[test]
    fn a_program_is_not_started_without_a_supervisor() {
        // The filter is that thread's, and nobody listens to it.
        let started = std::thread::spawn(|| {
            let filter = of_all_clocks(Told::Notified, 0);
            start_program(&[c"true".to_owned()], &filter, Privileges::Renounced, Rate::ONE)
        });
        let ended = started.join().unwrap();
        assert!(matches!(ended, Err(Error::SupervisorGone)), "{ended:?}");
    }
}
