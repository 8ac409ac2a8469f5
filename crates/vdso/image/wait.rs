//! Waits: the time asked for is turned into host time, the call is made, and what
//! was left is turned back.

use eigentime_calls::{
    Base, EPOLL_PWAIT2, FUTEX_CLOCK_REALTIME, FUTEX_CMD_MASK, FUTEX_OPS, Form, FutexClock, Left,
    Nr, On, PPOLL, PSELECT6, RING_ABS_TIMER, RING_EXT_ARG, RING_EXT_ARG_REG, Via, Wait,
};
use eigentime_timeline::{Clock, ClockId, Nanos, Timespec, VirtualInstant};

use crate::clocks::{host_monotonic, host_now, page, virtual_monotonic, with_map};
use crate::entry::{Args, arg, load, set_arg, store, syscall};
use crate::layout::{Frame, LOOK_AGAIN, NEVER_SECONDS, WAITING, Waiting};

const EINTR: i64 = 4;
const EFAULT: i64 = 14;
const ENOSYS: i64 = 38;

/// `nanosleep` and `clock_nanosleep`: these wait for time and nothing else.
const SLEEPS: [Nr; 2] = [Nr(35), Nr(230)];

const EPOLL_PWAIT: Nr = Nr(281);
const RECVMMSG: Nr = Nr(299);

/// A time that never comes.
pub const NEVER: Timespec = Timespec { sec: NEVER_SECONDS, nsec: 0 };

/// Until when a wait goes on, in virtual time.
#[derive(Clone, Copy)]
struct Deadline {
    clock: Clock,
    at: VirtualInstant,
    /// Was it asked for, and is the kernel to be told, relative to now?
    relative: bool,
}

impl Deadline {
    /// The host time to pass to the kernel, by the map as it is now: none that comes, where the
    /// supervisor ends waits.
    #[inline(never)]
    fn host(&self) -> Timespec {
        if page().holds_waits() && self.is_ahead() {
            return NEVER;
        }
        match with_map(|view| view.host_at(self.clock, self.at)) {
            Some(then) if self.relative => Timespec::from_nanos(then.since(host_monotonic())),
            Some(then) => Timespec::from_nanos(then.0),
            None => NEVER,
        }
    }

    /// Does its clock not show it yet?
    #[inline(never)]
    fn is_ahead(&self) -> bool {
        with_map(|view| view.at(self.clock, host_now(self.clock))) < self.at
    }

    /// The virtual time that is left when the kernel says that `host` is left. (The
    /// clocks may be further already: a signal handler may have run since.)
    fn left(&self, host: Timespec) -> Nanos {
        let rate = with_map(|view| view.rate());
        if rate.is_frozen() || page().holds_waits() {
            return self.at.since(virtual_monotonic()).max(Nanos::ZERO);
        }
        rate.virtual_span(host.nanos())
    }
}

/// Makes a wait in virtual time; `None` if there is no time to wait for, or none that the timeline
/// moves, or none that can be understood.
///
/// The steps are functions of their own, one after the other on the stack, which is
/// the program's and may be small.
#[inline(never)]
pub fn translate(nr: Nr, wait: &Wait, frame: &Frame) -> Option<i64> {
    let args = &frame.args;
    // What the kernel would refuse goes to it as it is: it knows the right error
    // and the order in which to find faults.
    let deadline = deadline(wait, args)?;
    let mut waiting = Waiting {
        host: [0; 2],
        mark: WAITING,
        at: deadline.at.as_nanos(),
        clock: deadline.clock as u64,
        frame: core::ptr::from_ref(frame) as u64,
    };
    loop {
        // Whoever sets the program's clocks anew may have moved it.
        let at = VirtualInstant::from_nanos(read_again(&waiting.at));
        let deadline = Deadline { at, ..deadline };
        let time = deadline.host();
        waiting.host = [time.sec, time.nsec];
        // Whoever was woken because its time has come need not ask the kernel for how long to sleep.
        let is_over = page().holds_waits() && SLEEPS.contains(&nr) && !deadline.is_ahead();
        let result = if is_over { 0 } else { call(nr, wait, args, &mut waiting) };
        // A change of the map may have come too late for a wait that was about to end.
        if result != LOOK_AGAIN && !(has_timed_out(nr, result) && deadline.is_ahead()) {
            let [sec, nsec] = waiting.host;
            let left = Timespec { sec, nsec };
            return Some(give_back(nr, wait, args, &deadline, left, result));
        }
    }
}

/// Does a call say so that its time is over, and nothing else?
fn has_timed_out(nr: Nr, result: i64) -> bool {
    const ETIMEDOUT: i64 = 110;
    const EAGAIN: i64 = 11;
    /// `poll`, `select`, `nanosleep`, `clock_nanosleep`, `epoll_wait`, `pselect6`, `ppoll`,
    /// `epoll_pwait`, `epoll_pwait2`.
    const ZERO: [u32; 9] = [7, 23, 35, 230, 232, 270, 271, 281, 441];
    const RT_SIGTIMEDWAIT: u32 = 128;
    match result {
        0 => ZERO.contains(&nr.0),
        error if error == -ETIMEDOUT => true,
        error => error == -EAGAIN && nr.0 == RT_SIGTIMEDWAIT,
    }
}

/// Reads what others may have written since.
#[inline(always)]
fn read_again(value: &i64) -> i64 {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::read_volatile(value) }
}

