//! One measurement: a process of the probe itself.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process_group, pidfd_open,
    set_parent_process_death_signal,
};
use serde::de::IgnoredAny;

use super::lines::{Line, Lines};

/// How long a process may take to end after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(2);
/// The longest record, in bytes.
const RECORD: usize = 16 << 20;
/// How much other output of a process is kept, in bytes.
const SAID: usize = 64 << 10;
/// How much is read at once, in bytes.
const PIECE: usize = 64 << 10;
/// The maximum read from a process that has ended, in bytes: more than a pipe holds. Other holders
/// of the pipe are not read from forever.
const LAST: usize = 4 << 20;

/// The program that is run.
#[derive(Clone, Debug)]
pub struct Program(PathBuf);

impl Program {
    /// This program, through the kernel's link to it, which works even when the file is gone;
    /// without /proc, by the name under which it was started.
    pub fn myself() -> Self {
        let link = Path::new("/proc/self/exe");
        if link.symlink_metadata().is_ok() {
            return Self(link.into());
        }
        // SAFETY: the kernel gives every process this string, which lives as long as the process.
        let name = unsafe { CStr::from_ptr(libc::getauxval(libc::AT_EXECFN) as *const _) };
        Self(std::ffi::OsStr::from_bytes(name.to_bytes()).into())
    }

    /// Another program.
    #[cfg(test)]
    pub fn other(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

/// A process that is running, or has ended and has not been reported.
#[derive(Debug)]
pub struct Run {
    /// Its id in the protocol.
    pub id: u64,
    child: Child,
    /// Becomes readable when the process has ended.
    ended: OwnedFd,
    output: Option<OwnedFd>,
    errors: Option<OwnedFd>,
    lines: Lines,
    said: Vec<u8>,
    /// When it will be killed, after it was told to end.
    until: Option<Instant>,
}

impl Run {
    /// Starts it in its own process group, so that it does not outlive this thread.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(id: u64, program: &Program, arguments: &[String]) -> io::Result<Self> {
        // Its input is at its end. Not /dev/null, which does not exist everywhere.
        let (input, _) = pipe_with(PipeFlags::CLOEXEC)?;
        let parent = getpid();
        let mut command = Command::new(&program.0);
        command
            .arg0("eigentime-probe")
            .args(arguments.iter().map(OsString::from))
            .process_group(0)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: it only makes system calls.
        unsafe { command.pre_exec(move || follow(parent)) };
        let mut child = command.spawn()?;
        let pipes = (child.stdout.take(), child.stderr.take());
        let output = pipes.0.map(OwnedFd::from);
        let errors = pipes.1.map(OwnedFd::from);
        let watched =
            pid_of(&child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty())).and_then(|ended| {
                [&output, &errors]
                    .into_iter()
                    .flatten()
                    .try_for_each(|it| ioctl_fionbio(it, true))?;
                Ok(ended)
            });
        match watched {
            Ok(ended) => Ok(Self {
                id,
                child,
                ended,
                output,
                errors,
                lines: Lines::new(RECORD),
                said: Vec::new(),
                until: None,
            }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// The descriptors to wait for: its end, and its output.
    pub fn ended_and_said(&self) -> [Option<&OwnedFd>; 3] {
        [Some(&self.ended), self.output.as_ref(), self.errors.as_ref()]
    }

    /// When [`Run::force`] is due, if it was told to end.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Tells it to end.
    pub fn stop(&mut self, now: Instant) {
        if self.until.is_none() {
            self.until = Some(now + GRACE);
            self.signal(Signal::TERM);
        }
    }

    /// Kills it.
    pub fn force(&mut self) {
        self.signal(Signal::KILL);
    }

    /// Signals its whole group. The id is valid until it is waited for, in [`Run::finish`].
    fn signal(&self, signal: Signal) {
        if let Ok(pid) = pid_of(&self.child) {
            // It fails when all of them have already ended.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// The records printed since the last call.
    pub fn records(&mut self) -> Vec<Vec<u8>> {
        self.read(PIECE)
    }

    /// Waits for the ended process and kills what it has left behind: returns the last records, its
    /// exit status and its other output.
    pub fn finish(mut self) -> (Vec<Vec<u8>>, i32, String) {
        self.signal(Signal::KILL);
        let status = match self.child.wait() {
            Ok(status) => status.code().or(status.signal().map(|signal| 128 + signal)),
            Err(error) => {
                self.say(format!("its end was not seen: {error}\n").as_bytes());
                None
            }
        };
        let records = self.read(LAST);
        let rest = self.lines.rest();
        self.say(&rest);
        (records, status.unwrap_or(-1), String::from_utf8_lossy(&self.said).into_owned())
    }

    fn read(&mut self, most: usize) -> Vec<Vec<u8>> {
        let errors = take(&mut self.errors, most);
        self.say(&errors);
        let output = take(&mut self.output, most);
        let mut records = Vec::new();
        for line in self.lines.complete(&output) {
            match line {
                Line::Whole(text) if is_record(&text) => records.push(text),
                Line::Whole(text) => self.say(&[&text[..], b"\n"].concat()),
                Line::TooLong => self.say(b"a record of more than 16 MiB was dropped\n"),
            }
        }
        records
    }

    fn say(&mut self, text: &[u8]) {
        let room = SAID.saturating_sub(self.said.len());
        self.said.extend_from_slice(&text[..text.len().min(room)]);
    }
}

fn pid_of(child: &Child) -> Result<Pid, Errno> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// Runs in the new process: makes it end with the thread that started it, and unblocks the signals
/// that this program blocks.
fn follow(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        return Err(Errno::SRCH.into());
    }
    // SAFETY: plain system calls with their own memory.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
    }
    Ok(())
}

/// Reads what is available, at most about this much. At its end the descriptor is closed.
fn take(from: &mut Option<OwnedFd>, most: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    let mut piece = vec![0; PIECE];
    while let Some(descriptor) = from
        && taken.len() < most
    {
        match read(&*descriptor, &mut piece[..]) {
            Ok(length @ 1..) => taken.extend_from_slice(&piece[..length]),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => *from = None,
        }
    }
    taken
}

/// Whether a line is a record. It is not parsed: that is left to the receiver, and would cost time
/// here during a measurement.
fn is_record(line: &[u8]) -> bool {
    line.starts_with(b"{\"kind\":") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}
