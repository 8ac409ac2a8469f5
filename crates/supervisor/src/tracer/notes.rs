//! Messages to the user, on the standard error of the program concerned: the supervisor itself holds no
//! descriptor of its caller, so that it keeps no pipe open.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use eigentime_calls::PTRACE_TRACEME;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use super::Supervisor;
use super::tracee::Tracee;
use crate::control::Event;
use crate::filter::Scope;
use crate::plan::Lifelong;
use crate::proc;

/// A message to the user, given once for each program, and again when another process joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// It uses io_uring.
    IoUring,
    /// It made a call of another architecture.
    ForeignCall,
    /// It wants to change the rate of the wall clock.
    Frequency,
    /// It wants to set the wall clock and lacks the capability for it.
    MayNotSet,
    /// It wants to set a wall clock that nobody may set.
    SharedClock,
    /// Its file would give it privileges that it does not get.
    LostPrivilege,
    /// A debugger follows it where the supervisor would have to.
    Debugged,
    /// It may not be followed.
    NotFollowed,
    /// It wants to trace a program that the supervisor traces for life.
    NoDebugger(Lifelong),
    /// It waits for time while none passes; reported once for all programs.
    Frozen,
}

impl Supervisor {
    /// Gives a note, unless it has been given for this program.
    pub(super) fn note(&mut self, tracee: Tracee, note: Note) {
        let program = proc::program_of(tracee.0);
        let scope = self.timelines.get(self.timeline_of(tracee.0)).scope;
        let text = match (note, scope) {
            (Note::IoUring, Scope::All) => {
                format!("{program} uses io_uring: timeouts in its ring run on host time")
            }
            (Note::IoUring, Scope::Wall) => format!(
                "{program} uses io_uring: absolute wall-clock timeouts in its ring are on the host's \
                 wall clock"
            ),
            (Note::ForeignCall, _) => {
                format!(
                    "{program} made a 32-bit system call, which is refused in a timeline (ENOSYS)"
                )
            }
            (Note::Frequency, _) => format!(
                "{program} may not change the frequency of the wall clock (EPERM): a timeline has the \
                 rate given by --rate"
            ),
            (Note::MayNotSet, _) => format!(
                "{program} may not set the clock (EPERM): that needs CAP_SYS_TIME, as on a host, or a \
                 timeline made with --settable-by anyone"
            ),
            (Note::SharedClock, _) => format!(
                "{program} may not set the clock (EPERM): nobody may set this timeline's clock, which \
                 is the default where it is shared; its owner can allow it (--settable-by)"
            ),
            (Note::Debugged, _) => format!(
                "{program} is traced by a debugger: until that ends, its new waits and timers use \
                 host time, and programs that it starts use the host's clocks; start programs \
                 without the debugger, then attach the debugger (gdb -p, strace -p)"
            ),
            (Note::NotFollowed, _) => format!(
                "{program} may not be traced here (sysctl kernel.yama.ptrace_scope): its waits and \
                 timers use host time, and programs that it starts use the host's clocks"
            ),
            (Note::NoDebugger(reason), _) => format!(
                "{program} cannot trace programs of this timeline (EPERM): they are traced for life \
                 {reason}, and the kernel allows one tracer"
            ),
            (Note::Frozen, _) => format!(
                "{program} waits with a timeout, which never expires while all clocks are frozen: \
                 with --freeze=wall only the date is frozen, and waits end"
            ),
            (Note::LostPrivilege, _) => format!(
                "{program} is a set-user-ID, set-group-ID or privileged file: in a timeline started by \
                 an ordinary user it runs without these privileges"
            ),
        };
        let about = if note == Note::Frozen { String::new() } else { program };
        if self.noted.insert((about, note)) {
            self.say(tracee.0, &text);
        }
    }

    /// Gives a note if a call of ptrace that begins to trace a thread will fail since the supervisor
    /// traces that thread for its whole life.
    pub(super) fn note_debugger(&mut self, tracee: Tracee, args: &[u64; 6]) {
        let traced = match args[0] as u32 {
            PTRACE_TRACEME => tracee.0,
            _ if proc::shares_namespace(tracee.0, "pid") => Pid::from_raw(args[1] as i32),
            // By another number than here.
            _ => return,
        };
        if let Some(reason) = self.why_kept(traced).filter(|_| proc::is_followed(traced)) {
            self.note(tracee, Note::NoDebugger(reason));
        }
    }

    /// Writes a line to the standard error of a program, unless nobody can read it, and notifies
    /// watchers.
    pub(super) fn say(&self, about: Pid, text: &str) {
        if let Some(control) = &self.control {
            let pid = proc::process_of(about).unwrap_or(about).as_raw();
            control.tell(|| Event::Notice { pid, text: text.to_owned() });
        }
        // If a program cannot be inspected, its parent can, or it is the first program, whose standard
        // error is still available.
        let borrowed = [proc::process_of(about), proc::parent_of(about)]
            .into_iter()
            .flatten()
            .find_map(|pid| Tracee(pid).borrow_descriptor(libc::STDERR_FILENO as u32).ok());
        if let Some(descriptor) = borrowed.as_ref().or(self.first_stderr.as_ref()) {
            write(descriptor, text);
        }
    }

    /// Notes if the file of a program that has just been started would have given it privileges that it
    /// did not get.
    pub(super) fn note_lost_privilege(&mut self, tracee: Tracee) {
        if self.keeps_privileges {
            return;
        }
        let path = format!("/proc/{}/exe", tracee.0);
        let Ok(file) = fs::metadata(&path) else { return };
        let effective = |name| {
            let ids = proc::status_field(tracee.0, name)?;
            ids.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        let lost = (file.mode() & libc::S_ISUID != 0 && effective("Uid:") != Some(file.uid()))
            || (file.mode() & SET_GROUP_ID == SET_GROUP_ID
                && effective("Gid:") != Some(file.gid()));
        if lost {
            self.note(tracee, Note::LostPrivilege);
        }
    }
}

/// Set-group-ID counts only together with the group's execute permission.
const SET_GROUP_ID: u32 = libc::S_ISGID | libc::S_IXGRP;

fn write(descriptor: &OwnedFd, text: &str) {
    // A full pipe must not block the supervisor, and all programs with it.
    let mut ready = [PollFd::new(descriptor.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut ready, PollTimeout::ZERO) == Ok(1) {
        // There is nobody left to whom a failure could be reported.
        let _ = nix::unistd::write(descriptor, format!("eigentime: {text}\n").as_bytes());
    }
}
