//! Calls that create processes, and other watched calls in the table.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use crate::bench::{Answer, Bench, Failure, Needed, wrong};
use crate::interface::{Epoch, Grain, Interface, Reading};
use crate::message::Outcome;
use crate::seen::Seen;
use crate::sys::{self, call, timespec};
use crate::timelines::Under;

const UNTRACED: &str = "CLONE_UNTRACED through clone3";

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    Interface::reading(
        "getgroups",
        Reading { read: groups, like: None, epoch: Epoch::Fixed, grain: Grain::Fine },
    )
    .of(&["getgroups"]),
    Interface::probe("clone, CLONE_UNTRACED", by_clone).of(&["clone"]).on_wall(),
    Interface::probe("seccomp: reads under a filter", by_seccomp).of(&["seccomp"]).on_wall(),
    Interface::probe("prctl: reads under a filter", by_prctl).of(&["prctl"]).on_wall(),
    Interface::probe("rt_sigaction: reads where threads are cancelled", by_rt_sigaction)
        .of(&["rt_sigaction"])
        .on_wall(),
    Interface::probe("ptrace: reads after a request that fails", by_ptrace)
        .of(&["ptrace"])
        .on_wall(),
    // The only timeline here whose programs are traced for life.
    Interface::probe("clone3, CLONE_UNTRACED", by_clone3).host(UNTRACED).under(Under::FROZEN),
];

/// The caller's groups, as a number small enough for an exact comparison.
fn groups() -> Option<i64> {
    let mut groups = vec![0u32; 65_536];
    // SAFETY: the kernel writes at most as many groups.
    let count = unsafe { call!(libc::SYS_getgroups, groups.len(), &mut groups[..]) }.ok()?;
    groups.truncate(count as usize);
    groups.sort_unstable();
    let mut hasher = DefaultHasher::new();
    groups.hash(&mut hasher);
    Some((hasher.finish() >> 24) as i64)
}

/// The reply of a child: its reading of the wall clock by a system call, or the errno.
type Reply = [i64; 2];

/// The original `struct clone_args` of clone3.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    descriptors: [u64; 3],
    exit_signal: u64,
    rest: [u64; 3],
}

fn by_clone(bench: &Bench) -> Answer {
    let flags = eigentime_calls::CLONE_UNTRACED | libc::SIGCHLD as u32;
    // SAFETY: without a stack of its own, the child continues on a copy of this one.
    follows(bench, "a child made so", || unsafe { call!(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

fn by_seccomp(bench: &Bench) -> Answer {
    // SAFETY: the kernel copies the filter.
    filtered(bench, |filter| unsafe {
        call!(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, filter)
    })
}

fn by_prctl(bench: &Bench) -> Answer {
    // SAFETY: the kernel copies the filter.
    filtered(bench, |filter| unsafe {
        call!(libc::SYS_prctl, libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, filter)
    })
}

/// Tests a child with a handler for a signal that C libraries use to cancel threads. The signal is
/// never sent.
fn by_rt_sigaction(bench: &Bench) -> Answer {
    let [signal, _] = eigentime_calls::CANCELLATION_SIGNALS;
    // The kernel's `struct sigaction`: handler, flags, restorer, mask.
    let action = [0x1_0000_u64, 0, 0, 0];
    // SAFETY: the kernel copies the action; the handler is never called.
    after(bench, "a child that cancels threads", || unsafe {
        call!(libc::SYS_rt_sigaction, signal, &action, 0, size_of::<u64>()).map(drop)
    })
}

/// Tests a child that asks to trace itself, which fails.
fn by_ptrace(bench: &Bench) -> Answer {
    after(bench, "a child that asks to trace itself", || {
        // SAFETY: no memory is involved.
        let traced = unsafe { call!(libc::SYS_ptrace, libc::PTRACE_ATTACH, libc::getpid(), 0, 0) };
        match traced {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(()),
            other => other.and(Err(io::ErrorKind::Other.into())),
        }
    })
}

/// Tests a child that installs a filter that allows everything.
fn filtered(bench: &Bench, put: fn(&libc::sock_fprog) -> io::Result<i64>) -> Answer {
    after(bench, "a child with a filter of its own", || {
        let mut all = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        };
        let filter = libc::sock_fprog { len: 1, filter: &raw mut all };
        // SAFETY: no memory is involved.
        unsafe { call!(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }?;
        put(&filter).map(drop)
    })
}

/// Tests whether a child reads the timeline's clock after `prepare`.
fn after(bench: &Bench, child: &str, prepare: impl FnOnce() -> io::Result<()>) -> Answer {
    follows(bench, child, || {
        // SAFETY: without a stack of its own, the child continues on a copy of this one.
        let child = unsafe { call!(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) }?;
        if child == 0 && prepare().is_err() {
            // SAFETY: ends the child without anything else; its parent reads nothing.
            unsafe { libc::_exit(1) };
        }
        Ok(child)
    })
}

/// Tests whether a child created by `fork` reads the timeline's clock.
fn follows(bench: &Bench, child: &str, fork: impl FnOnce() -> io::Result<i64>) -> Answer {
    let (before, reply, after) = ask_child(fork)?;
    Ok(match reply {
        [now, 0] if (before..=after).contains(&now) => {
            bench.agrees(true, format!("{child} is on the timeline"))
        }
        [now, 0] => wrong(format!("{child} reads {now} between {before} and {after}")),
        [_, errno] => wrong(format!("{child} reads no clock: errno {errno}")),
    })
}

fn by_clone3(_bench: &Bench) -> Answer {
    let args = CloneArgs {
        flags: eigentime_calls::CLONE_UNTRACED.into(),
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    // SAFETY: as above; the kernel reads as many bytes as the arguments have.
    let (before, reply, after) =
        ask_child(|| unsafe { call!(libc::SYS_clone3, &args, size_of_val(&args)) })?;
    Ok(match reply {
        [_, errno] if errno == i64::from(libc::ENOSYS) => {
            Outcome::Seen(Seen::Host, "a child's translated calls fail (ENOSYS)".into())
        }
        [now, 0] if (before..=after).contains(&now) => {
            Outcome::Seen(Seen::Virtual, "a child made so is on the timeline".into())
        }
        reply => wrong(format!("a child's reading is {reply:?}")),
    })
}

/// Creates a child that reads the wall clock with a system call, and reads the clock before and
/// after.
fn ask_child(fork: impl FnOnce() -> io::Result<i64>) -> Result<(i64, Reply, i64), Failure> {
    let mut ends = [0i32; 2];
    // SAFETY: the kernel writes two numbers.
    unsafe { call!(libc::SYS_pipe2, &mut ends, 0) }?;
    let before = sys::clock(libc::CLOCK_REALTIME)?;
    let child = fork().needed("this call")?;
    if child == 0 {
        let mut time = timespec(0);
        // SAFETY: the kernel writes one timespec.
        let read = unsafe { call!(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, &mut time) };
        let reply: Reply = match read {
            Ok(_) => [sys::nanos(time), 0],
            Err(error) => [0, error.raw_os_error().map_or(-1, i64::from)],
        };
        // SAFETY: the kernel reads two numbers; the child ends without anything else.
        unsafe {
            let _ = call!(libc::SYS_write, ends[1], &reply, size_of::<Reply>());
            libc::_exit(0);
        }
    }
    let mut reply: Reply = [0; 2];
    // SAFETY: the kernel writes two numbers.
    unsafe { call!(libc::SYS_read, ends[0], &mut reply, size_of::<Reply>()) }?;
    Ok((before, reply, sys::clock(libc::CLOCK_REALTIME)?))
}
