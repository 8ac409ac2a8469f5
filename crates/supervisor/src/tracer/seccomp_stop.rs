//! Answers calls that the filter stopped.

use eigentime_calls::{CLONE_UNTRACED, Call, Kind, Nr, TIMER_ABSTIME, Timer, TimerOp, Watch, nr};
use eigentime_timeline::page::View;
use eigentime_timeline::{Clock, ClockId, Timespec};
use eigentime_vdso::{KernelFunctions, NO_HINT, STRICT, symbols};
use nix::errno::Errno;
use std::mem::offset_of;

use super::bootstrap::is_report;
use super::nesting::asks_to_nest;
use super::notes::Note;
use super::rearm::{Info, TimerKey, timer_clock};
use super::strict::{asks_for_mode, enters_strict_mode, may_set_filter};
use super::timekeeper::Number;
use super::tracee::Tracee;
use super::{Standing, Supervisor};
use crate::arch::{Registers, is_in_vsyscall_page};
use crate::filter::FOREIGN;
use crate::host;

impl Supervisor {
    pub(super) fn filtered(&mut self, tracee: Tracee) -> nix::Result<()> {
        let told = tracee.event_message()?;
        if told == u64::from(STRICT) {
            return self.end_strict(tracee);
        }
        // The calls that start a program are the caller's own.
        if self.thread(tracee).standing != Standing::Member {
            return self.go_on(tracee, None);
        }
        let mut registers = tracee.registers()?;
        // From here on as if the site were not rewritten.
        let left_stub = self.leave_stub(tracee, &mut registers);
        if told == u64::from(FOREIGN) {
            self.note(tracee, Note::ForeignCall);
            registers.skip(error(Errno::ENOSYS));
            tracee.set_registers(registers)?;
            return self.go_on(tracee, None);
        }
        let boots = std::mem::take(&mut self.thread(tracee).boots);
        if is_report(&registers) {
            // A program that reads the clock that the image uses to report gets the kernel's answer.
            if boots && matches!(registers.arg(1) as i64, -4095..0) {
                self.refuse_boot(tracee, registers)?;
            }
            return self.go_on(tracee, None);
        }
        if asks_to_nest(registers.nr(), &registers.args()) {
            registers.skip(self.nest(tracee, registers.arg(1)).unwrap_or_else(error));
            tracee.set_registers(registers)?;
            return self.go_on(tracee, None);
        }
        let Some(call) = Call::find(registers.nr()) else {
            return self.go_on(tracee, None);
        };
        self.count_stop();
        let changed = match call.kind {
            _ if is_in_vsyscall_page(registers.ip()) => {
                let result = self.read_for_vsyscall(tracee, registers.nr(), &registers.args());
                registers.skip(result);
                true
            }
            Kind::Read(_) if self.is_kernel_vdso(tracee, &registers) => {
                self.read_clocks_raw(tracee)?;
                false
            }
            Kind::Wait(_) | Kind::Socket(_) | Kind::Read(_) => {
                self.note_frozen(tracee, &registers, call.kind);
                let called = registers;
                self.redirect(&mut registers, NO_HINT);
                tracee.set_registers(registers)?;
                if left_stub {
                    return self.go_on(tracee, None);
                }
                return self.consider(tracee, called, move |it| it.go_on(tracee, None));
            }
            Kind::Timer(timer, op) => {
                let hint = self.timer_hint(tracee, &registers, timer, op);
                self.redirect(&mut registers, hint.map_or(NO_HINT, |clock| i64::from(clock.0)));
                true
            }
            Kind::Set(set) => {
                registers.skip(self.set_wall(tracee, &registers.args(), set).unwrap_or_else(error));
                true
            }
            Kind::Watch(Watch::IoUring) => {
                self.note(tracee, Note::IoUring);
                false
            }
            Kind::Watch(Watch::Debugger) => {
                self.note_debugger(tracee, &registers.args());
                false
            }
            Kind::Watch(Watch::Untraced) => {
                registers.set_arg(0, registers.arg(0) & !u64::from(CLONE_UNTRACED));
                true
            }
            // This is the filter of the timeline in which it starts a program.
            Kind::Watch(Watch::Filters) if self.enters_another(tracee.0) => false,
            Kind::Watch(Watch::Filters) if asks_for_mode(registers.nr(), &registers.args()) => {
                let shows_ours = self.has_no_other_filter(tracee);
                if shows_ours {
                    registers.skip(libc::SECCOMP_MODE_DISABLED.into());
                }
                shows_ours
            }
            Kind::Watch(Watch::Filters) => {
                let (nr, args) = (registers.nr(), registers.args());
                let enters = enters_strict_mode(nr, &args) && self.has_no_other_filter(tracee);
                if enters || may_set_filter(tracee, nr, &args) {
                    self.filters_itself(tracee)?;
                }
                if enters {
                    self.redirect(&mut registers, NO_HINT);
                }
                enters
            }
            Kind::Watch(Watch::Cancellation) | Kind::Block => false,
            Kind::Watch(Watch::Groups) => {
                registers.skip(self.show_groups(tracee, &registers.args()).unwrap_or_else(error));
                true
            }
        };
        if changed {
            tracee.set_registers(registers)?;
        }
        self.go_on(tracee, None)
    }

