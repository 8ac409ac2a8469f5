use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use super::*;

/// Calls that every vDSO serves if it serves any clock.
const COARSE: [Asked; 2] = [
    Asked::ClockGettime(libc::CLOCK_REALTIME_COARSE),
    Asked::ClockGettime(libc::CLOCK_MONOTONIC_COARSE),
];

/// Calls that no vDSO serves.
const NEVER: [Asked; 5] = [
    Asked::ClockGettime(libc::CLOCK_PROCESS_CPUTIME_ID),
    Asked::ClockGettime(libc::CLOCK_THREAD_CPUTIME_ID),
    Asked::ClockGettime(libc::CLOCK_REALTIME_ALARM),
    Asked::ClockGettime(libc::CLOCK_BOOTTIME_ALARM),
    // The clock of descriptor 1000 (clock_getres(2)), which is not open.
    Asked::ClockGettime(!1000_i32 << 3 | 3),
];

fn here() -> Vdso {
    let vdso = Vdso::find().and_then(|vdso| ask(&vdso, &[]).map(|_| vdso));
    vdso.unwrap_or_else(|why| skip!("a vDSO and seccomp filters: {why}"))
}

#[test]
fn clocks_that_must_and_must_not_fall_back_are_told_apart() {
    let vdso = here();
    assert_eq!(ask(&vdso, &COARSE), Ok(vec![Served::Vdso; COARSE.len()]));
    assert_eq!(ask(&vdso, &NEVER), Ok(vec![Served::SystemCall; NEVER.len()]));
    let both = [&COARSE[..], &NEVER[..]].concat().repeat(40);
    let served = ask(&vdso, &both).unwrap();
    assert_eq!(served.len(), both.len(), "more than one child is asked");
    for (asked, served) in both.iter().zip(served) {
        assert_eq!(served == Served::Vdso, COARSE.contains(asked), "{asked:?}");
    }
}

#[test]
fn calls_of_others_are_asked_of_too() {
    let vdso = here();
    // SAFETY: its argument is a number.
    let mut raw = || match unsafe { libc::syscall(libc::SYS_timer_getoverrun, 0) } {
        // SAFETY: the thread's own.
        -1 => -unsafe { *libc::__errno_location() },
        _ => 0,
    };
    // SAFETY: as in `ask`.
    let mut by_vdso = || unsafe { call(&vdso, COARSE[0]) };
    let (asked, other) = (libc::SYS_timer_getoverrun, libc::SYS_timer_delete);
    // SAFETY: both calls make at most a system call.
    let served =
        unsafe { [ask_of(asked, &mut raw), ask_of(other, &mut raw), ask_of(asked, &mut by_vdso)] };
    let expected = [Served::SystemCall, Served::Failed(libc::EINVAL), Served::Vdso];
    assert_eq!(served, expected.map(Ok));
}

#[test]
fn fine_clocks_are_all_served_alike() {
    let vdso = here();
    let clocks = [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME]
        .map(Asked::ClockGettime);
    let served = ask(&vdso, &[&clocks[..], &[Asked::Gettimeofday]].concat()).unwrap();
    assert!(served.iter().all(|it| *it == served[0]), "{served:?}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn where_the_counter_is_the_clocksource_nothing_falls_back() {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = std::fs::read_to_string(file);
    let vdso = here();
    if name.as_deref().map(str::trim_ascii).ok() != Some("tsc") {
        skip!("the clocksource tsc, here it is {name:?}");
    }
    let asked = [
        Asked::ClockGettime(libc::CLOCK_MONOTONIC),
        Asked::ClockGettime(libc::CLOCK_TAI),
        Asked::ClockGettime(libc::CLOCK_MONOTONIC_RAW),
        Asked::ClockGetres(libc::CLOCK_MONOTONIC),
        Asked::Gettimeofday,
        Asked::Time,
        Asked::Getcpu,
    ];
    assert_eq!(ask(&vdso, &asked), Ok(vec![Served::Vdso; asked.len()]));
}

/// The behavior of the vDSO if it cannot read the clocksource.
unsafe extern "C" fn falling_back(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller has provided room for the result.
    match unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } {
        // SAFETY: the thread's own.
        -1 => -unsafe { *libc::__errno_location() },
        _ => 0,
    }
}

#[test]
fn a_vdso_that_cannot_read_the_clocksource_is_found_out() {
    let vdso = here();
    let demoted = vdso.with_clock_gettime(falling_back);
    let asked = [Asked::ClockGettime(libc::CLOCK_MONOTONIC), COARSE[0]];
    assert_eq!(ask(&demoted, &asked), Ok(vec![Served::SystemCall; 2]));
}

#[test]
fn a_function_that_is_not_there_is_a_system_call() {
    let vdso = here();
    let without = vdso.without_functions();
    let asked = [COARSE[0], Asked::Gettimeofday, Asked::Time, Asked::Getcpu];
    assert_eq!(ask(&without, &asked), Ok(vec![Served::SystemCall; 4]));
}

#[test]
fn the_c_library_reads_common_clocks_as_the_vdso_does() {
    let vdso = here();
    let asked = [&COARSE[..], &NEVER[..], &[Asked::Gettimeofday]].concat();
    assert_eq!(ask_libc(&asked), ask(&vdso, &asked));
}

#[test]
fn nothing_of_the_child_is_seen_by_the_program() {
    let vdso = here();
    ask(&vdso, &COARSE).unwrap();
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is given room for its result.
    let result =
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(result, 0, "system calls of this process are not answered by a filter");
}

#[test]
fn threads_may_ask_and_allocate_at_the_same_time() {
    let vdso = here();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                drop(vec![1_u8; 100_000]);
            }
        });
        let asking: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..20).map(|_| ask(&vdso, &NEVER)).collect::<Vec<_>>()))
            .collect();
        let answers: Vec<_> = asking.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Relaxed);
        for answer in answers.into_iter().flat_map(Result::unwrap) {
            assert_eq!(answer, Ok(vec![Served::SystemCall; NEVER.len()]));
        }
    });
}

#[test]
fn under_a_filter_another_one_is_asked_by() {
    let vdso = here();
    // The confined thread ends with the test.
    let answers = thread::spawn(move || {
        // SAFETY: the filter applies only to this thread, which reads no clock with system calls.
        let confined = unsafe { confine(&program(&calls())) };
        (confined, ask(&vdso, &COARSE), ask(&vdso, &NEVER))
    });
    let (confined, coarse, never) = answers.join().unwrap();
    assert_eq!(confined, (DONE, 0));
    assert_eq!(coarse, Ok(vec![Served::Vdso; COARSE.len()]));
    assert_eq!(never, Ok(vec![Served::SystemCall; NEVER.len()]));
}

#[test]
fn a_filter_that_is_refused_is_unknown_with_the_reason() {
    let vdso = here();
    let why = thread::spawn(move || {
        // SAFETY: as above; `prctl` is refused from here on.
        unsafe { confine(&program(&[libc::SYS_prctl])) };
        ask(&vdso, &COARSE).unwrap_err().to_string()
    });
    assert!(why.join().unwrap().starts_with("no_new_privs is refused"));
}
