use std::io;

use rustix::process::{Pid, Resource, getrlimit};

use super::ledger::Ledger;

/// Makes the thread that took it a real-time thread (SCHED_FIFO), which runs before all ordinary
/// ones.
///
/// Its forked children are ordinary processes where possible (SCHED_FLAG_RESET_ON_FORK): with
/// CAP_SYS_NICE, without which the flag could not be cleared again. The kernel throttles all
/// real-time threads of a processor for the rest of each second of which they have used 0.95
/// (sched_rt_runtime_us).
#[derive(Debug)]
pub struct Realtime {
    number: u64,
    taken: Attributes,
}

static LEDGER: Ledger<Attributes> = Ledger::new();

/// `struct sched_attr` of linux/sched/types.h, in its second size (Linux 5.3): see
/// sched_setattr(2). The kernel writes a shorter one if it knows no more.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

const SIZE: u32 = size_of::<Attributes>() as u32;
const FIFO: u32 = libc::SCHED_FIFO as u32;
const RESET_ON_FORK: u64 = 1;
/// SCHED_OTHER, SCHED_BATCH and SCHED_IDLE, to which any thread can return.
const ORDINARY: [u32; 3] = [0, 3, 5];
const DEADLINE: u32 = 6;

impl Realtime {
    /// Makes the calling thread a real-time thread with a priority from 1 to 99.
    ///
    /// # Errors
    /// If the kernel does not allow it: the reason, and a remedy.
    pub fn take(priority: u8) -> Result<Self, String> {
        let before = Attributes::of(None).map_err(|error| format!("sched_getattr: {error}"))?;
        if before.policy == DEADLINE {
            return Err("the thread has SCHED_DEADLINE, which goes before it: keep that".into());
        }
        let limit = getrlimit(Resource::Rtprio).current.unwrap_or(u64::MAX);
        // Beyond the limit only CAP_SYS_NICE allows it, and then the flag can be cleared.
        let capable = limit < priority.into() && ORDINARY.contains(&before.policy);
        let taken = Attributes {
            size: SIZE,
            policy: FIFO,
            flags: before.flags & RESET_ON_FORK | if capable { RESET_ON_FORK } else { 0 },
            priority: priority.into(),
            ..Attributes::default()
        };
        taken.give(None).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => format!(
                "it needs CAP_SYS_NICE, or RLIMIT_RTPRIO of {priority} (it is {limit}): run as \
                 root, or put \"rtprio {priority}\" for the user into /etc/security/limits.conf"
            ),
            Some(libc::EINVAL) => "a priority is from 1 to 99".into(),
            _ => format!("sched_setattr: {error}"),
        })?;
        Ok(Self { number: LEDGER.enter(before), taken })
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        let Some((owner, before)) = LEDGER.leave(self.number) else { return };
        let Some(thread) = owner.now() else { return };
        let Ok(found) = Attributes::of(Some(thread)) else { return };
        if (found.policy, found.priority) == (self.taken.policy, self.taken.priority) {
            // Any thread can return, except for the flag: without the capability, which may have
            // been dropped since, it stays. It has no effect on an ordinary thread.
            if before.give(Some(thread)).is_err() {
                let flags = before.flags | RESET_ON_FORK;
                // This fails only if the thread has just ended.
                let _ = Attributes { flags, ..before }.give(Some(thread));
            }
        }
    }
}

impl Attributes {
    fn of(thread: Option<Pid>) -> io::Result<Self> {
        let mut found = Self::default();
        // SAFETY: the kernel writes at most `SIZE` bytes, which is the size of `found`.
        let done = unsafe {
            libc::syscall(libc::SYS_sched_getattr, number(thread), &raw mut found, SIZE, 0)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(found) }
    }

    fn give(&self, thread: Option<Pid>) -> io::Result<()> {
        // SAFETY: the kernel reads `size` bytes, at most `SIZE`, the size of `self`.
        let done =
            unsafe { libc::syscall(libc::SYS_sched_setattr, number(thread), &raw const *self, 0) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn number(thread: Option<Pid>) -> i32 {
    Pid::as_raw(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Attributes {
        Attributes::of(None).unwrap()
    }

    #[test]
    fn policy_priority_niceness_and_flags_are_given_back() {
        let checked = (|| {
            let nicer = Attributes { policy: 3, nice: 7, size: SIZE, ..Attributes::default() };
            nicer.give(None).unwrap();
            let before = found();
            let realtime = Realtime::take(10)?;
            assert_eq!((found().policy, found().priority), (FIFO, 10));
            let inner = Realtime::take(20)?;
            assert_eq!((found().policy, found().priority), (FIFO, 20));
            drop(inner);
            assert_eq!((found().policy, found().priority), (FIFO, 10));
            drop(realtime);
            assert_eq!(found(), before);
            Ok::<_, String>(())
        })();
        if let Err(why) = checked {
            skip!("real-time priority 20: {why}");
        }
    }

    #[test]
    fn two_are_given_back_in_any_order() {
        let checked = (|| {
            let before = found();
            let first = Realtime::take(10)?;
            let second = Realtime::take(20)?;
            drop(first);
            assert_eq!((found().policy, found().priority), (FIFO, 20), "the other's is kept");
            drop(second);
            assert_eq!(found(), before);
            Ok::<_, String>(())
        })();
        if let Err(why) = checked {
            skip!("real-time priority 20: {why}");
        }
    }

    #[test]
    fn what_others_have_set_since_is_left_alone() {
        let checked = (|| {
            let realtime = Realtime::take(10)?;
            Attributes { policy: FIFO, priority: 5, size: SIZE, ..Attributes::default() }
                .give(None)
                .unwrap();
            drop(realtime);
            assert_eq!((found().policy, found().priority), (FIFO, 5));
            Ok::<_, String>(())
        })();
        if let Err(why) = checked {
            skip!("real-time priority 10: {why}");
        }
    }

    #[test]
    fn a_priority_out_of_range_is_refused() {
        let before = found();
        assert!(Realtime::take(100).unwrap_err().contains("1 to 99"));
        assert_eq!(found(), before);
    }
}
