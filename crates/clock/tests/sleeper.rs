//! What a sleeper does to the thread, the process and the signals around it.

#[macro_use]
extern crate eigentime_harness;

mod done;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use done::Done;
use eigentime_clock::sleeper::{
    Builder, Error, Guard, KernelWait, KernelWaiter, Nanosleep, Policy, Request, Sleeper, Woken,
    wait_until, wait_until_monotonic,
};
use eigentime_clock::{Clock, Instant};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, setrlimit, waitpid};
use rustix::thread::{current_timer_slack, sched_getaffinity};

const MILLISECOND: Duration = Duration::from_millis(1);
/// Longer than a handler takes: a thread that has the next signal when it returns does nothing else.
const BETWEEN_SIGNALS: Duration = Duration::from_micros(100);
const BOTH: [KernelWait; 2] = [KernelWait::Timerfd, KernelWait::Nanosleep];

fn with(kernel_wait: KernelWait) -> Sleeper {
    Sleeper::builder().kernel_wait(kernel_wait).build().unwrap()
}

/// Runs it in a forked child, and says whether it was so. The child ends by `_exit`.
fn in_a_child(is_so: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing that another thread of the tests could have locked but
    // glibc's allocator, which glibc sees to.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = i32::from(!is_so());
        // SAFETY: it ends the child at once, without what the parent has registered.
        unsafe { libc::_exit(status) };
    }
    let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap().unwrap();
    status.exit_status() == Some(0)
}

#[test]
fn it_is_never_early_and_says_how_late() {
    for kernel_wait in BOTH {
        let mut sleeper = with(kernel_wait);
        for micros in [0, 1, 10, 100, 1_000, 5_000] {
            let target = Instant::now() + Duration::from_micros(micros);
            let slept = sleeper.sleep_until(target);
            assert!(slept.target == target && slept.woke >= target);
            // The rate may be refined meanwhile.
            let miss = slept.woke - target;
            assert!(slept.miss.abs_diff(miss) <= miss / 1000, "{slept:?}, now {miss:?}");
            assert!(slept.spun <= Duration::from_micros(micros) + slept.miss);
            assert!(slept.guard <= Policy::default().max_guard);
            assert!(Instant::now() >= target);
        }
        let statistics = sleeper.statistics();
        assert_eq!((statistics.sleeps, statistics.interrupted), (6, 0));
        assert!(statistics.cpu() <= 1.0 && statistics.slept >= 6 * MILLISECOND);
    }
}

/// CLOCK_MONOTONIC by a system call, which nothing in the process can be in front of.
fn kernel_now() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes into `now`, which outlives the call.
    let answer =
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(answer, 0);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Relative ones, those until an instant that is so far away, and those until a time: of the kernel's
/// clock, and of the clock as it is published, too.
#[test]
fn none_ends_before_the_kernel_s_clock_says_so() {
    const ROUNDS: u32 = 16_667;
    let (clock, policy, mut guard) = (Clock::system(), Policy::new(), Guard::new());
    let mut sleepers = BOTH.map(with);
    for round in 0..ROUNDS {
        let length = Duration::from_micros(10 + u64::from(round % 7));
        for sleeper in &mut sleepers {
            let begin = kernel_now();
            sleeper.sleep_for(length);
            let relative = kernel_now();
            assert!(relative >= begin + length, "early by {:?}", begin + length - relative);
            let begin = kernel_now();
            sleeper.sleep_until(Instant::now() + length);
            let absolute = kernel_now();
            assert!(absolute >= begin + length, "early by {:?}", begin + length - absolute);
            let deadline = kernel_now() + length;
            sleeper.sleep_until(clock.at_monotonic(deadline));
            let timed = kernel_now();
            assert!(timed >= deadline, "early by {:?}", deadline - timed);
        }
        let deadline = kernel_now() + length;
        wait_until_monotonic(&mut guard, &policy, &clock, deadline, &mut Nanosleep, false).unwrap();
        let (published, kernel) = (clock.monotonic(Instant::now_ordered()), kernel_now());
        assert!(published >= deadline, "early by {:?}, as published", deadline - published);
        assert!(kernel >= deadline, "early by {:?}", deadline - kernel);
    }
}

