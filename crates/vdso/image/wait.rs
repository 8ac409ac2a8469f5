//! Waits: the time asked for is turned into host time, the call is made, and what
//! was left is turned back.

use eigentime_calls::nr::{EPOLL_PWAIT, EPOLL_PWAIT2, POLL, PPOLL, PSELECT6};
use eigentime_calls::{
    Base, Call, FUTEX_CLOCK_REALTIME, Form, FutexClock, FutexOp, Left, Nr, On, RING_ABS_TIMER,
    RING_EXT_ARG, RING_EXT_ARG_REG, Via, Wait, WokenBy,
};
use eigentime_timeline::{Clock, ClockId, HostInstant, Nanos, Timespec, VirtualInstant};

use crate::arch::{Args, arg, set_arg, waiting_syscall};
use crate::clocks::{host_monotonic, host_now, kernel, page, with_map};
use crate::layout::{Frame, NEVER_SECONDS, WAITING, Waiting};
use crate::memory::{load, store};
use crate::sets::Sets;

const EPERM: i64 = 1;
const EINTR: i64 = 4;
const EFAULT: i64 = 14;
const EINVAL: i64 = 22;
const ENOSYS: i64 = 38;

/// A time that never comes.
pub const NEVER: Timespec = Timespec { sec: NEVER_SECONDS, nsec: 0 };

/// Until when a wait goes on, in virtual time.
#[derive(Clone, Copy)]
struct Deadline {
    clock: Clock,
    at: VirtualInstant,
    /// Is the kernel to be told relative to now?
    relative: bool,
}

/// Until when the kernel lets a wait go on.
struct Due {
    /// What it is told.
    time: Timespec,
    /// When that is; never, if there is none.
    at: Option<HostInstant>,
}

impl Deadline {
    /// When a wait ends by the map as it is now, on the host's monotonic clock if that showed `now`:
    /// never, where the supervisor ends waits.
    #[inline(always)]
    fn due(&self, now: Option<HostInstant>) -> Due {
        let ends_by_host = self.ends_by_host();
        if page().holds_waits() && !ends_by_host && self.is_ahead() {
            return Due { time: NEVER, at: None };
        }
        let at = self.host_at();
        let time = match at {
            Some(then) if self.relative => {
                Timespec::from_nanos(then.since(now.unwrap_or_else(host_monotonic)))
            }
            Some(then) => Timespec::from_nanos(then.0),
            None if ends_by_host => self.host_span(),
            None => NEVER,
        };
        Due { time, at }
    }

    /// When it comes, on the host's clock, if it does.
    #[inline(never)]
    fn host_at(&self) -> Option<HostInstant> {
        with_map(|view| view.host_at(self.clock, self.at))
    }

    /// Does its clock stand still, and is the program to end all the same?
    #[inline(never)]
    fn ends_by_host(&self) -> bool {
        kernel().ends_waits != 0 && with_map(|view| view.rate_of(self.clock).is_frozen())
    }

    /// The host time to pass to the kernel if what is left of virtual time passes on the host.
    #[inline(never)]
    fn host_span(&self) -> Timespec {
        let now = host_now(self.clock);
        let left = self.at.since(with_map(|view| view.at(self.clock, now)));
        Timespec::from_nanos(if self.relative { left } else { now.after(left).0 })
    }

    /// Does its clock not show it yet?
    #[inline(never)]
    fn is_ahead(&self) -> bool {
        with_map(|view| view.at(self.clock, host_now(self.clock))) < self.at
    }

    /// Has the kernel ended a wait by a map that holds no more?
    #[inline(never)]
    fn was_missed(&self, due: &Due) -> bool {
        due.at.is_some_and(|at| host_now(self.clock) >= at) && self.is_ahead()
    }

    /// The virtual time that was left when the kernel ended the wait at `end`; the clocks may be
    /// further already, since a signal handler may have run. Where it did not know the deadline, the
    /// time that is left now.
    #[inline(never)]
    fn left(&self, end: Option<HostInstant>) -> Nanos {
        let end = end.unwrap_or_else(host_monotonic);
        let end = with_map(|view| view.showed(Clock::Monotonic, end, host_monotonic));
        self.at.since(end).max(Nanos::ZERO)
    }
}

