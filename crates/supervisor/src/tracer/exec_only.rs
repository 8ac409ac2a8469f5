//! Prepares every program when it is started, and lets it go: nothing is traced but the
//! moment of its start, so that debuggers can.
//!
//! The filter tells of `execve` and `execveat` (SECCOMP_RET_USER_NOTIF); the thread is
//! then followed up to the first instruction of its new program.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::Supervisor;
use super::notes::{Note, status_field};
use super::tracee::{Stop, Tracee};

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND` (include/uapi/linux/seccomp.h).
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;

impl Supervisor {
    /// Answers until the last program has ended.
    pub fn serve_execs(&mut self, listener: &OwnedFd) {
        self.started = true;
        while let Some(call) = receive(listener) {
            let thread = Tracee(Pid::from_raw(call.pid as i32));
            match thread.seize_softly() {
                Ok(()) => self.accompany(thread, listener, call.id),
                // A debugger inside the timeline has it.
                Err(_) => {
                    self.note_debugger(thread);
                    go_on(listener, call.id);
                }
            }
        }
    }

    fn note_debugger(&mut self, thread: Tracee) {
        if status_field(thread.0, "TracerPid:").is_some_and(|tracer| tracer != "0") {
            self.note(thread, Note::Debugged);
        } else {
            self.note(thread, Note::NotFollowed);
        }
    }

    /// Follows a thread through its call of exec.
    fn accompany(&mut self, thread: Tracee, listener: &OwnedFd, call: u64) {
        go_on(listener, call);
        // If the call fails, the thread stops behind it.
        let _ = thread.interrupt();
        // Threads of the same process end when one of them starts a program, which
        // takes the number of the process.
        while let Ok(Some((tracee, stop))) = Tracee::wait_for_any() {
            let over = match stop {
                Stop::Exec => self.let_in_and_go(tracee).map(|()| true),
                Stop::Trap => tracee.release().map(|()| true),
                Stop::Ended => Ok(true),
                Stop::Signal(signal) => tracee.resume(Some(signal)).map(|()| false),
                Stop::Group => tracee.listen().map(|()| false),
                _ => tracee.resume(None).map(|()| false),
            };
            match over {
                Ok(false) => {}
                Ok(true) => return,
                // It was killed in between; its end is still to come.
                Err(Errno::ESRCH) => {}
                Err(_) => {
                    let _ = tracee.kill();
                }
            }
        }
    }

    fn let_in_and_go(&mut self, tracee: Tracee) -> nix::Result<()> {
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

/// The next call; `None` once nobody is left to make any.
fn receive(listener: &OwnedFd) -> Option<libc::seccomp_notif> {
    loop {
        let mut ready = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer is to one pollfd of ours.
        if unsafe { libc::poll(&raw mut ready, 1, -1) } < 0 {
            continue;
        }
        if ready.revents & libc::POLLIN == 0 {
            return None;
        }
        // SAFETY: all-zero bytes are a valid notification, as the kernel wants it.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a notification of ours.
        let received = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut call) };
        // The caller may have been killed in between.
        if received == 0 {
            return Some(call);
        }
    }
}

/// Lets a call go on in the kernel.
fn go_on(listener: &OwnedFd, id: u64) {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the pointer is to an answer of ours. If the caller has been killed or
    // interrupted, there is nobody to answer.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw mut answer) };
}