#[test]
fn a_target_long_past_returns_at_once() {
    let mut sleeper = Sleeper::new();
    let target = Instant::from_ticks(1);
    let slept = sleeper.sleep_until(target);
    assert!(slept.kernel_miss.is_none() && slept.spun.is_zero());
    assert_eq!(sleeper.statistics().asked_late, 1);
    assert!(sleeper.statistics().worst.is_zero() && sleeper.statistics().slept.is_zero());
    assert!(sleeper.sleep_until_interruptible(target).is_ok());
}

#[test]
fn a_mock_is_moved_and_no_time_passes() {
    let (clock, mock) = Clock::mock();
    let mut sleeper = Sleeper::builder().clock(clock.clone()).build().unwrap();
    let begin = clock.now();
    let slept = sleeper.sleep_for(Duration::from_secs(1_000_000));
    assert_eq!(clock.now() - begin, Duration::from_secs(1_000_000));
    assert!(slept.miss.is_zero() && slept.woke == slept.target);
    mock.advance(MILLISECOND);
    let late = sleeper.sleep_until(slept.target);
    assert!(late.miss == MILLISECOND && late.woke == clock.now());
    assert_eq!(clock.now() - begin, Duration::from_secs(1_000_000) + MILLISECOND);
    sleeper.sleep_for(Duration::MAX);
}

#[test]
fn what_is_impossible_is_refused() {
    let of = |policy| Sleeper::builder().policy(policy).build().err();
    let policy = Policy::default();
    for priority in [0, 100, 255] {
        let refused = Sleeper::builder().realtime(priority).build().err();
        assert_eq!(refused, Some(Error::Priority(priority)));
    }
    assert_eq!(of(Policy { quantile: 1.5, ..policy }), Some(Error::Quantile(1.5)));
    assert!(matches!(of(Policy { quantile: f64::NAN, ..policy }), Some(Error::Quantile(_))));
    let refused = of(Policy { cpu: -0.1, ..policy }).unwrap();
    assert_eq!(
        refused.to_string(),
        "a budget of -0.1 CPUs: a share of one is between 0 and 1, such as 0.016"
    );
    assert_eq!(of(Policy { quantile: 0.0, cpu: 1.0, max_guard: Duration::ZERO }), None);
    assert_eq!(of(Policy { quantile: 1.0, cpu: 0.0, max_guard: Duration::MAX }), None);
}

/// The policy, its priority and the processors of the calling thread.
fn scheduling() -> (i32, i32, rustix::thread::CpuSet) {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the second call writes to `parameters`, which outlives it.
    let policy = unsafe {
        libc::sched_getparam(0, &raw mut parameters);
        libc::sched_getscheduler(0)
    };
    (policy, parameters.sched_priority, sched_getaffinity(None).unwrap())
}

fn asking_for_all(cpu: usize) -> Builder {
    Sleeper::builder().realtime(10).hold_latency().pin(cpu)
}

#[test]
fn what_was_granted_is_given_back() {
    let before = scheduling();
    let cpu = (0..).find(|cpu| before.2.is_set(*cpu)).unwrap();
    let mut sleeper = asking_for_all(cpu).build().unwrap();
    let is_granted = |what| sleeper.degradation().iter().all(|lost| lost.what != what);
    let now = scheduling();
    assert!(now.2.is_set(cpu) && now.2.count() == 1, "pinning is always allowed");
    let mut missing = Vec::new();
    if is_granted(Request::Realtime(10)) {
        assert_eq!((now.0 & !libc::SCHED_RESET_ON_FORK, now.1), (libc::SCHED_FIFO, 10));
    } else {
        missing.push("CAP_SYS_NICE, to give back a priority".to_owned());
    }
    if !is_granted(Request::HoldLatency) {
        missing.push("/dev/cpu_dma_latency, to give back the hold of idle states".to_owned());
    }
    sleeper.sleep_for(MILLISECOND);
    thread::spawn(move || drop(sleeper)).join().unwrap();
    assert_eq!(scheduling(), before);
    eigentime_harness::skip_if_any(&missing);
}

