//! Trying something in a separate process, to see whether it is allowed.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::ptrace;

use crate::machine::Unknown;

/// CLONE_NEWTIME (linux/sched.h), which the `nix` crate does not define.
pub const NEW_TIME: CloneFlags = CloneFlags::from_bits_retain(0x80);

/// An ordinary user that every machine has: nobody.
pub const NOBODY: u32 = 65534;

/// The errors of the kernel, or a sandbox, for something that is not allowed or not available; for
/// namespaces also ENOSPC and EUSERS, when a limit is reached (unshare(2)). Other errors, such as
/// EAGAIN and ENOMEM, describe the current state only.
const REFUSALS: [Errno; 6] =
    [Errno::EPERM, Errno::EACCES, Errno::ENOSYS, Errno::EINVAL, Errno::ENOSPC, Errno::EUSERS];

/// Why a trial failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is refused.
    Refused(Errno),
    /// It could not be tried: no process or memory was available.
    Untried(Errno),
}

impl Failure {
    fn of(errno: Errno) -> Self {
        if REFUSALS.contains(&errno) { Self::Refused(errno) } else { Self::Untried(errno) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(errno) => formatter.write_str(errno.desc()),
            Self::Untried(errno) => write!(formatter, "it could not be tried: {}", errno.desc()),
        }
    }
}

impl From<Failure> for Unknown {
    fn from(failure: Failure) -> Self {
        Self::because(failure.to_string())
    }
}

/// Whether a process may be traced by its parent.
pub fn trace() -> Result<(), Failure> {
    run(Command::new("/"), ptrace::traceme)
}

/// Whether a process may create these namespaces, one after the other.
pub fn namespaces(kinds: &'static [CloneFlags]) -> Result<(), Failure> {
    run(Command::new("/"), || kinds.iter().try_for_each(|kind| unshare(*kind)))
}

/// The same for an ordinary user, tested by root.
pub fn namespaces_of_nobody(kinds: &'static [CloneFlags]) -> Result<(), Failure> {
    let mut command = Command::new("/");
    command.uid(NOBODY).gid(NOBODY);
    run(command, || kinds.iter().try_for_each(|kind| unshare(*kind)))
}

/// Whether a process may set a filter that stops a call for its tracer. Without a tracer the call
/// returns ENOSYS.
pub fn filter() -> Result<(), Failure> {
    run(Command::new("/"), || {
        /// The offset of the call number in `struct seccomp_data`.
        const NUMBER: u32 = 0;
        let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let is_it = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let mut program = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, NUMBER),
            step(is_it, 1, libc::SYS_getppid as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_TRACE),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: the kernel copies the program; the last call has no arguments.
        unsafe {
            Errno::result(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            Errno::result(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0))?;
            match Errno::result(libc::syscall(libc::SYS_getppid)) {
                Err(Errno::ENOSYS) => Ok(()),
                // This process is traced and the tracer has let the call proceed, or nothing stops
                // it.
                _ => Err(Errno::EBUSY),
            }
        }
    })
}

/// Runs a trial where a program is about to start, and starts none.
fn run(
    mut command: Command,
    act: impl Fn() -> nix::Result<()> + Send + Sync + 'static,
) -> Result<(), Failure> {
    /// Added to the error number of the trial, to tell it from those of creating the process: above
    /// all of the kernel's (MAX_ERRNO, 4095). By itself it means success.
    const DONE: i32 = 0x1000;
    let then_stop = move || {
        let error = act().err().map_or(0, |errno| errno as i32);
        Err(io::Error::from_raw_os_error(DONE + error))
    };
    // SAFETY: the trials are system calls, which allocate nothing and take no lock.
    unsafe { command.pre_exec(then_stop) };
    let Err(error) = command.spawn() else { unreachable!("no program is started") };
    match error.raw_os_error() {
        Some(DONE) => Ok(()),
        Some(error) if error > DONE => Err(Failure::of(Errno::from_raw(error - DONE))),
        error => Err(Failure::Untried(error.map_or(Errno::EIO, Errno::from_raw))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_told_from_what_could_not_be_tried() {
        let failed = |errno| run(Command::new("/"), move || Err(errno));
        assert_eq!(run(Command::new("/"), || Ok(())), Ok(()));
        assert_eq!(failed(Errno::EPERM), Err(Failure::Refused(Errno::EPERM)));
        assert_eq!(failed(Errno::EAGAIN), Err(Failure::Untried(Errno::EAGAIN)));
        let mut nowhere = Command::new("/");
        nowhere.current_dir("/none/of/these");
        assert_eq!(run(nowhere, || Ok(())), Err(Failure::Untried(Errno::ENOENT)));
    }

    #[test]
    fn a_filter_that_is_allowed_has_effect() {
        assert!(!matches!(filter(), Err(Failure::Untried(_))), "{:?}", filter());
    }
}
