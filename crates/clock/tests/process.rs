//! The process's clock beside the kernel's: agreement, order, forks, signals.

mod done;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime};

use done::Done;
use eigentime_clock::{Clock, ErrorBound, Instant, Trust, Upkeep};
use rustix::time::{ClockId, clock_gettime};

fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn spin(time: Duration) {
    let end = monotonic() + time;
    while monotonic() < end {}
}

/// How far a reading is certainly outside its bound.
fn outside(clock: &Clock) -> Duration {
    let before = monotonic();
    let reading = clock.read_ordered();
    let after = monotonic();
    let error = reading.error.within().expect("bounded against the kernel's clock");
    let early = before.saturating_sub(reading.monotonic + error);
    let late = reading.monotonic.saturating_sub(after + error);
    early.max(late)
}

#[test]
fn readings_are_within_their_bounds() {
    let clock = Clock::system();
    for turn in 0..2000 {
        assert_eq!(outside(&clock), Duration::ZERO, "in turn {turn}");
        spin(Duration::from_micros(turn % 97 * 5));
    }
}

#[test]
fn all_threads_see_one_order() {
    let (last, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let _done = Done(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let before = last.load(std::sync::atomic::Ordering::SeqCst);
                    let now = Instant::now_ordered().as_ticks();
                    assert!(now >= before, "{now} after {before}");
                    last.fetch_max(now, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
        spin(Duration::from_millis(300));
    });
}

#[test]
fn it_agrees_with_the_standard_library() {
    let clock = Clock::system();
    let (std_start, start) = (std::time::Instant::now(), Instant::now_ordered());
    spin(Duration::from_millis(50));
    let (elapsed, std_elapsed) = (start.elapsed(), std_start.elapsed());
    // The slope of the first moments is known to some ten ppm.
    assert!(elapsed <= std_elapsed.mul_f64(1.001), "{elapsed:?} inside {std_elapsed:?}");
    assert!(elapsed >= Duration::from_millis(49));

    let before = SystemTime::now();
    let reading = clock.read_ordered();
    let after = SystemTime::now();
    let error = reading.wall_error.within().unwrap();
    assert!(before <= reading.wall + error && reading.wall <= after + error);
}

#[test]
fn there_and_back() {
    let clock = Clock::system();
    let now = clock.now();
    for away in [0, 1, 1000, 1_000_000, 3_600_000_000_000].map(Duration::from_nanos) {
        // Other tests refine the rate meanwhile: in the first moments by some ten ppm.
        let tolerance = Duration::from_nanos(3) + away / 1000;
        let later = now + away;
        assert!((later - now).abs_diff(away) <= tolerance);
        assert!(
            (clock.at_monotonic(clock.monotonic(later)) - later).abs_diff(Duration::ZERO)
                <= tolerance
        );
        let tolerance = tolerance + 2 * clock.wall_error(later).within().unwrap();
        let wall = clock.at_wall(clock.wall(later));
        assert!((wall - later).max(later - wall) <= tolerance, "{away:?}");
    }
}

#[test]
fn a_recent_instant_is_not_ahead() {
    let clock = Clock::system();
    let _upkeep = Upkeep::start(Duration::from_millis(2)).unwrap();
    let first = clock.recent();
    assert!(first <= clock.now());
    while clock.recent() == first {
        thread::yield_now();
    }
    assert!(clock.recent() > first, "the thread refreshes it");
    let refused = Upkeep::start(Duration::from_micros(10)).unwrap_err();
    assert_eq!(refused.to_string(), "an upkeep every 10µs: it must be 1 ms at least");
}

#[test]
fn utc_is_unbounded_where_the_kernel_says_so() {
    // SAFETY: all zeroes asks for nothing to be changed; the kernel fills it in.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex)
    };
    let error = Clock::system().utc_error(Instant::now());
    if state == libc::TIME_ERROR || timex.status & libc::STA_UNSYNC != 0 {
        assert_eq!(error, ErrorBound::Unbounded);
    } else {
        let claimed = Duration::from_micros(timex.maxerror as u64);
        assert!(error.within().unwrap() + Duration::from_millis(1) > claimed, "{error}");
    }
}

/// A child is forked while other threads read and keep the clock: whatever they were doing, the
/// child's clock goes on.
#[test]
fn a_forked_child_has_a_clock() {
    let clock = Clock::system();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    clock.upkeep();
                }
            });
        }
        for _ in 0..50 {
            let before = clock.now_ordered();
            // SAFETY: the child only reads the clock and ends.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                let kept = (0..20).all(|_| {
                    clock.upkeep();
                    outside(&clock) == Duration::ZERO && clock.now_ordered() >= before
                });
                // SAFETY: the child ends here.
                unsafe { libc::_exit(i32::from(!kept)) };
            }
            let mut status = 0;
            // SAFETY: `child` is a child of this process, and nobody else waits for it.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child's clock went on from the parent's");
        }
    });
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

extern "C" fn read_in_handler(_: libc::c_int) {
    HANDLED.fetch_add(1, Relaxed);
    let clock = Clock::system();
    let before = clock.now_ordered();
    let reading = clock.reading(before);
    clock.upkeep();
    if clock.now_ordered() < before || reading.error.within().is_none() {
        WRONG.fetch_add(1, Relaxed);
    }
}

/// A signal handler reads the clock in the middle of readings and of upkeep.
#[test]
fn a_signal_handler_reads_the_clock() {
    let clock = Clock::system();
    // SAFETY: the handler only reads the clock, which is safe in one, and counts.
    unsafe {
        let handler = read_in_handler as extern "C" fn(libc::c_int);
        libc::signal(libc::SIGUSR2, handler as libc::sighandler_t);
    }
    // SAFETY: pthread_self has no conditions.
    let reader = unsafe { libc::pthread_self() } as usize;
    thread::scope(|scope| {
        scope.spawn(|| {
            // No more: a thread that gets signals faster than it handles them does nothing else.
            while HANDLED.load(Relaxed) < 1000 {
                // SAFETY: the thread outlives this one, which it waits for.
                unsafe { libc::pthread_kill(reader as libc::pthread_t, libc::SIGUSR2) };
                thread::yield_now();
            }
        });
        while HANDLED.load(Relaxed) < 1000 {
            clock.upkeep();
            let reading = clock.read();
            assert!(reading.error.within().is_some(), "{reading:?}, {}", clock.trust());
        }
    });
    assert_eq!(WRONG.load(Relaxed), 0);
}

#[test]
fn the_trust_follows_the_kernel() {
    let current = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = std::fs::read_to_string(current).unwrap_or_default();
    let trust = Clock::system().trust();
    let counter = if cfg!(target_arch = "x86_64") { "tsc" } else { "arch_sys_counter" };
    if name.trim() == counter {
        assert_eq!(trust, Trust::Counter);
        let frequency = Clock::system().frequency();
        assert!((1e6..1e10).contains(&frequency), "{frequency}");
    } else {
        assert!(matches!(trust, Trust::Kernel(_)), "{trust} with '{name}'");
    }
}

#[test]
fn confined_readings_go_on() {
    // In a process of its own: it cannot be taken back.
    // SAFETY: the child only reads the clock and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let clock = Clock::system();
        clock.confine();
        let kept = (0..200).all(|_| {
            spin(Duration::from_millis(1));
            outside(&clock) == Duration::ZERO
        });
        // SAFETY: the child ends here.
        unsafe { libc::_exit(i32::from(!kept)) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process, and nobody else waits for it.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}
