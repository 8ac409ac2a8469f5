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

/// The kernel's default timer slack: how much it may delay a wake-up.
const TIMER_SLACK: Nanos = Nanos(50_000);

/// Closes all descriptors except these. Nothing in this process may still use the others.
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
        // SAFETY: the caller guarantees that nothing uses the descriptors closed here.
        unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
    }
}

/// Occupies the numbers of standard descriptors that are closed, so that none of our files gets
/// one. Reading and writing there still fails, and they are closed again on exec.
pub fn hold_closed_descriptors() {
    // open() returns the lowest free number.
    while let Ok(held) = open(c"/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()) {
        if held.as_raw_fd() > libc::STDERR_FILENO {
            return;
        }
        let _held_until_exec = held.into_raw_fd();
    }
}

/// The arguments of a program that starts at C's `main`.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The arguments of this process. Rust's own function gets them from glibc; musl passes them only
/// to C's `main`.
pub fn arguments() -> Vec<OsString> {
    ARGUMENTS.get().cloned().unwrap_or_else(|| env::args_os().collect())
}

/// Stores the arguments of C's `main`.
///
/// # Safety
///
/// `words` must point to `count` pointers to NUL-terminated strings.
pub unsafe fn keep_arguments(count: i32, words: *const *const c_char) {
    let word = |at| {
        // SAFETY: guaranteed by the caller.
        let word = unsafe { CStr::from_ptr(*words.add(at)) };
        OsStr::from_bytes(word.to_bytes()).to_owned()
    };
    ARGUMENTS.get_or_init(|| (0..count as usize).map(word).collect());
}

/// Defines C's `main` for a program that becomes another one: Rust's own start-up would leave
/// traces in it (SIGPIPE ignored, closed standard descriptors opened). Unit tests have their own
/// start-up.
#[macro_export]
macro_rules! c_main {
    ($main:path) => {
        /// The entry point called by the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(clippy::not_unsafe_ptr_arg_deref, reason = "nobody else calls it")]
        pub extern "C" fn main(count: i32, words: *const *const std::ffi::c_char) -> i32 {
            // SAFETY: the C library passes these arguments.
            unsafe { $crate::keep_arguments(count, words) };
            $crate::hold_closed_descriptors();
            $main()
        }
    };
}

/// The largest number of descriptors that this process or its supervisor uses until the program
/// starts.
const DESCRIPTORS: usize = 8;

/// Checks that this many descriptors are free.
pub fn check_descriptors() -> Result<(), Error> {
    let free = || open(c"/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
    let held: nix::Result<Vec<_>> = (0..DESCRIPTORS).map(|_| free()).collect();
    held.map(drop).map_err(|error| match error {
        Errno::EMFILE => Error::FewDescriptors { needed: DESCRIPTORS },
        error => Error::System { action: "open /", cause: error },
    })
}

/// Checks that this process can be followed.
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

/// Whether this process is in a timeline.
pub fn lives_in_timeline() -> Result<bool, Error> {
    proc::is_in_timeline("self").map_err(|_| Error::NoProc)
}

/// The caller's supplementary groups.
pub fn groups() -> Result<Vec<u32>, Error> {
    let groups = nix::unistd::getgroups().map_err(Error::system("read the groups"))?;
    Ok(groups.into_iter().map(nix::unistd::Gid::as_raw).collect())
}

/// Turns the calling process, which is already followed, into the program.
pub fn start_program(
    command: &[CString],
    filter: &[libc::sock_filter],
    privileges: Privileges,
    rate: Rate,
) -> Result<Infallible, Error> {
    filter::install(filter, privileges).map_err(Error::FilterForbidden)?;
    start_filtered(command, rate)
}

/// Like [`start_program`], with the filter already installed.
pub fn start_filtered(command: &[CString], rate: Rate) -> Result<Infallible, Error> {
    scale_timer_slack(rate);
    execute(command)
}

/// Turns the calling process into the program, in whatever timeline it is.
pub fn execute(command: &[CString]) -> Result<Infallible, Error> {
    let program = command[0].clone();
    Err(match execvp(&program, command) {
        // The kernel's answer to a call for which the filter notifies a listener that is gone.
        Err(Errno::ENOSYS) => Error::SupervisorGone,
        Err(cause) => ExecError { program, cause }.into(),
    })
}

/// Scales the timer slack, by which the kernel may delay a wake-up in host time: at a fast rate it
/// would be long in virtual time.
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
        // The filter applies to that thread only, and nothing listens to it.
        let started = std::thread::spawn(|| {
            let filter = of_all_clocks(Told::Notified, 0);
            start_program(&[c"true".to_owned()], &filter, Privileges::Renounced, Rate::ONE)
        });
        let ended = started.join().unwrap();
        assert!(matches!(ended, Err(Error::SupervisorGone)), "{ended:?}");
    }
}
