//! The ticker's thread, alive: what is asserted are counts and order, never how long things took.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eigentime_clock::ticker::{
    Counter, Ended, Error, Event, EventHandle, Gone, MOST_EVENTS, SHORTEST, Tick, Ticker,
};
use eigentime_clock::{Clock, Instant};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn ticks() -> (impl FnMut(Tick) + Send + 'static, Receiver<Tick>) {
    let (sender, receiver): (Sender<Tick>, _) = channel();
    let callback = move |tick| {
        // Whoever has seen enough is gone.
        let _ = sender.send(tick);
    };
    (callback, receiver)
}

/// Waits for a number of deadlines of an event that has a counter.
fn passed(handle: &EventHandle, number: u64) -> u64 {
    handle.counter().expect("it has a counter").wait_past(number - 1).expect("it goes on")
}

#[test]
fn each_deadline_is_fired_or_missed_and_where_it_belongs() {
    let clock = Clock::system();
    let ticker = Ticker::start().unwrap();
    let start = Instant::now() + MILLISECOND;
    let period = Duration::from_micros(100);
    let (callback, seen) = ticks();
    let handle = ticker.add(Event::every(period).starting(start).callback(callback)).unwrap();
    let base = clock.monotonic(start);
    let (mut fired, mut missed) = (0, 0);
    for tick in seen.iter().take(500) {
        fired += 1;
        missed += tick.missed;
        assert_eq!(tick.event, handle.id());
        assert_eq!(fired + missed, tick.number + 1);
        assert!(tick.fired >= tick.due);
        let due = base + period * u32::try_from(tick.number).unwrap();
        // Two conversions, each rounded; and the clock is refined meanwhile, slowly.
        assert!(clock.monotonic(tick.due).abs_diff(due) < Duration::from_micros(10));
    }
    assert!(handle.fired() >= 500 && handle.missed() >= missed);
    assert!(handle.last_miss().is_some());
    assert_eq!(handle.ended(), None);
}

#[test]
fn an_eventfd_counts_what_was_fired_and_what_was_missed() {
    let ticker = Ticker::start().unwrap();
    let handle = ticker.add(Event::every(SHORTEST).new_eventfd()).unwrap();
    let descriptor = handle.eventfd().unwrap().try_clone_to_owned().unwrap();
    let mut sum = 0;
    while sum < 1_000 {
        sum += read(&descriptor);
    }
    let statistics = handle.statistics();
    drop(handle);
    assert_eq!(statistics.undelivered, 0);
    assert!(statistics.fired > 0);
    // What came since, up to the removal.
    let mut last = [0; 8];
    sum += rustix::io::read(&descriptor, &mut last).map_or(0, |_| u64::from_ne_bytes(last));
    assert!(sum >= statistics.fired + statistics.missed);
}

fn read(descriptor: &OwnedFd) -> u64 {
    poll(&mut [PollFd::new(descriptor, PollFlags::IN)], None).unwrap();
    let mut number = [0; 8];
    assert_eq!(rustix::io::read(descriptor, &mut number), Ok(8));
    u64::from_ne_bytes(number)
}

#[test]
fn an_eventfd_that_is_full_is_not_waited_for() {
    let ticker = Ticker::start().unwrap();
    let blocking = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    // There is room for one deadline, and not for those that were missed.
    rustix::io::write(&blocking, &(u64::MAX - 2).to_ne_bytes()).unwrap();
    let refused = ticker.add(Event::every(MILLISECOND).eventfd(blocking));
    assert!(matches!(refused, Err(Error::BlockingEventfd)));
    let full = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let handle = ticker.add(Event::every(MILLISECOND).eventfd(full)).unwrap();
    let other = ticker.add(Event::every(MILLISECOND)).unwrap();
    passed(&other, 5);
    while handle.statistics().undelivered == 0 {
        passed(&other, other.counter().unwrap().passed() + 1);
    }
    assert_eq!(handle.ended(), None);
}