/// Makes a wait in virtual time; `None` if there is no time to wait for, or none that the timeline
/// moves, or none that can be understood.
///
/// The steps are functions of their own, one after the other on the stack, which is
/// the program's and may be small.
#[inline(never)]
pub fn translate(call: &Call, wait: &Wait, frame: &Frame) -> Option<i64> {
    if wait.clears_sets && page().may_change() {
        return translate_with_sets(call, wait, frame);
    }
    translate_with(call, wait, frame, None)
}

/// The same for a call whose sets are needed again if the map changes meanwhile.
#[inline(never)]
fn translate_with_sets(call: &Call, wait: &Wait, frame: &Frame) -> Option<i64> {
    let mut sets = Sets::NONE;
    sets.keep(&frame.args);
    let result = translate_with(call, wait, frame, Some(&mut sets));
    sets.forget();
    result
}

#[inline(never)]
fn translate_with(
    call: &Call,
    wait: &Wait,
    frame: &Frame,
    mut sets: Option<&mut Sets>,
) -> Option<i64> {
    let args = &frame.args;
    // What the kernel would refuse goes to it as it is: it knows the right error
    // and the order in which to find faults.
    let (mut deadline, mut now) = deadline(wait, args)?;
    let mut waiting = Waiting {
        mark: WAITING,
        at: deadline.at.as_nanos(),
        clock: deadline.clock as u32,
        frame: core::ptr::from_ref(frame) as u64,
        ..Waiting::default()
    };
    loop {
        // Whoever sets the program's clocks anew may have moved it.
        deadline.at = VirtualInstant::from_nanos(read_again(&waiting.at));
        let mut due = deadline.due(now.take());
        waiting.host = [due.time.sec, due.time.nsec];
        // A thread that was woken because its time has come does not go to sleep again.
        let sleeps = call.woken_by == WokenBy::Nothing;
        let is_over = page().holds_waits() && sleeps && !deadline.is_ahead();
        let result = if is_over { 0 } else { make(call.nr, wait, args, &mut waiting) };
        // A change of the map may have come too late for a wait that was about to end.
        if wait.timed_out.is(result)
            && !is_over
            && deadline.was_missed(&due)
            && sets.as_mut().is_none_or(|sets| sets.restore(args))
        {
            continue;
        }
        if read_again(&waiting.again) != 0 {
            waiting.again = 0;
            // Nothing but the supervisor has ended it.
            if result == -EINVAL || wait.timed_out.is(result) {
                continue;
            }
            // The kernel has not told what was left.
            due.at = None;
        }
        // The whole milliseconds have passed.
        if result == 0 && waiting.nr == POLL.0 as u16 && deadline.is_ahead() {
            continue;
        }
        return Some(give_back(wait, args, &deadline, &due, waiting.host, result));
    }
}

/// A wait was interrupted before it began: all of its time is left.
#[inline(never)]
pub fn interrupted(wait: &Wait, args: &Args) -> i64 {
    let Left::Interrupted(left) = wait.left else { return -EINTR };
    let to = arg(args, left);
    if to == 0 || !base_and_clock(wait, args).is_some_and(|(relative, _)| relative) {
        return -EINTR;
    }
    match load::<2>(arg(args, wait.arg)).and_then(|asked| store(to, asked)) {
        Ok(()) => -EINTR,
        Err(_) => -EFAULT,
    }
}

/// Reads what others may have written since.
#[inline(always)]
fn read_again<T: Copy>(value: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::read_volatile(value) }
}

