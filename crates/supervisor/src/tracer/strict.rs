//! The strict mode of seccomp, which the kernel applies only to threads that have no filter. Threads of
//! a timeline have one, so the image installs a filter instead that stops all calls that the mode
//! forbids.

use eigentime_calls::{Nr, PR_GET_SECCOMP, PR_SET_DUMPABLE, PR_SET_SECCOMP, nr};

use super::Supervisor;
use super::tracee::Tracee;
use crate::proc;

/// Whether it is the call by which a thread enters the mode, which the kernel allows to a thread
/// without a filter.
pub fn enters_strict_mode(nr: Nr, &[first, second, third, ..]: &[u64; 6]) -> bool {
    match nr {
        nr::PRCTL => {
            first as u32 == PR_SET_SECCOMP && second == u64::from(libc::SECCOMP_MODE_STRICT)
        }
        nr::SECCOMP => {
            first as u32 == libc::SECCOMP_SET_MODE_STRICT && second as u32 == 0 && third == 0
        }
        _ => false,
    }
}

/// Whether the call queries the seccomp mode of its thread.
pub fn asks_for_mode(nr: Nr, args: &[u64; 6]) -> bool {
    nr == nr::PRCTL && args[0] as u32 == PR_GET_SECCOMP
}

/// Whether the call makes its process inaccessible to others of the same user.
pub fn closes_itself(nr: Nr, args: &[u64; 6]) -> bool {
    nr == nr::PRCTL && args[0] as u32 == PR_SET_DUMPABLE && args[1] == 0
}

/// Whether the call may give the thread a filter. Programs also make it with bad arguments, to probe
/// what the kernel supports.
pub fn may_set_filter(tracee: Tracee, nr: Nr, &[first, second, third, ..]: &[u64; 6]) -> bool {
    let asks = match nr {
        nr::PRCTL => {
            first as u32 == PR_SET_SECCOMP && second == u64::from(libc::SECCOMP_MODE_FILTER)
        }
        nr::SECCOMP => first as u32 == libc::SECCOMP_SET_MODE_FILTER,
        _ => false,
    };
    // `struct sock_fprog`: the number of instructions, and their address.
    let program = || tracee.read_words::<2>(third).ok();
    asks && program()
        .is_some_and(|[count, at]| count as u16 != 0 && tracee.read_words::<1>(at).is_ok())
}

impl Supervisor {
    /// Whether a thread has no other filters than those of the timeline.
    pub(super) fn has_no_other_filter(&self, tracee: Tracee) -> bool {
        let ours = 1 + self.timelines.get(self.timeline_of(tracee.0)).filters;
        proc::status_field(tracee.0, "Seccomp_filters:").is_some_and(|it| it == ours.to_string())
    }

    /// Ends a thread that has made a call that the mode forbids.
    pub(super) fn end_strict(&mut self, tracee: Tracee) -> nix::Result<()> {
        let process = self.process_of(tracee.0).unwrap_or(tracee.0);
        let threads = proc::threads_of(process);
        if threads.is_ok_and(|threads| threads.count() > 1) {
            // The other threads continue.
            let mut registers = tracee.registers()?;
            registers.set_nr(nr::EXIT);
            registers.set_arg(0, libc::SIGKILL as u64);
            if !tracee.is_beside_call() {
                registers.undo_call();
            }
            tracee.set_registers(registers)?;
            return self.go_on(tracee, None);
        }
        tracee.kill()
    }
}