#[test]
fn a_counter_is_one_events_and_tells_its_end() {
    let ticker = Ticker::start().unwrap();
    let counter = Arc::new(Counter::new());
    let event = || Event::every(SHORTEST).counter(Arc::clone(&counter));
    let handle = ticker.add(event()).unwrap();
    assert!(matches!(ticker.add(event()), Err(Error::CounterTaken)));
    let seen = counter.wait_past(1_000).unwrap();
    assert!(seen > 1_000 && counter.missed() < seen);
    drop(handle);
    let last = counter.passed();
    assert_eq!(counter.wait_past(last), Err(Gone::Ended));

    let stopped = ticker.add(Event::every(HOUR)).unwrap();
    let counter = Arc::clone(stopped.counter().unwrap());
    assert_eq!(counter.wait_past_for(0, MILLISECOND), Ok(None));
    let waiter = std::thread::spawn(move || counter.wait_past(0));
    drop(ticker);
    assert_eq!(waiter.join().unwrap(), Err(Gone::Ended));
    assert_eq!(stopped.ended(), Some(Ended::Stopped));
}

#[test]
fn only_one_event_is_shielded() {
    let ticker = Ticker::start().unwrap();
    let first = ticker.add(Event::every(MILLISECOND).shielded().named("pacing")).unwrap();
    let refused = ticker.add(Event::every(MILLISECOND).shielded()).unwrap_err();
    assert!(refused.to_string().starts_with("event 1 (\"pacing\") is shielded"), "{refused}");
    let other = ticker.add(Event::every(SHORTEST)).unwrap();
    passed(&first, 10);
    passed(&other, 10);
    drop(first);
    let next = ticker.add(Event::once(Instant::now() + MILLISECOND).shielded()).unwrap();
    passed(&next, 1);
    while next.ended().is_none() {
        passed(&other, other.counter().unwrap().passed() + 1);
    }
    assert_eq!(next.ended(), Some(Ended::Done));
    let _last = ticker.add(Event::every(MILLISECOND).shielded()).unwrap();
}

#[test]
fn a_shielded_event_that_takes_all_the_time_is_named_and_starves_nobody() {
    let ticker = Ticker::start().unwrap();
    let other = ticker.add(Event::every(5 * MILLISECOND)).unwrap();
    let greedy = Event::every(MILLISECOND).shielded().callback(|tick| {
        while tick.fired.elapsed() < 3 * MILLISECOND / 2 {
            std::hint::spin_loop();
        }
    });
    let greedy = ticker.add(greedy).unwrap();
    while greedy.fired() == 0 {
        std::thread::yield_now();
    }
    let before = other.fired();
    while other.fired() < before + 3 {
        passed(&other, other.counter().unwrap().passed() + 1);
    }
    let seen = other.statistics();
    assert_eq!(seen.delayed_by, Some(greedy.id()));
    assert!(seen.withheld > 0 && seen.missed > 0);
    assert_eq!(ticker.statistics().culprit().map(|worst| worst.event), Some(greedy.id()));
}

#[test]
fn what_is_over_comes_at_once_and_what_is_far_does_not_hold_up_the_end() {
    let ticker = Ticker::start().unwrap();
    let (callback, seen) = ticks();
    let past = Instant::now();
    let far = ticker.add(Event::once(past + HOUR)).unwrap();
    let once = ticker.add(Event::once(past).callback(callback)).unwrap();
    let tick = seen.recv().unwrap();
    assert_eq!((tick.number, tick.missed), (0, 0));
    assert!(tick.fired > past);
    drop(ticker);
    assert_eq!(once.ended(), Some(Ended::Done));
    assert_eq!((far.ended(), far.fired()), (Some(Ended::Stopped), 0));
    assert!(seen.try_recv().is_err());
}

#[test]
fn a_panic_ends_one_event() {
    let ticker = Ticker::start().unwrap();
    let bad = ticker.add(Event::every(MILLISECOND).callback(|_| panic!("on purpose"))).unwrap();
    let good = ticker.add(Event::every(MILLISECOND)).unwrap();
    while bad.ended().is_none() {
        passed(&good, good.counter().unwrap().passed() + 1);
    }
    assert_eq!(bad.ended(), Some(Ended::Panicked));
    assert_eq!(bad.fired(), 1);
    passed(&good, good.counter().unwrap().passed() + 10);
    assert!(ticker.statistics().to_string().contains("its callback has panicked"));
}

#[test]
fn a_callback_can_drop_its_own_handle_and_add_events() {
    let ticker = Ticker::start().unwrap();
    let (adder, own) = (ticker.adder(), Arc::new(Mutex::new(None::<EventHandle>)));
    let (slot, (sender, receiver)) = (Arc::clone(&own), channel());
    let first = Event::once(Instant::now() + MILLISECOND).callback(move |_| {
        let added = adder.add(Event::every(MILLISECOND)).unwrap();
        drop(slot.lock().unwrap().take());
        sender.send(added).unwrap();
    });
    *own.lock().unwrap() = Some(ticker.add(first).unwrap());
    let added = receiver.recv().unwrap();
    passed(&added, 3);
    assert!(own.lock().unwrap().is_none());
}

