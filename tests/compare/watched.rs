//! Calls that are watched, and must be as on the host.

use crate::case::Case;
use crate::site;
use crate::situations::BAD;
use crate::world::{Holds, World, must};

const IO_URING_SETUP: u32 = 425;
const CLONE: u32 = 56;
const GETGROUPS: u32 = 115;
const SECCOMP: u32 = 317;
const PRCTL: u32 = 157;
const RT_SIGACTION: u32 = 13;
const PTRACE: u32 = 101;

fn quick(name: String, nr: u32, args: [u64; 6]) -> Case {
    Case::alone(name, move |world| {
        world.quick("", nr, &args);
    })
}

/// A call in which one pointer is bad in all ways.
fn with_bad(name: &'static str, nr: u32, args: [u64; 6], place: usize) -> Vec<Case> {
    let case = |bad: crate::situations::Bad| {
        Case::alone(format!("{name}/{bad:?}"), move |world: &mut World| {
            let mut args = args;
            args[place] = bad.address(world);
            world.quick("", nr, &args);
        })
    };
    BAD.map(case).into()
}

pub fn io_uring_setup() -> Vec<Case> {
    let mut cases = with_bad("io_uring_setup", IO_URING_SETUP, [4, 0, 0, 0, 0, 0], 1);
    for (name, entries, flags) in
        [("made", 4, 0), ("none", 0, 0), ("flags", 4, 1 << 31), ("many", 1 << 20, 0)]
    {
        cases.push(Case::alone(format!("io_uring_setup/{name}"), move |world| {
            let mut params = [0u32; 30];
            params[2] = flags;
            let at = world.halves("params", &params, Holds::Bytes);
            world.makes_descriptor();
            world.quick("", IO_URING_SETUP, &[entries, at, 0, 0, 0, 0]);
        }));
    }
    cases
}

pub fn clone() -> Vec<Case> {
    const CLONE_UNTRACED: u64 = 0x0080_0000;
    const CLONE_SIGHAND: u64 = 0x800;
    let forked = |name: &'static str, flags: u64| {
        Case::alone(format!("clone/{name}"), move |world: &mut World| {
            let result = site::call(CLONE, &[flags | libc::SIGCHLD as u64, 0, 0, 0, 0, 0]);
            if result == 0 {
                // SAFETY: a child made so ends by this.
                unsafe { libc::_exit(7) };
            }
            assert!(result > 0, "clone: {result}");
            let mut status = 0i32;
            must(libc::SYS_wait4, &[result as u64, &raw mut status as u64, 0, 0]);
            world.note("status", status);
        })
    };
    vec![
        forked("usual", 0),
        forked("untraced", CLONE_UNTRACED),
        quick("clone/refused".to_owned(), CLONE, [CLONE_SIGHAND, 0, 0, 0, 0, 0]),
    ]
}

pub fn getgroups() -> Vec<Case> {
    let mut cases = with_bad("getgroups", GETGROUPS, [64, 0, 0, 0, 0, 0], 1);
    cases.extend([0, 64, u64::MAX].map(|size| {
        Case::alone(format!("getgroups/{}", size as i64), move |world: &mut World| {
            let at = world.buffer("groups", &[0x11; 256], Holds::Bytes);
            world.quick("", GETGROUPS, &[size, at, 0, 0, 0, 0]);
        })
    }));
    cases
}

pub fn seccomp() -> Vec<Case> {
    const GET_ACTION_AVAIL: u64 = 2;
    const SET_MODE_FILTER: u64 = 1;
    let mut cases = with_bad("seccomp.action", SECCOMP, [GET_ACTION_AVAIL, 0, 0, 0, 0, 0], 2);
    cases.extend(with_bad("seccomp.filter", SECCOMP, [SET_MODE_FILTER, 0, 0, 0, 0, 0], 2));
    cases.push(quick("seccomp/unknown".to_owned(), SECCOMP, [99, 0, 0, 0, 0, 0]));
    cases.push(quick("seccomp/flags".to_owned(), SECCOMP, [0, 1, 0, 0, 0, 0]));
    cases
}

pub fn prctl() -> Vec<Case> {
    const PR_GET_SECCOMP: u64 = 21;
    const PR_SET_SECCOMP: u64 = 22;
    let mut cases = with_bad("prctl.filter", PRCTL, [PR_SET_SECCOMP, 2, 0, 0, 0, 0], 2);
    cases.push(quick("prctl/get_seccomp".to_owned(), PRCTL, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]));
    cases.push(quick("prctl/mode".to_owned(), PRCTL, [PR_SET_SECCOMP, 99, 0, 0, 0, 0]));
    cases.push(Case::alone("prctl/strict", |world| {
        // In a child, which the next call but a few ends.
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            site::call(PRCTL, &[PR_SET_SECCOMP, 1, 0, 0, 0, 0]);
            site::call(libc::SYS_getpid as u32, &[0; 6]);
            site::call(libc::SYS_exit as u32, &[7, 0, 0, 0, 0, 0]);
        }
        let mut status = 0i32;
        must(libc::SYS_wait4, &[child as u64, &raw mut status as u64, 0, 0]);
        world.note("status", status);
    }));
    cases
}

/// Of a signal by which C libraries cancel threads.
pub fn rt_sigaction() -> Vec<Case> {
    const SIGCANCEL: u64 = 32;
    const SIGSET_BYTES: u64 = 8;
    // Nobody sends it.
    const HANDLER: libc::sighandler_t = 0x1000;
    let mut cases =
        with_bad("rt_sigaction", RT_SIGACTION, [SIGCANCEL, 0, 0, SIGSET_BYTES, 0, 0], 1);
    cases.extend(
        [
            ("ignored", libc::SIG_IGN, SIGSET_BYTES),
            ("handled", HANDLER, SIGSET_BYTES),
            ("size", HANDLER, 4),
        ]
        .map(|(name, handler, bytes)| {
            Case::alone(format!("rt_sigaction/{name}"), move |world: &mut World| {
                let new = world.words("new", &[handler as u64, 0, 0, 0], Holds::Bytes);
                let old = world.words("old", &[0x11; 4], Holds::Bytes);
                world.quick("", RT_SIGACTION, &[SIGCANCEL, new, 0, bytes, 0, 0]);
                world.quick("then", RT_SIGACTION, &[SIGCANCEL, 0, old, bytes, 0, 0]);
            })
        }),
    );
    cases
}

/// Requests that cannot succeed, whoever traces the caller.
pub fn ptrace() -> Vec<Case> {
    const ATTACH: u64 = 16;
    const SEIZE: u64 = 0x4206;
    const UNKNOWN: u64 = 99;
    // SAFETY: getpid has no preconditions.
    let own = || unsafe { libc::getpid() } as u64;
    let mut cases: Vec<_> =
        [("attach/nobody", ATTACH), ("seize/nobody", SEIZE), ("unknown", UNKNOWN)]
            .map(|(name, request)| {
                let nobody = i32::MAX as u64;
                quick(format!("ptrace/{name}"), PTRACE, [request, nobody, 0, 0, 0, 0])
            })
            .into();
    cases.push(Case::alone("ptrace/attach/itself", move |world: &mut World| {
        world.quick("", PTRACE, &[ATTACH, own(), 0, 0, 0, 0]);
    }));
    cases
}
