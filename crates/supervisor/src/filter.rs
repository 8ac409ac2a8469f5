//! The seccomp filter, generated from the table: which calls stop for the supervisor.
//!
//! Calls that are not in the table are allowed by their number alone. The kernel caches that, so
//! they cost almost nothing. Calls in the table are allowed where their arguments show that no time
//! has to be translated, and from the image's own system call instruction.

use std::os::fd::{FromRawFd, OwnedFd};

use eigentime_calls::{
    AUDIT_ARCH, BEGINNINGS_OF_TRACING, Base, CANCELLATION_SIGNALS, CLONE_UNTRACED, Call,
    FUTEX_CLOCK_REALTIME, FUTEX_CMD_MASK, FUTEX_OPS, Form, FutexClock, ITIMER_REAL, Kind,
    OTHER_ABI_BIT, On, PR_GET_SECCOMP, PR_SET_DUMPABLE, PR_SET_SECCOMP, RING_EXT_ARG, ROWS, Read,
    SOCKET_TIMEOUTS, SOL_SOCKET, Set, Timer, TimerOp, Wait, Watch, nr,
};
use eigentime_timeline::{Clock, ClockId};
use eigentime_vdso::{BOOTED_CLOCK, NESTING_CLOCK, UNSTARTED_CLOCK};
use nix::errno::Errno;

/// How much of a timeline can differ from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The wall clock only: relative waits and waits on other clocks are right as they are.
    Wall,
    /// Every clock.
    All,
}

/// How the supervisor is notified of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// By a ptrace stop of a thread that it traces.
    Traced,
    /// By a seccomp notification, also for calls that start programs.
    Notified,
}

impl Told {
    fn action(self) -> u32 {
        match self {
            Self::Traced => libc::SECCOMP_RET_TRACE,
            Self::Notified => libc::SECCOMP_RET_USER_NOTIF,
        }
    }
}

/// What the filter of a timeline depends on.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// How the supervisor is notified of calls.
    pub told: Told,
    /// How much of the timeline can differ from the host.
    pub scope: Scope,
    /// The address after the exempted system call instruction.
    pub exempt: u64,
    /// Whether the program runs in a user namespace that maps its own group only.
    pub hides_groups: bool,
}

/// The filter of a timeline in which every clock may differ from the host's.
pub fn of_all_clocks(told: Told, exempt: u64) -> Vec<libc::sock_filter> {
    assemble(&Subject { told, scope: Scope::All, exempt, hides_groups: false })
}

/// A program as it is laid out in memory.
pub fn bytes_of(program: &[libc::sock_filter]) -> Vec<u8> {
    let bytes = program.iter().flat_map(|it| {
        let [code, k] = [it.code.to_ne_bytes().to_vec(), it.k.to_ne_bytes().to_vec()];
        [code, vec![it.jt, it.jf], k].concat()
    });
    bytes.collect()
}

/// Whether this is the program of a timeline's filter, as reported by the kernel.
pub fn is_of_timeline(program: &[u8], exempt: u64) -> bool {
    let same = |subject: &Subject| bytes_of(&assemble(subject)) == program;
    [Told::Notified, Told::Traced].into_iter().any(|told| {
        [Scope::All, Scope::Wall].into_iter().any(|scope| {
            let with = |hides_groups| Subject { told, scope, exempt, hides_groups };
            same(&with(false)) || same(&with(true))
        })
    })
}

/// The data passed to the supervisor when a call of another architecture stops.
pub const FOREIGN: u16 = 1;

/// Offsets in `struct seccomp_data`.
const NR: u32 = 0;
const ARCH: u32 = 4;
const IP: u32 = 8;
const fn arg_low(arg: u8) -> u32 {
    16 + 8 * arg as u32
}
const fn arg_high(arg: u8) -> u32 {
    arg_low(arg) + 4
}

/// A jump target in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label(usize);