#[test]
fn a_callback_can_drop_the_ticker() {
    let ticker = Arc::new(Mutex::new(Some(Ticker::start().unwrap())));
    let theirs = Arc::clone(&ticker);
    let event = Event::every(MILLISECOND).callback(move |_| drop(theirs.lock().unwrap().take()));
    let guard = ticker.lock().unwrap();
    let handle = guard.as_ref().unwrap().add(event).unwrap();
    let other = guard.as_ref().unwrap().add(Event::every(HOUR)).unwrap();
    let adder = guard.as_ref().unwrap().adder();
    drop(guard);
    assert_eq!(other.counter().unwrap().wait_past(0), Err(Gone::Ended));
    assert_eq!(handle.fired(), 1);
    while other.ended().is_none() {
        std::thread::yield_now();
    }
    assert!(matches!(adder.add(Event::every(HOUR)), Err(Error::Stopped)));
}

#[test]
fn what_callbacks_own_goes_with_a_ticker_that_one_of_them_drops() {
    let ticker = Arc::new(Mutex::new(Some(Ticker::start().unwrap())));
    let guard = ticker.lock().unwrap();
    let adder = guard.as_ref().unwrap().adder();
    let (theirs, (sender, gone)) = (Arc::clone(&ticker), channel::<()>());
    let owned = (adder.clone(), sender);
    let callback = move |_| {
        let _owned = &owned;
        drop(theirs.lock().unwrap().take());
    };
    guard.as_ref().unwrap().add(Event::every(MILLISECOND).callback(callback)).unwrap().keep();
    drop(guard);
    assert_eq!(gone.recv_timeout(HOUR / 60), Err(RecvTimeoutError::Disconnected));
    // Too late, and gone at once.
    let (sender, gone) = channel::<()>();
    let owned = (adder.clone(), sender);
    let late = Event::once(Instant::now()).callback(move |_| {
        let _owned = &owned;
    });
    assert!(matches!(adder.add(late), Err(Error::Stopped)));
    assert_eq!(gone.try_recv(), Err(TryRecvError::Disconnected));
}

#[test]
fn what_panics_when_it_is_dropped_ends_no_other_event() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let ticker = Ticker::start().unwrap();
    let own = Arc::new(Mutex::new(None::<EventHandle>));
    let (slot, bad) = (Arc::clone(&own), Bad);
    let event = Event::every(MILLISECOND).callback(move |_| {
        let _owned = &bad;
        drop(slot.lock().unwrap().take());
    });
    let mut guard = own.lock().unwrap();
    *guard = Some(ticker.add(event).unwrap());
    drop(guard);
    let other = ticker.add(Event::every(MILLISECOND)).unwrap();
    while own.lock().unwrap().is_some() {
        passed(&other, other.counter().unwrap().passed() + 1);
    }
    passed(&other, other.counter().unwrap().passed() + 10);
    assert_eq!(other.ended(), None);
}

#[test]
fn no_callback_runs_after_its_handle_is_dropped() {
    let ticker = Ticker::start().unwrap();
    for _ in 0..200 {
        let (running, gone) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (theirs, dropped) = (Arc::clone(&running), Arc::clone(&gone));
        let (sender, started) = channel();
        let handle = ticker.add(Event::every(SHORTEST).callback(move |_| {
            assert!(!dropped.load(SeqCst), "it was called after its handle was dropped");
            theirs.store(true, SeqCst);
            let _ = sender.send(());
            std::thread::yield_now();
            theirs.store(false, SeqCst);
        }));
        let handle = handle.unwrap();
        started.recv().unwrap();
        drop(handle);
        assert!(!running.load(SeqCst), "it is still running");
        gone.store(true, SeqCst);
        assert_eq!(Arc::strong_count(&gone), 1, "what it owned is dropped with the handle");
    }
    assert!(ticker.statistics().events.is_empty());
}

