//! Waits: the requested time is converted to host time, the call is made, and the remaining time is
//! converted back.

use eigentime_calls::nr::{EPOLL_PWAIT, EPOLL_PWAIT2, POLL, PPOLL, PSELECT6};
use eigentime_calls::{
    Call, Form, Left, Nr, RING_ABS_TIMER, RING_EXT_ARG_REG, Time, Via, Wait, WokenBy, argument,
};
use eigentime_timeline::{Clock, HostInstant, Nanos, Timespec, VirtualInstant};

use crate::arch::{Args, set_arg, waiting_syscall};
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

/// The virtual time at which a wait ends.
#[derive(Clone, Copy)]
struct Deadline {
    clock: Clock,
    at: VirtualInstant,
    /// Whether the kernel takes it relative to now.
    relative: bool,
}

/// The time at which the kernel ends a wait.
struct Due {
    /// The time passed to the kernel.
    time: Timespec,
    /// The host instant of its end; `None` if it never ends.
    at: Option<HostInstant>,
}

impl Deadline {
    /// When a wait ends under the current map, given the reading `now` of the host's monotonic
    /// clock; never, if the supervisor ends waits.
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

    /// The host instant of the deadline, if it is ever reached.
    #[inline(never)]
    fn host_at(&self) -> Option<HostInstant> {
        with_map(|view| view.host_at(self.clock, self.at))
    }

    /// Whether its clock is frozen and the program should end nevertheless.
    #[inline(never)]
    fn ends_by_host(&self) -> bool {
        kernel().ends_waits != 0 && with_map(|view| view.rate_of(self.clock).is_frozen())
    }

    /// The host time to pass to the kernel if the remaining virtual time elapses on the host.
    #[inline(never)]
    fn host_span(&self) -> Timespec {
        let now = host_now(self.clock);
        let left = self.at.since(with_map(|view| view.at(self.clock, now)));
        Timespec::from_nanos(if self.relative { left } else { now.after(left).0 })
    }

    /// Whether its clock has not reached it yet.
    #[inline(never)]
    fn is_ahead(&self) -> bool {
        with_map(|view| view.at(self.clock, host_now(self.clock))) < self.at
    }

    /// Whether the kernel ended a wait under an outdated map.
    #[inline(never)]
    fn was_missed(&self, due: &Due) -> bool {
        due.at.is_some_and(|at| host_now(self.clock) >= at) && self.is_ahead()
    }

    /// The virtual time that was left when the kernel ended the wait at `end`; the clocks may have
    /// advanced since, as a signal handler may have run. If the kernel did not know the deadline,
    /// the time left now.
    #[inline(never)]
    fn left(&self, end: Option<HostInstant>) -> Nanos {
        let end = end.unwrap_or_else(host_monotonic);
        let end = with_map(|view| view.showed(Clock::Monotonic, end, host_monotonic));
        self.at.since(end).max(Nanos::ZERO)
    }
}

/// Performs a wait in virtual time; `None` if it has no timeout, one on a clock that the timeline
/// does not move, or one that is not understood.
///
/// The steps are separate functions that use the stack one after the other: it is the program's and
/// may be small.
#[inline(never)]
pub fn translate(call: &Call, wait: &Wait, frame: &Frame) -> Option<i64> {
    if wait.clears_sets && page().may_change() {
        return translate_with_sets(call, wait, frame);
    }
    translate_with(call, wait, frame, None)
}

/// Like [`translate`], for a call whose sets are needed again if the map changes meanwhile.
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
    // A call that the kernel would refuse is passed on unchanged: the kernel knows the right error
    // and the order in which to check for errors.
    let (mut deadline, mut now) = deadline(wait, args)?;
    let mut waiting = Waiting {
        mark: WAITING,
        at: deadline.at.as_nanos(),
        clock: deadline.clock as u32,
        frame: core::ptr::from_ref(frame) as u64,
        ..Waiting::default()
    };
    loop {
        // A change of the program's clocks may have moved the deadline.
        deadline.at = VirtualInstant::from_nanos(read_again(&waiting.at));
        let mut due = deadline.due(now.take());
        waiting.host = [due.time.sec, due.time.nsec];
        // A thread that was woken because its deadline has passed does not sleep again.
        let sleeps = call.woken_by == WokenBy::Nothing;
        let is_over = page().holds_waits() && sleeps && !deadline.is_ahead();
        let result = if is_over { 0 } else { make(call.nr, wait, args, &mut waiting) };
        // The map may have changed too late for a wait that was about to end.
        if wait.timed_out.is(result)
            && !is_over
            && deadline.was_missed(&due)
            && sets.as_mut().is_none_or(|sets| sets.restore(args))
        {
            continue;
        }
        if read_again(&waiting.again) != 0 {
            waiting.again = 0;
            // Only the supervisor ended it.
            if result == -EINVAL || wait.timed_out.is(result) {
                continue;
            }
            // The kernel has not reported what was left.
            due.at = None;
        }
        // POLL has waited for the whole milliseconds only.
        if result == 0 && waiting.nr == POLL.0 as u16 && deadline.is_ahead() {
            continue;
        }
        return Some(give_back(wait, args, &deadline, &due, waiting.host, result));
    }
}