/// The deadline that the arguments ask for, and what the host's monotonic clock showed, if it was
/// read; `None` if there is none, or none that can be understood.
#[inline(never)]
fn deadline(wait: &Wait, args: &Args) -> Option<(Deadline, Option<HostInstant>)> {
    // Before anything is read: what takes no time may have anything where others have theirs.
    let (relative, clock) = base_and_clock(wait, args)?;
    if !page().moves(clock.id()) && !wait.always {
        return None;
    }
    let argument = arg(args, wait.arg);
    let asked = match wait.form {
        Form::Millis => match argument as i32 {
            ..=0 => return None,
            millis => Nanos::from_millis(i64::from(millis)),
        },
        Form::Timespec | Form::Timeval | Form::RingArgument if argument == 0 => return None,
        Form::Timespec => time_at(wait, load::<2>(argument).ok()?)?,
        Form::RingArgument => {
            let flags = args[3] as u32;
            if flags & RING_EXT_ARG == 0 || flags & RING_EXT_ARG_REG != 0 {
                return None;
            }
            let [_, _, pointer] = load::<3>(argument).ok()?;
            if pointer == 0 {
                return None;
            }
            time_at(wait, load::<2>(pointer).ok()?)?
        }
        Form::Timeval => {
            // As the kernel: microseconds beyond a second are carried over.
            let [sec, usec] = load::<2>(argument).ok()?.map(|word| word as i64);
            let sec = sec.wrapping_add(usec / 1_000_000);
            time_at(wait, [sec as u64, (usec % 1_000_000 * 1_000) as u64])?
        }
    };
    if !relative {
        let relative = wait.via == Via::RingRelative;
        return Some((Deadline { clock, at: VirtualInstant(asked), relative }, None));
    }
    let mut now = HostInstant(Nanos::ZERO);
    let virtual_now = with_map(|view| {
        now = host_monotonic();
        view.at(Clock::Monotonic, now)
    });
    Some((Deadline { clock, at: virtual_now.after(asked), relative }, Some(now)))
}

/// The total of a `timespec` that the kernel would accept, and not take for one that has passed or
/// never comes.
fn time_at(wait: &Wait, [sec, nsec]: [u64; 2]) -> Option<Nanos> {
    let time = Timespec { sec: sec as i64, nsec: nsec as i64 };
    let total = time.nanos();
    let is_accepted = if wait.takes_any_time { total >= Nanos::ZERO } else { time.is_valid() };
    is_accepted.then_some(total)
}

/// Is the time relative, and which clock is it on? Relative times are all kept on
/// the monotonic clock: every clock of a timeline has the same rate.
fn base_and_clock(wait: &Wait, args: &Args) -> Option<(bool, Clock)> {
    let futex = if wait.base == Base::Futex { FutexOp::of(args) } else { None };
    let relative = match wait.base {
        Base::Relative => true,
        Base::Absolute => false,
        Base::Flag { arg: flags, bits } => arg(args, flags) as u32 & bits == 0,
        Base::Futex => !futex?.absolute,
    };
    let clock = match wait.on {
        On::Monotonic => Clock::Monotonic,
        On::Realtime => Clock::Wall,
        On::Arg(id) => ClockId(arg(args, id) as i32).clock()?,
        On::Futex => match futex?.clock {
            FutexClock::Monotonic => Clock::Monotonic,
            FutexClock::Realtime => Clock::Wall,
            FutexClock::Flag if args[1] as u32 & FUTEX_CLOCK_REALTIME != 0 => Clock::Wall,
            FutexClock::Flag => Clock::Monotonic,
        },
    };
    Some((relative, if relative { Clock::Monotonic } else { clock }))
}

/// Makes the call with the host time of `waiting` in the place of the program's.
#[inline(never)]
fn make(nr: Nr, wait: &Wait, args: &Args, waiting: &mut Waiting) -> i64 {
    if wait.via == Via::RingRelative {
        return make_ring(nr, args, waiting);
    }
    if kernel().has_own_filter != 0 && wait.form != Form::Timespec {
        return make_as_asked(nr, wait, args, waiting);
    }
    let time = core::ptr::from_mut(waiting) as u64;
    let mut args = *args;
    set_arg(&mut args, wait.arg, time);
    if let Left::Interrupted(left) = wait.left {
        if arg(&args, left) != 0 {
            set_arg(&mut args, left, time);
        }
    }
    let nr = match wait.via {
        Via::Same | Via::RingRelative => nr,
        // It keeps its deadline when the process is stopped and continued; what is less than a
        // millisecond follows. A tracer sees to that.
        Via::Ppoll if kernel().is_untraced != 0 && whole_millis(waiting.host) > 1 => {
            args[2] = whole_millis(waiting.host) - 1;
            POLL
        }
        Via::Ppoll => {
            args[3] = 0;
            args[4] = 0;
            PPOLL
        }
        Via::Pselect6 => {
            args[5] = 0;
            PSELECT6
        }
        Via::EpollPwait2 => {
            if wait.mask.is_none() {
                args[4] = 0;
            }
            let result = waiting_syscall(EPOLL_PWAIT2, &args, waiting);
            // Before Linux 5.11, and under filters of container engines that are older.
            if result != -ENOSYS && result != -EPERM {
                return result;
            }
            set_arg(&mut args, wait.arg, millis(waiting.host));
            EPOLL_PWAIT
        }
    };
    waiting_syscall(nr, &args, waiting)
}