#[test]
fn an_event_can_be_kept_without_a_handle() {
    let ticker = Ticker::start().unwrap();
    let (callback, seen) = ticks();
    ticker.add(Event::every(MILLISECOND).callback(callback)).unwrap().keep();
    assert_eq!(seen.iter().take(3).count(), 3);
    drop(ticker);
    assert!(seen.iter().count() < usize::MAX, "the callback is dropped with the ticker");
}

#[test]
fn whoever_delays_others_is_named() {
    let ticker = Ticker::start().unwrap();
    let long = Event::every(5 * MILLISECOND).named("long").callback(|tick| {
        while tick.fired.elapsed() < 2 * MILLISECOND {
            std::hint::spin_loop();
        }
    });
    let long = ticker.add(long).unwrap();
    let short = ticker.add(Event::every(Duration::from_micros(100))).unwrap();
    // On a busy machine it can be the other's own delivery for once.
    while long.fired() < 5 || short.statistics().delayed_by != Some(long.id()) {
        passed(&short, short.counter().unwrap().passed() + 1);
    }
    assert!(long.statistics().delayed_others > 0);
    assert!(ticker.statistics().culprit().is_some());
    assert!(long.statistics().longest_delivery >= 2 * MILLISECOND);
    assert!(short.missed() > 0);
}

#[test]
fn many_users_share_one() {
    const USERS: u64 = 8;
    let ticker = Ticker::start().unwrap();
    let sum = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for user in 0..USERS {
            let (ticker, sum) = (&ticker, &sum);
            scope.spawn(move || {
                for round in 0..20 {
                    let period = Duration::from_micros(50 + 13 * user + round);
                    let handle = ticker.add(Event::every(period)).unwrap();
                    sum.fetch_add(u64::from(passed(&handle, 10) >= 10), SeqCst);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), USERS * 20);
}

#[test]
fn there_is_room_for_as_many_as_it_was_made_for() {
    let ticker = Ticker::builder().capacity(2).start().unwrap();
    let first = ticker.add(Event::every(MILLISECOND)).unwrap();
    let second = ticker.add(Event::every(HOUR)).unwrap();
    assert!(matches!(ticker.add(Event::every(HOUR)), Err(Error::Full(2))));
    drop(second);
    let third = loop {
        // There is room again when the thread has seen that one is gone.
        match ticker.add(Event::every(MILLISECOND)) {
            Ok(handle) => break handle,
            Err(Error::Full(2)) => {}
            Err(error) => panic!("{error}"),
        }
        passed(&first, first.counter().unwrap().passed() + 1);
    };
    passed(&third, 2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let ticker = Ticker::start().unwrap();
    let short = ticker.add(Event::every(Duration::from_nanos(9_999))).unwrap_err();
    assert_eq!(short.to_string(), "a period of 9.999µs: the shortest is 10µs");
    let file = std::fs::File::open("/dev/null").unwrap();
    let file = ticker.add(Event::every(HOUR).eventfd(file.into())).unwrap_err();
    assert!(file.to_string().starts_with("/dev/null: only to an eventfd"), "{file}");
    for asked in [MOST_EVENTS + 1, 1 << 63, usize::MAX] {
        let refused = Ticker::builder().capacity(asked).start();
        assert!(matches!(refused, Err(Error::Capacity { most: MOST_EVENTS, .. })));
    }
    drop(Ticker::builder().capacity(MOST_EVENTS).start().unwrap());
    let (mock, _) = Clock::mock();
    let other = ticker.add(Event::once(mock.now()));
    assert!(matches!(other, Err(Error::OtherClock)));
    assert!(matches!(Ticker::builder().realtime(0).start(), Err(Error::Impossible(_))));
    assert!(matches!(Ticker::builder().realtime(100).start(), Err(Error::Impossible(_))));
}

#[test]
fn a_period_of_centuries_is_one() {
    let ticker = Ticker::start().unwrap();
    let far = ticker.add(Event::every(Duration::MAX)).unwrap();
    let near = ticker.add(Event::every(MILLISECOND)).unwrap();
    passed(&near, 3);
    assert_eq!((far.fired(), far.missed()), (0, 0));
}

#[test]
fn a_leap_by_days_is_one_tick() {
    let (clock, mock) = Clock::mock();
    let ticker = Ticker::builder().clock(clock.clone()).start().unwrap();
    let (callback, seen) = ticks();
    let handle = ticker.add(Event::every(SHORTEST).callback(callback)).unwrap();
    mock.advance(SHORTEST);
    let first = seen.recv().unwrap();
    assert_eq!((first.number, first.missed), (0, 0));
    mock.advance(300 * DAY);
    let leap = seen.recv().unwrap();
    assert_eq!(leap.number, 300 * 86_400 * 100_000);
    assert_eq!(leap.missed, leap.number - 1);
    assert_eq!(leap.fired, leap.due);
    assert_eq!(handle.fired() + handle.missed(), leap.number + 1);
    mock.advance(SHORTEST);
    assert_eq!(seen.recv().unwrap().missed, 0);
}

#[test]
fn a_clock_that_stands_delivers_nothing_and_stops_nobody() {
    let (clock, mock) = Clock::mock();
    let ticker = Ticker::builder().clock(clock.clone()).start().unwrap();
    let now = clock.now();
    let due = ticker.add(Event::once(now + HOUR)).unwrap();
    let at_once = ticker.add(Event::once(now)).unwrap();
    passed(&at_once, 1);
    assert_eq!(due.fired(), 0);
    mock.advance(HOUR);
    passed(&due, 1);
    drop(ticker);
}

#[test]
fn a_fork_has_no_ticker_and_says_so() {
    let ticker = Ticker::start().unwrap();
    let handle = ticker.add(Event::every(MILLISECOND)).unwrap();
    let counter = Arc::clone(handle.counter().unwrap());
    passed(&handle, 1);
    // SAFETY: the child uses what the library promises to be usable, and leaves without
    // unwinding or running exit handlers.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: it ends the child if it hangs.
            unsafe { libc::alarm(60) };
            let as_promised = matches!(ticker.add(Event::every(HOUR)), Err(Error::Forked))
                && handle.ended() == Some(Ended::Forked)
                && counter.wait_past(u64::MAX - 1) == Err(Gone::Forked)
                && ticker.statistics().events.is_empty();
            drop(handle);
            drop(ticker);
            // SAFETY: the child ends.
            unsafe { libc::_exit(i32::from(!as_promised)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is written to a number that is there.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child's status");
        }
    }
    passed(&handle, counter.passed() + 1);
}

/// Runs it in a forked child, which is ended if it hangs, and says whether it was so.
fn in_a_child(is_so: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing that another thread of the tests could have locked but
    // glibc's allocator, which glibc sees to; and it leaves without running exit handlers.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            libc::_exit(i32::from(!is_so()));
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0) == child && status == 0
    }
}

/// Waits until the ticker's thread sleeps, in a process that has one ticker.
fn wait_until_asleep() {
    let is_asleep = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.contains("(eigentime-tick) S")
    };
    while !std::fs::read_dir("/proc/self/task").unwrap().flatten().any(is_asleep) {
        std::thread::yield_now();
    }
}

