//! A process in the foreground: signals are passed on to it, and its end is reported.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::error::Error;

/// Signals that are meant for the program. A terminal sends its own to the whole foreground group.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTERM,
];

/// Signals that ask a program to end.
const ASKS_TO_END: [Signal; 2] = [Signal::SIGINT, Signal::SIGTERM];

/// The number of requests to end after which a program is killed, as in docker: the first process
/// of a PID namespace gets no signal that it does not handle (`pid_namespaces(7)`).
const PATIENCE: usize = 3;

/// A child that owns the terminal.
pub struct Foreground {
    /// Its process id.
    pub process: Pid,
    signals: SignalFd,
}

/// A channel on which parent and child report their progress to each other.
pub struct Line(UnixStream);

impl Line {
    /// Reports that this side is ready.
    ///
    /// # Errors
    ///
    /// If the other side has ended.
    pub fn say(&mut self) -> io::Result<()> {
        self.0.write_all(&[0])
    }

    /// Waits until the other side has executed another program, or ended.
    pub fn hear_out(&mut self) {
        while self.hear().is_ok() {}
    }

    /// Waits until the other side is ready.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn hear(&mut self) -> io::Result<()> {
        self.0.read_exact(&mut [0])
    }
}

impl Foreground {
    /// Starts a child that executes another program, or returns an exit status. Each side has a
    /// line to the other. The calling process must be single-threaded, and passes on signals from
    /// here on.
    ///
    /// # Errors
    ///
    /// If the child cannot be created.
    pub fn start(become_it: impl FnOnce(Line) -> i32) -> Result<(Self, Line), Error> {
        let passed_on = PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal));
        let signals: SigSet = passed_on.chain([Signal::SIGCHLD]).collect();
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: no handler of ours is involved. A process that ignores SIGCHLD never learns of a
        // child's end.
        unsafe { sigaction(Signal::SIGCHLD, &default) }.map_err(Error::system("see the end"))?;
        let before = SigSet::thread_get_mask().map_err(Error::system("read the signal mask"))?;
        signals.thread_block().map_err(Error::system("hold back signals"))?;
        let descriptor = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC);
        let descriptor = descriptor.map_err(Error::system("await signals"))?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| Error::System {
            action: "make a pair of sockets",
            cause: Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)),
        })?;
        // SAFETY: this process has one thread, so the child may do all that it may.
        match unsafe { fork() }.map_err(Error::system("start a process"))? {
            ForkResult::Parent { child } => {
                Ok((Self { process: child, signals: descriptor }, Line(ours)))
            }
            ForkResult::Child => {
                drop((descriptor, ours));
                let status = match before.thread_set_mask() {
                    Ok(()) => become_it(Line(theirs)),
                    Err(_) => 125,
                };
                // SAFETY: ends this process without running the caller's exit handlers.
                unsafe { libc::_exit(status) }
            }
        }
    }

    /// Waits for its end, and returns its exit status as a shell reports it. `program` is the
    /// process that it runs, if there is one yet.
    ///
    /// # Errors
    ///
    /// If the kernel does not report it.
    pub fn wait(self, program: impl Fn() -> Option<Pid>) -> Result<i32, Error> {
        let mut asked = 0;
        loop {
            let came = match self.signals.read_signal() {
                Ok(came) => came,
                Err(Errno::EINTR) => continue,
                Err(cause) => return Err(Error::system("await signals")(cause)),
            };
            let Some(came) = came else { continue };
            let Ok(signal) = Signal::try_from(came.ssi_signo as i32) else { continue };
            if signal == Signal::SIGCHLD {
                let ended = waitpid(self.process, Some(WaitPidFlag::WNOHANG));
                match ended.map_err(Error::system("see the end"))? {
                    WaitStatus::Exited(_, status) => return Ok(status),
                    WaitStatus::Signaled(_, signal, _) => return Ok(128 + signal as i32),
                    _ => {}
                }
                continue;
            }
            let by_terminal = came.ssi_code > libc::SI_USER;
            asked += usize::from(ASKS_TO_END.contains(&signal));
            // Each of them may just have ended.
            let _ = match asked >= PATIENCE || (by_terminal && signal == Signal::SIGHUP) {
                true => kill(program().unwrap_or(self.process), Signal::SIGKILL),
                false if by_terminal => Ok(()),
                false => kill(self.process, signal),
            };
        }
    }
}

/// Whether this process ignores a signal, as under `nohup`.
fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the pointer is to a structure of ours, which the kernel fills.
    unsafe {
        libc::sigaction(signal as i32, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