#[test]
fn what_was_not_granted_is_said() {
    const NOBODY: u32 = 65_534;
    const NONE: Rlimit = Rlimit { current: Some(0), maximum: Some(0) };
    assert!(in_a_child(|| {
        // SAFETY: the child has one thread, and all it changes is its own user.
        let is_nobody = unsafe { libc::geteuid() != 0 || libc::setuid(NOBODY) == 0 };
        let limited = setrlimit(Resource::Rtprio, NONE).is_ok();
        let before = scheduling();
        let mut sleeper = asking_for_all(1_000_000).build().unwrap();
        let lost: Vec<_> = sleeper.degradation().iter().map(|lost| lost.what).collect();
        let texts: Vec<_> = sleeper.degradation().iter().map(ToString::to_string).collect();
        eprintln!("{}", texts.join("\n"));
        let slept = sleeper.sleep_for(MILLISECOND);
        is_nobody
            && limited
            && lost == [Request::Pin(1_000_000), Request::HoldLatency, Request::Realtime(10)]
            && texts[2].contains("CAP_SYS_NICE")
            && slept.woke >= slept.target
            && scheduling() == before
    }));
}

#[test]
fn without_descriptors_it_sleeps_all_the_same() {
    assert!(in_a_child(|| {
        // Standard input, output and error are open.
        let none = Rlimit { current: Some(3), maximum: Some(3) };
        let mut early = Sleeper::new();
        let limited = setrlimit(Resource::Nofile, none).is_ok();
        let mut late = Sleeper::new();
        let slept = [&mut late, &mut early].map(|sleeper| sleeper.sleep_for(MILLISECOND));
        let lost = late.degradation();
        limited
            && slept.iter().all(|slept| slept.woke >= slept.target)
            && early.degradation().is_empty()
            && lost.len() == 1
            && lost[0].what == Request::Timerfd
            && lost[0].why.contains("RLIMIT_NOFILE")
    }));
}

#[test]
fn a_forked_child_sleeps_with_its_copy() {
    for kernel_wait in BOTH {
        let mut sleeper = with(kernel_wait);
        sleeper.sleep_for(MILLISECOND);
        assert!(in_a_child(|| {
            let slept = sleeper.sleep_for(MILLISECOND);
            let is_late_enough = slept.woke >= slept.target;
            drop(sleeper);
            is_late_enough
        }));
    }
}

#[test]
fn a_child_that_has_closed_all_descriptors_sleeps_on() {
    let mut sleeper = Sleeper::new();
    assert!(in_a_child(|| {
        // SAFETY: the child goes on without all that its descriptors were for.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) } == 0;
        let slept = sleeper.sleep_for(MILLISECOND);
        closed && slept.woke >= slept.target && sleeper.degradation().is_empty()
    }));
}

static HANDLED: AtomicU32 = AtomicU32::new(0);
/// The least that a handler has seen.
static SLACK: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_: i32) {
    SLACK.fetch_min(current_timer_slack().unwrap_or(0), SeqCst);
    HANDLED.fetch_add(1, SeqCst);
}