/// Assembles a classic BPF program; jumps go forward only.
struct Assembler {
    code: Vec<libc::sock_filter>,
    /// The position of each label that has been placed.
    labels: Vec<Option<usize>>,
    /// Long jumps to be filled in.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn new() -> Self {
        Self { code: Vec::new(), labels: Vec::new(), jumps: Vec::new() }
    }

    fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn emit(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        self.code.push(libc::sock_filter { code: code as u16, jt, jf, k });
    }

    fn load(&mut self, offset: u32) {
        self.emit(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    }

    fn mask(&mut self, bits: u32) {
        self.emit(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, bits);
    }

    fn answer(&mut self, action: u32) {
        self.emit(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    }

    fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(libc::BPF_JMP | libc::BPF_JA, 0, 0, 0);
    }

    /// Jumps if the comparison is true (`wanted`), or if it is false.
    fn jump_on(&mut self, comparison: u32, k: u32, wanted: bool, to: Label) {
        let (jt, jf) = if wanted { (0, 1) } else { (1, 0) };
        self.emit(libc::BPF_JMP | comparison | libc::BPF_K, jt, jf, k);
        self.jump(to);
    }

    fn if_equal(&mut self, k: u32, to: Label) {
        self.jump_on(libc::BPF_JEQ, k, true, to);
    }

    fn unless_equal(&mut self, k: u32, to: Label) {
        self.jump_on(libc::BPF_JEQ, k, false, to);
    }

    fn if_any(&mut self, bits: u32, to: Label) {
        self.jump_on(libc::BPF_JSET, bits, true, to);
    }

    fn unless_any(&mut self, bits: u32, to: Label) {
        self.jump_on(libc::BPF_JSET, bits, false, to);
    }

    fn finish(mut self) -> Vec<libc::sock_filter> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is placed");
            self.code[at].k = u32::try_from(target - at - 1).expect("jumps go forward");
        }
        self.code
    }
}

/// The tests on one call's arguments.
struct Tests<'a> {
    asm: &'a mut Assembler,
    told: Told,
    scope: Scope,
    allow: Label,
}

