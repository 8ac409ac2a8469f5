//! Prepares every program when it is started, and lets it go: nothing is traced but the
//! moment of its start, so that debuggers can.
//!
//! The filter tells of `execve` and `execveat` (SECCOMP_RET_USER_NOTIF); the thread is
//! then followed up to the first instruction of its new program. A call may take as long as it likes:
//! it keeps no other waiting.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::task::Poll;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use super::Supervisor;
use super::notes::Note;
use super::tracee::{Stop, Tracee};
use crate::proc;

/// `SECCOMP_IOCTL_NOTIF_RECV`, `SECCOMP_IOCTL_NOTIF_SEND` and `SECCOMP_IOCTL_NOTIF_ID_VALID`
/// (include/uapi/linux/seccomp.h).
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const IS_PENDING: libc::c_ulong = 0x4008_2102;

impl Supervisor {
    /// Answers until the last program has ended.
    pub fn serve_execs(&mut self, listener: &OwnedFd) {
        self.started = true;
        let Ok(stops) = news_of_stops() else { return };
        loop {
            let events = [listener.as_fd(), stops.as_fd()];
            let mut events = events.map(|event| PollFd::new(event, PollFlags::POLLIN));
            if poll(&mut events, PollTimeout::NONE).is_err() {
                // A signal was passed on.
                continue;
            }
            let [calls, stopped] =
                events.map(|event| event.revents().unwrap_or(PollFlags::empty()));
            if !stopped.is_empty() {
                // It tells that there are stops, not how many.
                while let Ok(Some(_)) = stops.read_signal() {}
                while let Ok(Poll::Ready(Some((tracee, stop)))) = Tracee::poll_any() {
                    self.answer_on_the_way(tracee, stop);
                }
            }
            if calls.contains(PollFlags::POLLIN) {
                if let Some(call) = receive(listener) {
                    self.accompany(listener, &call);
                }
            } else if !calls.is_empty() {
                return;
            }
        }
    }

    /// Follows a thread through its call of exec.
    fn accompany(&mut self, listener: &OwnedFd, call: &libc::seccomp_notif) {
        if !is_pending(listener, call.id) {
            // It was killed or interrupted; its number may be another's already.
            return;
        }
        let thread = Tracee(Pid::from_raw(call.pid as i32));
        // It is followed still if its last call failed, and this one came before it was interrupted.
        let is_followed = thread.seize_softly().is_ok()
            || proc::tracer_of(thread.0).is_some_and(|tracer| tracer == Pid::this());
        if !is_followed {
            // A debugger inside the timeline has it.
            self.note_debugger(thread);
        }
        go_on(listener, call.id);
        if is_followed {
            // If the call fails, the thread stops behind it.
            let _ = thread.interrupt();
        }
    }

    fn note_debugger(&mut self, thread: Tracee) {
        let is_debugged = proc::tracer_of(thread.0).is_some();
        self.note(thread, if is_debugged { Note::Debugged } else { Note::NotFollowed });
    }

    /// Answers a stop of a thread that makes the call.
    fn answer_on_the_way(&mut self, tracee: Tracee, stop: Stop) {
        // Threads of the same process end when one of them starts a program, which takes the number
        // of the process.
        let answered = match stop {
            Stop::Exec => self.let_in_and_go(tracee),
            // The call has failed, or is made again and told of again.
            Stop::Trap | Stop::Group => tracee.release(),
            Stop::Ended | Stop::Woken => Ok(()),
            Stop::Signal(signal) => tracee.resume(Some(signal)),
            Stop::Filtered | Stop::Syscall | Stop::Forked => tracee.resume(None),
        };
        match answered {
            // It was killed in between.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(_) => {
                // If even that fails, it is gone.
                let _ = tracee.kill();
            }
        }
    }

    fn let_in_and_go(&mut self, tracee: Tracee) -> nix::Result<()> {
        self.begin_clocks();
        self.timekeeper.has_begun();
        match self.install_unfiltered(tracee) {
            Ok(()) => {
                self.first_stderr = None;
                self.note_lost_privilege(tracee);
                tracee.release()
            }
            Err(refusal) => {
                self.refuse(tracee, &refusal)?;
                while tracee.wait()? != Stop::Ended {
                    tracee.resume(None)?;
                }
                Ok(())
            }
        }
    }
}

/// What can be read once a thread has stopped.
fn news_of_stops() -> nix::Result<SignalFd> {
    // The caller may have left it ignored, and then the kernel does not send it.
    let told = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler is involved.
    unsafe { sigaction(Signal::SIGCHLD, &told) }?;
    let stops = SigSet::from(Signal::SIGCHLD);
    stops.thread_block()?;
    SignalFd::with_flags(&stops, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

/// A call that the filter has told of, if its caller still makes it.
fn receive(listener: &OwnedFd) -> Option<libc::seccomp_notif> {
    // SAFETY: all-zero bytes are a valid notification, as the kernel wants it.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a notification of ours.
    let received = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut call) };
    (received == 0).then_some(call)
}

/// Does its caller still make the call?
fn is_pending(listener: &OwnedFd, id: u64) -> bool {
    // SAFETY: the pointer is to a number of ours.
    unsafe { libc::ioctl(listener.as_raw_fd(), IS_PENDING, &raw const id) == 0 }
}

/// Lets a call go on in the kernel.
fn go_on(listener: &OwnedFd, id: u64) {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the pointer is to an answer of ours. If the caller has been killed or
    // interrupted, there is nobody to answer.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw mut answer) };
}