/// Sends signals to the calling thread as long as this runs, and returns with what it did the
/// least timer slack that a handler saw. The handler restarts what can be.
fn under_signals<T>(run: impl FnOnce() -> T) -> (T, u64) {
    /// One test at a time: the handler is the process's.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: the handler makes a system call and stores to atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    HANDLED.store(0, SeqCst);
    SLACK.store(u64::MAX, SeqCst);
    // SAFETY: it only asks who is calling.
    let sleeping = unsafe { libc::pthread_self() };
    let done = AtomicBool::new(false);
    let ran = thread::scope(|scope| {
        // Also if what runs fails: the scope would wait for ever.
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(SeqCst) {
                // SAFETY: the thread outlives this scope.
                unsafe { libc::pthread_kill(sleeping, libc::SIGUSR1) };
                thread::sleep(BETWEEN_SIGNALS);
            }
        });
        run()
    });
    // While it is still this test's turn.
    (ran, SLACK.load(SeqCst))
}

#[test]
fn a_signal_ends_only_what_is_to_be_ended() {
    for kernel_wait in BOTH {
        let mut sleeper = with(kernel_wait);
        let target = Instant::now() + Duration::from_secs(3_600);
        let (ended, _) = under_signals(|| sleeper.sleep_until_interruptible(target));
        let remaining = ended.unwrap_err().remaining;
        // In the first moments the rate is known to some ten ppm, of an hour a tenth of a second.
        assert!(remaining > Duration::from_secs(3_000) && remaining < Duration::from_secs(3_610));
        assert_eq!(sleeper.statistics().interrupted, 1);
        under_signals(|| {
            // On a busy machine the first sleep may be over before the first signal is sent.
            while HANDLED.load(SeqCst) == 0 {
                let slept = sleeper.sleep_for(20 * MILLISECOND);
                assert!(slept.woke >= slept.target);
            }
        });
    }
}

#[test]
fn the_timer_slack_is_the_program_s() {
    let slack = std::num::NonZeroU64::new(70_001);
    rustix::thread::set_current_timer_slack(slack).unwrap();
    for (kernel_wait, meanwhile) in [(KernelWait::Timerfd, 70_001), (KernelWait::Nanosleep, 1)] {
        let mut sleeper = with(kernel_wait);
        let target = Instant::now() + Duration::from_secs(3_600);
        let (ended, least) = under_signals(|| sleeper.sleep_until_interruptible(target));
        assert!(ended.is_err());
        // A handler that ended it has run in the kernel's part; others may have run around it.
        assert_eq!(least, meanwhile, "{kernel_wait:?}");
        assert_eq!(current_timer_slack().unwrap(), 70_001);
        sleeper.sleep_for(2 * MILLISECOND);
        assert_eq!(current_timer_slack().unwrap(), 70_001);
    }
}

#[test]
fn it_can_be_built_in_one_thread_and_used_in_another() {
    let mut sleeper = Sleeper::new();
    let slept = thread::spawn(move || sleeper.sleep_for(MILLISECOND)).join().unwrap();
    assert!(slept.woke >= slept.target);
}

thread_local! {
    static GUARD: std::cell::RefCell<Guard> = const { std::cell::RefCell::new(Guard::new()) };
}

/// As a preload library does it.
#[test]
fn a_guard_in_thread_local_storage_is_enough() {
    struct Raw;
    impl KernelWaiter for Raw {
        fn wait(&mut self, until: Duration) -> Woken {
            let until = libc::timespec {
                tv_sec: until.as_secs() as i64,
                tv_nsec: until.subsec_nanos().into(),
            };
            // SAFETY: the kernel reads `until`, which outlives the call.
            let waited = unsafe {
                libc::syscall(
                    libc::SYS_clock_nanosleep,
                    libc::CLOCK_MONOTONIC,
                    libc::TIMER_ABSTIME,
                    &raw const until,
                    std::ptr::null_mut::<libc::timespec>(),
                )
            };
            if waited == 0 { Woken::Due } else { Woken::BySignal }
        }
    }
    let target = Instant::now() + MILLISECOND;
    let slept = GUARD.with_borrow_mut(|guard| {
        wait_until(guard, &Policy::new(), &Clock::system(), target, &mut Raw, true)
    });
    assert!(slept.unwrap().woke >= target);
}

fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
