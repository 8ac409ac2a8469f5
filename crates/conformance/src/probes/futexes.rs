//! Every futex operation that takes a time. These waiters are never woken.

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;
use std::thread;

use crate::bench::{Answer, Bench, Ends, Needed, wrong};
use crate::interface::Interface;
use crate::sys::{Arg, NULL, call, timespec};
use crate::timelines::Under;

use super::EVERYWHERE;

const REALTIME: i32 = libc::CLOCK_REALTIME;
const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const BY_WALL: i32 = libc::FUTEX_CLOCK_REALTIME;
/// Newer than the C library's header.
const FUTEX_LOCK_PI2: i32 = 13;
const FUTEX2_SIZE_U32: u32 = 2;
const FUTEX2_PRIVATE: u32 = 128;
const ANY_BIT: u32 = u32::MAX;
const SYS_FUTEX_WAIT: libc::c_long = 455;

const fn wait(name: &'static str, probe: fn(&Bench) -> Answer) -> Interface {
    Interface::probe(name, probe).of(&["futex"])
}

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    wait("FUTEX_WAIT", plain::<0>).under(EVERYWHERE),
    wait("FUTEX_WAIT, private", plain::<{ libc::FUTEX_PRIVATE_FLAG }>),
    wait("FUTEX_WAIT_BITSET, monotonic", bitset::<MONOTONIC, 0>).under(EVERYWHERE),
    wait("FUTEX_WAIT_BITSET, wall clock", bitset::<REALTIME, BY_WALL>).on_wall(),
    wait("FUTEX_LOCK_PI, wall clock", lock::<REALTIME, { libc::FUTEX_LOCK_PI }>).on_wall(),
    wait("FUTEX_LOCK_PI2, monotonic", lock::<MONOTONIC, FUTEX_LOCK_PI2>),
    wait("FUTEX_LOCK_PI2, wall clock", lock::<REALTIME, { FUTEX_LOCK_PI2 | BY_WALL }>).on_wall(),
    wait("FUTEX_WAIT_REQUEUE_PI, monotonic", requeue::<MONOTONIC, 0>),
    wait("FUTEX_WAIT_REQUEUE_PI, wall clock", requeue::<REALTIME, BY_WALL>).on_wall(),
    Interface::probe("futex_waitv, monotonic", waitv::<MONOTONIC>).of(&["futex_waitv"]),
    Interface::probe("futex_waitv, wall clock", waitv::<REALTIME>).of(&["futex_waitv"]).on_wall(),
    Interface::probe("futex_wait, monotonic", wait2::<MONOTONIC>).of(&["futex_wait"]),
    Interface::probe("futex_wait, wall clock", wait2::<REALTIME>).of(&["futex_wait"]).on_wall(),
    wait("FUTEX_WAIT_BITSET, wall clock, long past", long_past).on_wall().under(Under::WALL),
    wait("FUTEX_WAIT while time stands still", never).under(Under::FROZEN),
];

static WORD: AtomicU32 = AtomicU32::new(0);
static LOCK: AtomicU32 = AtomicU32::new(0);

/// Calls futex(2) on one of the words above.
fn futex(
    word: &'static AtomicU32,
    operation: i32,
    time: impl Into<Arg>,
    second: impl Into<Arg>,
    bits: u32,
) -> io::Result<i64> {
    // SAFETY: both words are static and aligned; the time is a timespec or null.
    unsafe { call!(libc::SYS_futex, word, operation, 0, time.into(), second.into(), bits) }
}

fn plain<const FLAGS: i32>(bench: &Bench) -> Answer {
    bench.relative(Ends::By(libc::ETIMEDOUT), |time| {
        futex(&WORD, libc::FUTEX_WAIT | FLAGS, &time, NULL, 0)
    })
}

fn bitset<const CLOCK: i32, const FLAGS: i32>(bench: &Bench) -> Answer {
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG | FLAGS;
    bench.absolute(CLOCK, Ends::By(libc::ETIMEDOUT), |until| {
        futex(&WORD, operation, &until, NULL, ANY_BIT)
    })
}

/// The call that sem_timedwait and similar functions make for a deadline of zero.
fn long_past(bench: &Bench) -> Answer {
    let operation = libc::FUTEX_WAIT_BITSET | BY_WALL;
    match futex(&WORD, operation, &timespec(0), NULL, ANY_BIT) {
        Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {
            Ok(bench.agrees(true, "it ended at once".into()))
        }
        other => Ok(wrong(format!("it answered {other:?}"))),
    }
}

fn lock<const CLOCK: i32, const OPERATION: i32>(bench: &Bench) -> Answer {
    let (tell, hear) = mpsc::channel();
    // Another thread owns the lock from here on.
    thread::spawn(move || {
        let operation = OPERATION & !BY_WALL | libc::FUTEX_PRIVATE_FLAG;
        let _ = tell.send(futex(&LOCK, operation, NULL, NULL, 0));
        loop {
            thread::park();
        }
    });
    hear.recv().map_err(io::Error::other)?.needed("this operation")?;
    let operation = OPERATION | libc::FUTEX_PRIVATE_FLAG;
    bench.absolute(CLOCK, Ends::By(libc::ETIMEDOUT), |until| {
        futex(&LOCK, operation, &until, NULL, 0)
    })
}

fn requeue<const CLOCK: i32, const FLAGS: i32>(bench: &Bench) -> Answer {
    let operation = libc::FUTEX_WAIT_REQUEUE_PI | libc::FUTEX_PRIVATE_FLAG | FLAGS;
    bench.absolute(CLOCK, Ends::By(libc::ETIMEDOUT), |until| {
        futex(&WORD, operation, &until, &LOCK, ANY_BIT)
    })
}

/// `struct futex_waitv`.
#[repr(C)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

fn waitv<const CLOCK: i32>(bench: &Bench) -> Answer {
    let waiter = Waiter {
        value: 0,
        address: WORD.as_ptr() as u64,
        flags: FUTEX2_SIZE_U32 | FUTEX2_PRIVATE,
        reserved: 0,
    };
    bench.absolute(CLOCK, Ends::By(libc::ETIMEDOUT), |until| {
        // SAFETY: the kernel reads one waiter, whose word is static, and one timespec.
        unsafe { call!(libc::SYS_futex_waitv, &waiter, 1, 0, &until, CLOCK) }
    })
}

fn wait2<const CLOCK: i32>(bench: &Bench) -> Answer {
    let flags = FUTEX2_SIZE_U32 | FUTEX2_PRIVATE;
    bench.absolute(CLOCK, Ends::By(libc::ETIMEDOUT), |until| {
        // SAFETY: the word is static; the kernel reads one timespec.
        unsafe { call!(SYS_FUTEX_WAIT, &WORD, 0, ANY_BIT, flags, &until, CLOCK) }
    })
}

fn never(_bench: &Bench) -> Answer {
    super::sleeps::never_ends(|time| futex(&WORD, libc::FUTEX_WAIT, time, NULL, 0))
}