    /// What the image must know of the clock of the timer that a call works on; `None` if that is
    /// nothing, or if the timer must be left alone.
    pub(super) fn timer_hint(
        &mut self,
        tracee: Tracee,
        registers: &Registers,
        timer: Timer,
        op: TimerOp,
    ) -> Option<ClockId> {
        let sets = matches!(op, TimerOp::Set { .. });
        let absolute = sets && registers.arg(1) as u32 & TIMER_ABSTIME != 0;
        let first = registers.arg(0) as i32;
        match timer {
            Timer::Posix => {
                let process = self.process_of(tracee.0)?;
                // If the program's state is inaccessible to the user: most timers then expire on time.
                let clock =
                    timer_clock(process, first).map_or(Some(ClockId::MONOTONIC), |clock| clock)?;
                clock.clock()?;
                if sets {
                    self.remember_timer(tracee, registers, clock);
                }
                let key = TimerKey { process, timer: first };
                self.timers.line(key, clock).map(Clock::id)
            }
            Timer::Descriptor => {
                self.timers.descriptors_are_used |= sets;
                // A span needs it only while time is frozen.
                let segment = self.segment_of(tracee.0);
                if !absolute && !segment.rate_of(Clock::Wall).is_frozen() {
                    return None;
                }
                let info = Info::read(tracee.0, u32::try_from(first).ok()?)?;
                let info = Info { absolute: if sets { absolute } else { info.absolute }, ..info };
                info.line().map(Clock::id)
            }
            Timer::Interval | Timer::Alarm => {
                if sets {
                    self.remember_interval_timer(tracee, registers, timer);
                }
                None
            }
        }
    }

    pub(super) fn redirect(&self, registers: &mut Registers, hint: i64) {
        registers.redirect(self.layout.symbol(symbols::ENTER), hint);
    }

    /// Whether the call was made by the kernel's own vDSO, which the image called for host time.
    pub(super) fn is_kernel_vdso(&self, tracee: Tracee, registers: &Registers) -> bool {
        let known = self.landmark(tracee);
        known.is_ok_and(|function| self.kernel.holds(function, registers.ip()))
    }

    /// The function by which the kernel's vDSO is found in a program.
    pub(super) fn landmark(&self, tracee: Tracee) -> nix::Result<u64> {
        tracee.peek(self.layout.private() + self.kernel.landmark() as u64)
    }

    /// Handles a system call of the kernel's vDSO for this clock, which it makes where programs cannot
    /// read the hardware clock: from here on the image makes the call itself, without a stop.
    fn read_clocks_raw(&mut self, tracee: Tracee) -> nix::Result<()> {
        self.raw_clock = true;
        let layout = self.layout;
        let slot = layout.private() + offset_of!(KernelFunctions, clock_gettime) as u64;
        tracee.poke(slot, layout.symbol(symbols::RAW_CLOCK_GETTIME))
    }

    /// Notes that a process is about to get a seccomp filter: from here on the image makes each call in
    /// its own form, and no site is rewritten.
    fn filters_itself(&mut self, tracee: Tracee) -> nix::Result<()> {
        let process = self.process_of(tracee.0);
        // The process of each thread must be known.
        self.processes();
        for state in self.threads.values_mut().filter(|state| state.process == process) {
            state.has_own_filter = true;
        }
        let slot = offset_of!(KernelFunctions, has_own_filter) as u64;
        tracee.poke(self.layout.private() + slot, 1)
    }

    /// Reads on behalf of the program when it reads through the vsyscall page, which the kernel carries
    /// out by itself and does not let be redirected.
    pub(super) fn read_for_vsyscall(&self, tracee: Tracee, nr: Nr, args: &[u64; 6]) -> i64 {
        let now = self.wall_now(self.timeline_of(tracee.0));
        let write = |to: u64, words: &[u64]| match to {
            0 => Ok(()),
            to => tracee.write_words(to, words),
        };
        if nr == nr::TIME {
            return write(args[0], &[now.sec as u64]).map_or(error(Errno::EFAULT), |()| now.sec);
        }
        let micros = (now.nsec / 1_000) as u64;
        let written = write(args[0], &[now.sec as u64, micros]).and_then(|()| write(args[1], &[0]));
        written.map_or(error(Errno::EFAULT), |()| 0)
    }

    /// The wall clock of a timeline.
    pub(super) fn wall_now(&self, timeline: Number) -> Timespec {
        let region = self.timelines.get(timeline).timekeeper.region();
        let read = |view: &View<'_>| {
            Timespec::from_nanos(view.at(Clock::Wall, host::read(ClockId::REALTIME)).0)
        };
        loop {
            let view = region.page().view();
            let now = read(&view);
            if view.is_current() {
                return now;
            }
        }
    }

    /// Returns the caller's groups, of which the program's user namespace maps only one.
    pub(super) fn show_groups(&self, tracee: Tracee, args: &[u64; 6]) -> nix::Result<i64> {
        let room = args[0] as i32;
        if room < 0 || (room > 0 && (room as usize) < self.groups.len()) {
            return Err(Errno::EINVAL);
        }
        if room > 0 {
            let bytes: Vec<u8> = self.groups.iter().flat_map(|group| group.to_ne_bytes()).collect();
            tracee.write(args[1], &bytes)?;
        }
        Ok(self.groups.len() as i64)
    }
}

pub(super) fn error(cause: Errno) -> i64 {
    -i64::from(cause as i32)
}
