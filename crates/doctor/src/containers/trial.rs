//! Doing something in a process of its own, to see whether it is allowed.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::ptrace;

use crate::machine::Unknown;

/// CLONE_NEWTIME (linux/sched.h), which the `nix` crate does not name.
pub const NEW_TIME: CloneFlags = CloneFlags::from_bits_retain(0x80);

/// An ordinary user, whom every machine has: nobody.
pub const NOBODY: u32 = 65534;

/// What the kernel, or a sandbox, answers where something is not allowed or not there; for
/// namespaces also ENOSPC and EUSERS, where a limit is reached (unshare(2)). Other errors, such as
/// EAGAIN and ENOMEM, say how things are just now.
const REFUSALS: [Errno; 6] =
    [Errno::EPERM, Errno::EACCES, Errno::ENOSYS, Errno::EINVAL, Errno::ENOSPC, Errno::EUSERS];

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is refused.
    Refused(Errno),
    /// It could not be tried: there was no process for it, or no memory.
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

/// May a process be traced by its parent?
pub fn trace() -> Result<(), Failure> {
    run(Command::new("/"), ptrace::traceme)
}

/// May a process make these namespaces, one after the other?
pub fn namespaces(kinds: &'static [CloneFlags]) -> Result<(), Failure> {
    run(Command::new("/"), || kinds.iter().try_for_each(|kind| unshare(*kind)))
}

/// The same, asked by root for an ordinary user.
pub fn namespaces_of_nobody(kinds: &'static [CloneFlags]) -> Result<(), Failure> {
    let mut command = Command::new("/");
    command.uid(NOBODY).gid(NOBODY);
    run(command, || kinds.iter().try_for_each(|kind| unshare(*kind)))
}

/// May a process set a filter that stops a call for its tracer? One that has none gets ENOSYS.
pub fn filter() -> Result<(), Failure> {
    run(Command::new("/"), || {
        /// Where `struct seccomp_data` has the number of the call.
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
                // Somebody traces this process and has let the call go on, or nothing stops it.
                _ => Err(Errno::EBUSY),
            }
        }
    })
}

/// Does it where a program is about to start, and starts none.
fn run(
    mut command: Command,
    act: impl Fn() -> nix::Result<()> + Send + Sync + 'static,
) -> Result<(), Failure> {
    /// Added to the error number of what was done, to tell it from those of making the process:
    /// above all of the kernel's (MAX_ERRNO, 4095). By itself it says that it was done.
    const DONE: i32 = 0x1000;
    let then_stop = move || {
        let error = act().err().map_or(0, |errno| errno as i32);
        Err(io::Error::from_raw_os_error(DONE + error))
    };
    // SAFETY: what is done are system calls, which allocate nothing and take no lock.
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