/// The deadline that the arguments ask for; `None` if there is none, or none that
/// can be understood.
#[inline(never)]
fn deadline(wait: &Wait, args: &Args) -> Option<Deadline> {
    // Before anything is read: what takes no time may have anything where others have theirs.
    let (relative, clock) = base_and_clock(wait, args)?;
    if !page().moves(clock.id()) {
        return None;
    }
    let argument = arg(args, wait.arg);
    let asked = match wait.form {
        Form::Millis => match argument as i32 {
            ..=0 => return None,
            millis => Nanos::from_millis(i64::from(millis)),
        },
        Form::Timespec | Form::Timeval | Form::RingArgument if argument == 0 => return None,
        Form::Timespec => time_at(load::<2>(argument).ok()?)?,
        Form::RingArgument => {
            let flags = args[3] as u32;
            if flags & RING_EXT_ARG == 0 || flags & RING_EXT_ARG_REG != 0 {
                return None;
            }
            let [_, _, pointer] = load::<3>(argument).ok()?;
            if pointer == 0 {
                return None;
            }
            time_at(load::<2>(pointer).ok()?)?
        }
        Form::Timeval => {
            // As the kernel: microseconds beyond a second are carried over.
            let [sec, usec] = load::<2>(argument).ok()?.map(|word| word as i64);
            let sec = sec.wrapping_add(usec / 1_000_000);
            time_at([sec as u64, (usec % 1_000_000 * 1_000) as u64])?
        }
    };
    let relative_to_kernel = relative || wait.via == Via::RingRelative;
    let at = if relative { virtual_monotonic().after(asked) } else { VirtualInstant(asked) };
    Some(Deadline { clock, at, relative: relative_to_kernel })
}

/// The total of a `timespec` that the kernel would accept.
fn time_at([sec, nsec]: [u64; 2]) -> Option<Nanos> {
    let time = Timespec { sec: sec as i64, nsec: nsec as i64 };
    time.is_valid().then(|| time.nanos())
}

/// Is the time relative, and which clock is it on? Relative times are all kept on
/// the monotonic clock: every clock of a timeline has the same rate.
fn base_and_clock(wait: &Wait, args: &Args) -> Option<(bool, Clock)> {
    let futex = FUTEX_OPS.iter().find(|futex| futex.op == args[1] as u32 & FUTEX_CMD_MASK);
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
fn call(nr: Nr, wait: &Wait, args: &Args, waiting: &mut Waiting) -> i64 {
    if wait.via == Via::RingRelative {
        return call_ring(nr, args, waiting);
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
        Via::Ppoll => {
            args[3] = 0;
            args[4] = 0;
            PPOLL
        }
        Via::Pselect6 => {
            args[5] = 0;
            PSELECT6
        }
        Via::EpollPwait2 { mask } => {
            if !mask {
                args[4] = 0;
            }
            let result = syscall(EPOLL_PWAIT2, &args);
            if result != -ENOSYS {
                return result;
            }
            // Before Linux 5.11: whole milliseconds, rounded up so as not to wake
            // early.
            let [sec, nsec] = waiting.host;
            set_arg(&mut args, wait.arg, millis(Timespec { sec, nsec }));
            EPOLL_PWAIT
        }
    };
    syscall(nr, &args)
}

/// Makes `io_uring_enter` with a relative time in a structure of our own.
#[inline(never)]
fn call_ring(nr: Nr, args: &Args, waiting: &mut Waiting) -> i64 {
    let mut args = *args;
    let Ok([mask, sizes, _]) = load::<3>(args[4]) else { return -EFAULT };
    let argument = [mask, sizes, core::ptr::from_mut(waiting) as u64];
    args[3] &= !u64::from(RING_ABS_TIMER);
    args[4] = argument.as_ptr() as u64;
    syscall(nr, &args)
}

/// A time in milliseconds for a call that takes nothing finer.
fn millis(time: Timespec) -> u64 {
    const MOST: i64 = i32::MAX as i64;
    let millis = (time.nanos().0.saturating_add(999_999) / 1_000_000).min(MOST);
    millis as u64
}

/// Writes the virtual time that was left to where the kernel writes it.
#[inline(never)]
fn give_back(
    nr: Nr,
    wait: &Wait,
    args: &Args,
    deadline: &Deadline,
    host_left: Timespec,
    result: i64,
) -> i64 {
    let (to, may_fail) = match wait.left {
        Left::Nowhere => return result,
        Left::Interrupted(left) if result == -EINTR && deadline.relative => (arg(args, left), true),
        Left::Interrupted(_) => return result,
        // The kernel writes it only with a datagram, and then insists on it.
        Left::InPlace if nr == RECVMMSG && result <= 0 => return result,
        Left::InPlace => (arg(args, wait.arg), nr == RECVMMSG),
    };
    if to == 0 {
        return result;
    }
    let left = if result == 0 { Nanos::ZERO } else { deadline.left(host_left) };
    let left = Timespec::from_nanos(left);
    let part = match wait.form {
        Form::Timeval => left.nsec / 1_000,
        Form::Timespec | Form::Millis | Form::RingArgument => left.nsec,
    };
    match store(to, [left.sec as u64, part as u64]) {
        Err(_) if may_fail => -EFAULT,
        // select() with its timeout in read-only memory is allowed.
        _ => result,
    }
}