/// Returns the result of a wait interrupted before it began: all of its time is left.
#[inline(never)]
pub fn interrupted(wait: &Wait, args: &Args) -> i64 {
    let Left::Interrupted(left) = wait.left else { return -EINTR };
    let to = argument(args, left);
    if to == 0 || !wait.origin(args).is_some_and(|(relative, _)| relative) {
        return -EINTR;
    }
    match load::<2>(argument(args, wait.arg)).and_then(|asked| store(to, asked)) {
        Ok(()) => -EINTR,
        Err(_) => -EFAULT,
    }
}

/// Reads a value that others may have written since.
#[inline(always)]
fn read_again<T: Copy>(value: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::read_volatile(value) }
}

/// The deadline that the arguments request, and the reading of the host's monotonic clock, if it
/// was read; `None` if there is no deadline, or none that is understood.
#[inline(never)]
fn deadline(wait: &Wait, args: &Args) -> Option<(Deadline, Option<HostInstant>)> {
    // Checked before anything is read: a call without a timeout may have any value in that
    // argument.
    let (relative, clock) = wait.origin(args)?;
    if !page().moves(clock.id()) && !wait.always {
        return None;
    }
    let asked = match wait.time(args)? {
        Time::Millis(millis) => Nanos::from_millis(i64::from(millis)),
        Time::At(at) if wait.form == Form::Timeval => {
            // Like the kernel: microseconds beyond a second are carried over.
            let [sec, usec] = load::<2>(at).ok()?.map(|word| word as i64);
            let sec = sec.wrapping_add(usec / 1_000_000);
            time_at(wait, [sec as u64, (usec % 1_000_000 * 1_000) as u64])?
        }
        Time::At(at) => time_at(wait, load::<2>(at).ok()?)?,
        Time::Through(_) if args[3] as u32 & RING_EXT_ARG_REG != 0 => return None,
        Time::Through(structure) => match load::<3>(structure).ok()? {
            [_, _, 0] => return None,
            [_, _, at] => time_at(wait, load::<2>(at).ok()?)?,
        },
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

/// The total of a `timespec` that the kernel would accept and would not take as already passed or
/// as never.
fn time_at(wait: &Wait, [sec, nsec]: [u64; 2]) -> Option<Nanos> {
    let time = Timespec { sec: sec as i64, nsec: nsec as i64 };
    let total = time.nanos();
    let is_accepted = if wait.takes_any_time { total >= Nanos::ZERO } else { time.is_valid() };
    is_accepted.then_some(total)
}

/// Makes the call with the host time of `waiting` in place of the program's.
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
        if argument(&args, left) != 0 {
            set_arg(&mut args, left, time);
        }
    }
    let nr = match wait.via {
        Via::Same | Via::RingRelative => nr,
        // `poll` keeps its deadline when the process is stopped and continued; the rest below a
        // millisecond follows. A tracer handles this itself.
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
            // Before Linux 5.11, and under filters of older container engines.
            if result != -ENOSYS && result != -EPERM {
                return result;
            }
            set_arg(&mut args, wait.arg, millis(waiting.host));
            EPOLL_PWAIT
        }
    };
    waiting_syscall(nr, &args, waiting)
}

/// Makes the program's call in its original form, because the program's own filter may allow no
/// other. Rounds up, so that it does not end early.
#[inline(never)]
fn make_as_asked(nr: Nr, wait: &Wait, args: &Args, waiting: &mut Waiting) -> i64 {
    let mut args = *args;
    if wait.form == Form::Millis {
        set_arg(&mut args, wait.arg, millis(waiting.host));
        return waiting_syscall(nr, &args, waiting);
    }
    const MICRO: i64 = 1_000;
    // The kernel clamps too many seconds.
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

/// A time in milliseconds, rounded up, for a call that takes nothing finer.
fn millis([sec, nsec]: [i64; 2]) -> u64 {
    millis_of(Timespec { sec, nsec }.nanos().0.saturating_add(999_999))
}

/// Like [`millis`], but rounded down.
fn whole_millis([sec, nsec]: [i64; 2]) -> u64 {
    millis_of(Timespec { sec, nsec }.nanos().0)
}

fn millis_of(nanos: i64) -> u64 {
    const MOST: i64 = i32::MAX as i64;
    (nanos / 1_000_000).clamp(0, MOST) as u64
}

/// Writes the remaining virtual time to where the kernel writes it.
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
        // When the kernel refuses the call, it has not written the remaining time.
        Left::InPlace if is_refused => return result,
        Left::InPlace | Left::WithResult => argument(args, wait.arg),
        // A job control stop interrupts it too, but the kernel then resumes it.
        Left::Interrupted(left) if deadline.relative && was_interrupted => argument(args, left),
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
        // `select` with its timeout in read-only memory is allowed.
        Err(_) if wait.left != Left::InPlace => -EFAULT,
        _ => result,
    }
}