impl Tests<'_> {
    /// Continues only if the argument is not a null pointer.
    fn given(&mut self, arg: u8) {
        let given = self.asm.label();
        self.asm.load(arg_low(arg));
        self.asm.unless_equal(0, given);
        self.asm.load(arg_high(arg));
        self.asm.if_equal(0, self.allow);
        self.asm.place(given);
    }

    /// Continues only if the argument is a clock that the timeline may move.
    fn on_moved_clock(&mut self, arg: u8) {
        let moved = self.asm.label();
        self.asm.load(arg_low(arg));
        for id in ClockId::VIRTUAL {
            if self.scope == Scope::All || id.clock().is_some_and(Clock::is_wall) {
                self.asm.if_equal(id.0 as u32, moved);
            }
        }
        self.asm.jump(self.allow);
        self.asm.place(moved);
    }

    fn equals(&mut self, arg: u8, value: u32) {
        self.asm.load(arg_low(arg));
        self.asm.unless_equal(value, self.allow);
    }

    fn has_any(&mut self, arg: u8, bits: u32) {
        self.asm.load(arg_low(arg));
        self.asm.unless_any(bits, self.allow);
    }

    fn never(&mut self) {
        self.asm.jump(self.allow);
    }

    fn wait(&mut self, wait: &Wait) {
        match wait.form {
            Form::Timespec | Form::Timeval => self.given(wait.arg),
            Form::RingArgument => {
                self.has_any(3, RING_EXT_ARG);
                self.given(wait.arg);
            }
            Form::Millis => {
                // Allows a timeout that is zero, or negative and so infinite.
                self.asm.load(arg_low(wait.arg));
                self.asm.if_equal(0, self.allow);
                self.asm.if_any(0x8000_0000, self.allow);
            }
        }
        if wait.always {
            return;
        }
        match (wait.base, self.scope) {
            (Base::Relative, Scope::Wall) => return self.never(),
            (Base::Flag { arg, bits }, Scope::Wall) => self.has_any(arg, bits),
            (Base::Futex, _) => return self.futex(),
            (Base::Relative | Base::Absolute | Base::Flag { .. }, _) => {}
        }
        match wait.on {
            On::Monotonic if self.scope == Scope::Wall => self.never(),
            On::Monotonic | On::Realtime | On::Futex => {}
            On::Arg(arg) => self.on_moved_clock(arg),
        }
    }

    fn futex(&mut self) {
        const OPERATION: u8 = 1;
        let [flagged, timed] = [self.asm.label(), self.asm.label()];
        self.asm.load(arg_low(OPERATION));
        self.asm.mask(FUTEX_CMD_MASK);
        for futex in FUTEX_OPS {
            match (self.scope, futex.clock) {
                (Scope::All, _) | (Scope::Wall, FutexClock::Realtime) => {
                    self.asm.if_equal(futex.op, timed);
                }
                (Scope::Wall, FutexClock::Flag) => self.asm.if_equal(futex.op, flagged),
                (Scope::Wall, FutexClock::Monotonic) => {}
            }
        }
        self.asm.jump(self.allow);
        self.asm.place(flagged);
        self.has_any(OPERATION, FUTEX_CLOCK_REALTIME);
        self.asm.place(timed);
    }

    fn timer(&mut self, timer: Timer, op: TimerOp) {
        match (self.scope, op) {
            (Scope::All, _) => {}
            // The supervisor must know what a timer is armed for, and when it is disarmed.
            (Scope::Wall, TimerOp::Set { .. }) if timer == Timer::Posix => {}
            // Where the wall clock is frozen, the time left of a timer on it is frozen, too.
            (Scope::Wall, TimerOp::Get { .. }) if timer != Timer::Interval => {}
            (Scope::Wall, TimerOp::Get { .. } | TimerOp::Set { absolute: 0, .. }) => {
                return self.never();
            }
            (Scope::Wall, TimerOp::Set { absolute, .. }) => self.has_any(1, absolute),
        }
        match (timer, op) {
            // Without a new setting the timer is disarmed, and the old setting returned.
            (Timer::Interval, _) => self.equals(0, ITIMER_REAL),
            (Timer::Posix | Timer::Descriptor, TimerOp::Set { new, .. }) => self.given(new),
            (Timer::Alarm, _) | (_, TimerOp::Get { .. }) => {}
        }
    }

    fn socket(&mut self) {
        let [level, option, value] = [1, 2, 3];
        if self.scope == Scope::Wall {
            return self.never();
        }
        self.equals(level, SOL_SOCKET);
        let timeout = self.asm.label();
        self.asm.load(arg_low(option));
        for kind in SOCKET_TIMEOUTS {
            self.asm.if_equal(kind, timeout);
        }
        self.asm.jump(self.allow);
        self.asm.place(timeout);
        self.given(value);
    }

    fn read(&mut self, read: Read) {
        match read {
            Read::ClockGettime => self.on_moved_clock(0),
            Read::Gettimeofday => self.given(0),
            Read::Time => {}
            Read::Times | Read::Sysinfo if self.scope == Scope::Wall => self.never(),
            Read::Times | Read::Sysinfo => {}
        }
    }

    fn set(&mut self, set: Set) {
        match set {
            Set::ClockSettime | Set::ClockAdjtime => self.equals(0, ClockId::REALTIME.0 as u32),
            Set::Settimeofday | Set::Adjtimex => {}
        }
    }

    fn call(&mut self, call: &Call, hides_groups: bool) {
        match &call.kind {
            Kind::Wait(wait) => self.wait(wait),
            Kind::Timer(timer, op) => self.timer(*timer, *op),
            Kind::Socket(_) => self.socket(),
            Kind::Read(read) => self.read(*read),
            Kind::Set(set) => self.set(*set),
            Kind::Watch(Watch::IoUring) => {}
            Kind::Watch(Watch::Untraced) => self.has_any(0, CLONE_UNTRACED),
            Kind::Watch(Watch::Filters) if call.nr == nr::PRCTL => {
                let concerned = self.asm.label();
                self.asm.load(arg_low(0));
                self.asm.if_equal(PR_GET_SECCOMP, concerned);
                if self.told == Told::Notified {
                    self.asm.if_equal(PR_SET_DUMPABLE, concerned);
                }
                self.asm.unless_equal(PR_SET_SECCOMP, self.allow);
                self.asm.place(concerned);
            }
            Kind::Watch(Watch::Filters) => {}
            Kind::Watch(Watch::Cancellation) if self.told == Told::Notified => {
                let cancels = self.asm.label();
                self.asm.load(arg_low(0));
                for signal in CANCELLATION_SIGNALS {
                    self.asm.if_equal(signal, cancels);
                }
                self.asm.jump(self.allow);
                self.asm.place(cancels);
                self.given(1);
            }
            // ptrace reports every signal of a traced thread.
            Kind::Watch(Watch::Cancellation) => self.never(),
            Kind::Watch(Watch::Debugger) => {
                let begins = self.asm.label();
                self.asm.load(arg_low(0));
                for request in BEGINNINGS_OF_TRACING {
                    self.asm.if_equal(request, begins);
                }
                self.asm.jump(self.allow);
                self.asm.place(begins);
            }
            Kind::Watch(Watch::Groups) if hides_groups => {}
            Kind::Watch(Watch::Groups) | Kind::Block => self.never(),
        }
    }
}