/// Makes the program's own call, in its own form: a filter that the program has may allow no other.
/// Rounds up, so that it does not end early.
#[inline(never)]
fn make_as_asked(nr: Nr, wait: &Wait, args: &Args, waiting: &mut Waiting) -> i64 {
    let mut args = *args;
    if wait.form == Form::Millis {
        set_arg(&mut args, wait.arg, millis(waiting.host));
        return waiting_syscall(nr, &args, waiting);
    }
    const MICRO: i64 = 1_000;
    // Seconds that are too many are for the kernel to cut.
    let [sec, nsec] = waiting.host;
    waiting.host = [sec, (nsec + MICRO - 1) / MICRO];
    set_arg(&mut args, wait.arg, waiting.host.as_mut_ptr() as u64);
    let result = waiting_syscall(nr, &args, waiting);
    waiting.host[1] *= MICRO;
    result
}

/// Makes `io_uring_enter` with a relative time in a structure of our own.
#[inline(never)]
fn make_ring(nr: Nr, args: &Args, waiting: &mut Waiting) -> i64 {
    let mut args = *args;
    let Ok([mask, sizes, _]) = load::<3>(args[4]) else { return -EFAULT };
    let argument = [mask, sizes, core::ptr::from_mut(waiting) as u64];
    args[3] &= !u64::from(RING_ABS_TIMER);
    args[4] = argument.as_ptr() as u64;
    waiting_syscall(nr, &args, waiting)
}

/// A time in milliseconds for a call that takes nothing finer, rounded up.
fn millis([sec, nsec]: [i64; 2]) -> u64 {
    millis_of(Timespec { sec, nsec }.nanos().0.saturating_add(999_999))
}

/// The same, rounded down.
fn whole_millis([sec, nsec]: [i64; 2]) -> u64 {
    millis_of(Timespec { sec, nsec }.nanos().0)
}

fn millis_of(nanos: i64) -> u64 {
    const MOST: i64 = i32::MAX as i64;
    (nanos / 1_000_000).clamp(0, MOST) as u64
}

/// Writes the virtual time that was left to where the kernel writes it.
#[inline(never)]
fn give_back(
    wait: &Wait,
    args: &Args,
    deadline: &Deadline,
    due: &Due,
    [sec, nsec]: [i64; 2],
    result: i64,
) -> i64 {
    let left = Timespec { sec, nsec };
    let is_refused = result < 0 && result != -EINTR && left == due.time;
    let was_interrupted = result == -EINTR || (result == 0 && left != due.time);
    let to = match wait.left {
        Left::Nowhere => return result,
        Left::WithResult if result <= 0 => return result,
        // Where the kernel refuses, it does so before it writes what is left.
        Left::InPlace if is_refused => return result,
        Left::InPlace | Left::WithResult => arg(args, wait.arg),
        // A stop of job control interrupts it too, and then the kernel goes on with it.
        Left::Interrupted(left) if deadline.relative && was_interrupted => arg(args, left),
        Left::Interrupted(_) => return result,
    };
    if to == 0 {
        return result;
    }
    let end = due.at.map(|at| at.after(left.nanos().negated()));
    let is_over = result == 0 && !matches!(wait.left, Left::Interrupted(_));
    let left = if is_over { Nanos::ZERO } else { deadline.left(end) };
    let left = Timespec::from_nanos(left);
    let part = match wait.form {
        Form::Timeval => left.nsec / 1_000,
        Form::Timespec | Form::Millis | Form::RingArgument => left.nsec,
    };
    match store(to, [left.sec as u64, part as u64]) {
        // select() with its timeout in read-only memory is allowed.
        Err(_) if wait.left != Left::InPlace => -EFAULT,
        _ => result,
    }
}
