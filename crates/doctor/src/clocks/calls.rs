//! The calls that read clocks, and what is expected to serve them.

use std::ffi::{c_long, c_void};
use std::hint::black_box;
use std::ptr;

use eigentime_measure::oracle::Asked;
use eigentime_measure::vdso::Vdso;

/// What is expected to serve a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The vDSO: programs make this call all the time.
    Vdso,
    /// The vDSO in current kernels, but not in all before Linux 5.3.
    VdsoOfLate,
    /// The kernel: no vDSO serves it, for this reason.
    Kernel(&'static str),
}

/// A call that reads a clock.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The function.
    pub function: &'static str,
    /// The clock to read; empty if there is no choice.
    pub clock: &'static str,
    /// The same for the oracle.
    pub asked: Asked,
    /// What is expected to serve it.
    pub expected: Expected,
}

const fn read(clock: &'static str, id: libc::clockid_t, expected: Expected) -> Call {
    Call { function: "clock_gettime", clock, asked: Asked::ClockGettime(id), expected }
}

const CPU_TIME: Expected = Expected::Kernel("the scheduler keeps processor time");
const ALARM: Expected = Expected::Kernel("the kernel asks whether there is a clock that can wake");

/// A call that only some architectures have in their vDSO.
const fn extra(function: &'static str, asked: Asked) -> Call {
    let expected = match asked.is_in_vdso() {
        true => Expected::Vdso,
        false => Expected::Kernel("the vDSO of this architecture has no such function"),
    };
    Call { function, clock: "", asked, expected }
}

/// All calls, in the order of the page.
pub const CALLS: &[Call] = &[
    read("CLOCK_REALTIME", libc::CLOCK_REALTIME, Expected::Vdso),
    read("CLOCK_MONOTONIC", libc::CLOCK_MONOTONIC, Expected::Vdso),
    read("CLOCK_MONOTONIC_RAW", libc::CLOCK_MONOTONIC_RAW, Expected::VdsoOfLate),
    read("CLOCK_BOOTTIME", libc::CLOCK_BOOTTIME, Expected::VdsoOfLate),
    read("CLOCK_TAI", libc::CLOCK_TAI, Expected::VdsoOfLate),
    read("CLOCK_REALTIME_COARSE", libc::CLOCK_REALTIME_COARSE, Expected::Vdso),
    read("CLOCK_MONOTONIC_COARSE", libc::CLOCK_MONOTONIC_COARSE, Expected::Vdso),
    read("CLOCK_PROCESS_CPUTIME_ID", libc::CLOCK_PROCESS_CPUTIME_ID, CPU_TIME),
    read("CLOCK_THREAD_CPUTIME_ID", libc::CLOCK_THREAD_CPUTIME_ID, CPU_TIME),
    read("CLOCK_REALTIME_ALARM", libc::CLOCK_REALTIME_ALARM, ALARM),
    read("CLOCK_BOOTTIME_ALARM", libc::CLOCK_BOOTTIME_ALARM, ALARM),
    Call {
        function: "gettimeofday",
        clock: "",
        asked: Asked::Gettimeofday,
        expected: Expected::Vdso,
    },
    extra("time", Asked::Time),
    extra("getcpu", Asked::Getcpu),
    Call {
        function: "clock_getres",
        clock: "CLOCK_MONOTONIC",
        asked: Asked::ClockGetres(libc::CLOCK_MONOTONIC),
        expected: Expected::VdsoOfLate,
    },
];

impl Call {
    /// Its name on the page.
    pub fn name(&self) -> &'static str {
        if self.function == "clock_gettime" { self.clock } else { self.function }
    }
}

/// Makes a call this many times.
pub type Batch<'a> = Box<dyn FnMut(u64) + 'a>;

fn batch<'a>(mut call: impl FnMut() + 'a) -> Batch<'a> {
    Box::new(move |count| {
        for _ in 0..count {
            call();
        }
    })
}

/// The bare loop of a batch.
pub fn nothing() -> Batch<'static> {
    batch(|| {
        black_box(0);
    })
}

/// Calls through the vDSO; None if it has no such function.
pub fn by_vdso(vdso: &Vdso, asked: Asked) -> Option<Batch<'static>> {
    // SAFETY, of all: the functions are given room for their results, or null where they accept it;
    // the vDSO stays mapped.
    Some(match asked {
        Asked::ClockGettime(clock) => {
            let (call, mut time) = (vdso.clock_gettime()?, zero_timespec());
            // SAFETY: see above.
            batch(move || _ = black_box(unsafe { call(clock, &raw mut time) }))
        }
        Asked::ClockGetres(clock) => {
            let (call, mut time) = (vdso.clock_getres()?, zero_timespec());
            // SAFETY: see above.
            batch(move || _ = black_box(unsafe { call(clock, &raw mut time) }))
        }
        Asked::Gettimeofday => {
            let (call, mut time) = (vdso.gettimeofday()?, zero_timeval());
            // SAFETY: see above.
            batch(move || _ = black_box(unsafe { call(&raw mut time, ptr::null_mut()) }))
        }
        Asked::Time => {
            let call = vdso.time()?;
            // SAFETY: see above.
            batch(move || _ = black_box(unsafe { call(ptr::null_mut()) }))
        }
        Asked::Getcpu => {
            let (call, mut cpu) = (vdso.getcpu()?, 0);
            let none = ptr::null_mut();
            // SAFETY: see above.
            batch(move || _ = black_box(unsafe { call(&raw mut cpu, none, ptr::null_mut()) }))
        }
    })
}

/// Calls through system calls, whatever serves them otherwise.
///
/// # Errors
/// The kernel's error if it refuses; None if there is no such system call.
pub fn by_system_call(asked: Asked) -> Result<Batch<'static>, Option<std::io::Error>> {
    let number = asked.number().ok_or(None)?;
    // `struct timespec` and `struct timeval` have the same size; `getcpu` writes less.
    let mut written = zero_timespec();
    let mut call = move || {
        let written = (&raw mut written).cast::<c_void>();
        // SAFETY: each is given room for its result, or null where it accepts it.
        unsafe {
            match asked {
                Asked::ClockGettime(clock) | Asked::ClockGetres(clock) => {
                    libc::syscall(number, c_long::from(clock), written)
                }
                _ => libc::syscall(number, written, 0, 0),
            }
        }
    };
    if call() == -1 {
        return Err(Some(std::io::Error::last_os_error()));
    }
    Ok(batch(move || _ = black_box(call())))
}

const fn zero_timespec() -> libc::timespec {
    libc::timespec { tv_sec: 0, tv_nsec: 0 }
}

const fn zero_timeval() -> libc::timeval {
    libc::timeval { tv_sec: 0, tv_usec: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let mut names: Vec<_> = CALLS.iter().map(Call::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CALLS.len());
    }

    #[test]
    fn clocks_that_are_not_there_are_refused() {
        let refused = by_system_call(Asked::ClockGettime(!1000_i32 << 3 | 3)).err().flatten();
        assert_eq!(refused.and_then(|error| error.raw_os_error()), Some(libc::EINVAL));
    }
}