/// The filter for a timeline.
#[must_use]
pub fn assemble(subject: &Subject) -> Vec<libc::sock_filter> {
    let mut asm = Assembler::new();
    let [native, allow, stop] = [asm.label(), asm.label(), asm.label()];
    let [booted, check_address] = [asm.label(), asm.label()];

    asm.load(ARCH);
    asm.if_equal(AUDIT_ARCH, native);
    // Fails with ENOSYS if nothing traces the thread.
    asm.answer(libc::SECCOMP_RET_TRACE | u32::from(FOREIGN));
    asm.place(native);
    asm.load(NR);
    let concerned = ROWS.iter().filter(|row| row.call.kind != Kind::Block);
    let blocks: Vec<_> = concerned.map(|row| (row.call, asm.label())).collect();
    for (call, block) in &blocks {
        asm.if_equal(call.nr.0, *block);
    }
    if subject.told == Told::Notified {
        for call in [nr::EXECVE, nr::EXECVEAT] {
            asm.if_equal(call.0, stop);
        }
    }
    // As on a kernel without the other ABI.
    let of_this_abi = asm.label();
    asm.unless_any(OTHER_ABI_BIT, of_this_abi);
    asm.answer(libc::SECCOMP_RET_ERRNO | Errno::ENOSYS as u32);
    asm.place(of_this_abi);
    asm.answer(libc::SECCOMP_RET_ALLOW);

    for (call, block) in blocks {
        asm.place(block);
        if call.kind == Kind::Read(Read::ClockGettime) {
            asm.load(arg_low(0));
            asm.if_equal(BOOTED_CLOCK, booted);
            asm.if_equal(NESTING_CLOCK, stop);
            if subject.told == Told::Notified {
                asm.if_equal(UNSTARTED_CLOCK, stop);
            }
        }
        Tests { asm: &mut asm, told: subject.told, scope: subject.scope, allow }
            .call(&call, subject.hides_groups);
        asm.jump(check_address);
    }

    asm.place(check_address);
    let exempt = subject.exempt;
    asm.load(IP);
    asm.unless_equal(exempt as u32, stop);
    asm.load(IP + 4);
    asm.if_equal((exempt >> 32) as u32, allow);
    asm.place(stop);
    asm.answer(subject.told.action());
    asm.place(allow);
    asm.answer(libc::SECCOMP_RET_ALLOW);
    asm.place(booted);
    asm.answer(libc::SECCOMP_RET_TRACE);
    asm.finish()
}

/// Installs the filter on the calling process and everything it starts, and returns the
/// notification descriptor.
pub fn install_with_listener(
    filter: &[libc::sock_filter],
    privileges: Privileges,
) -> nix::Result<OwnedFd> {
    let flag = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let listener = set(filter, flag, privileges)?;
    // SAFETY: the call returned a new descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

/// Installs the filter on the calling process and everything it starts.
pub fn install(filter: &[libc::sock_filter], privileges: Privileges) -> nix::Result<()> {
    set(filter, 0, privileges).map(drop)
}

/// Whether a process may lose privileges to the filter, where the kernel requires `no_new_privs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// Files no longer grant privileges (`no_new_privs`).
    Renounced,
    /// It keeps them: then no filter is installed.
    Kept,
}

fn set(
    filter: &[libc::sock_filter],
    flags: libc::c_ulong,
    privileges: Privileges,
) -> nix::Result<libc::c_long> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| Errno::E2BIG)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let set = || {
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: the kernel copies the program, which outlives the call.
        Errno::result(unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) })
    };
    match set() {
        // Without CAP_SYS_ADMIN the kernel requires that the filter cannot trick a set-user-ID
        // program.
        Err(Errno::EACCES) if privileges == Privileges::Renounced => {
            nix::sys::prctl::set_no_new_privs()?;
            set()
        }
        result => result,
    }
}

#[cfg(test)]
mod tests;