/// Closes all descriptors but the standard ones. Others take their places, since the standard
/// library aborts when it finds its own closed (in debug builds): a pipe from which nothing comes.
fn close_descriptors() {
    let (quiet, open) = std::io::pipe().unwrap();
    let listed = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let numbers: Vec<i32> =
        listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let kept = [quiet.as_raw_fd(), open.as_raw_fd()];
    for number in numbers.into_iter().filter(|number| *number > 2 && !kept.contains(number)) {
        // SAFETY: the child goes on without all that its descriptors were for.
        unsafe { libc::dup2(quiet.as_raw_fd(), number) };
    }
    std::mem::forget(open);
}

#[test]
fn a_ticker_whose_descriptors_are_closed_hears_all_the_same() {
    for waits_for_a_deadline in [false, true] {
        assert!(in_a_child(|| {
            let ticker = Ticker::start().unwrap();
            let _far = waits_for_a_deadline.then(|| ticker.add(Event::every(HOUR)).unwrap());
            passed(&ticker.add(Event::once(Instant::now())).unwrap(), 1);
            wait_until_asleep();
            close_descriptors();
            passed(&ticker.add(Event::every(MILLISECOND)).unwrap(), 3);
            drop(ticker);
            true
        }));
    }
}

#[test]
fn what_is_not_granted_is_said() {
    let ticker = Ticker::builder().pin(usize::MAX).start().unwrap();
    let said: Vec<_> = ticker.degradation().iter().map(ToString::to_string).collect();
    assert!(matches!(&said[..], [one] if one.starts_with("no processor ")), "{said:?}");
    let event = ticker.add(Event::every(MILLISECOND)).unwrap();
    passed(&event, 1);
    assert!(event.eventfd().is_none());
}
