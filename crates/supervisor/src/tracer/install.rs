//! Gives a program that has just been started the image in place of the kernel's vDSO.
//!
//! The program receives the shared memory as a descriptor through the `bootstrap`; nothing stays open
//! in it.

use std::os::fd::OwnedFd;

use eigentime_vdso::{KernelFunctions, Launch};
use nix::errno::Errno;

use super::Supervisor;
use super::bootstrap::{Bootstrap, is_report};
use super::detour::Detour;
use super::fresh::{Fresh, Refusal};
use super::mapping::{Installer, RECEIVE};
use super::oci_runtimes::RuntimeId;
use super::tracee::{ALL_SIGNALS, Tracee};
use crate::arch::Registers;
use crate::proc::{self, Pidfd};

/// A socket of a program, and the program.
pub type Borrowed = (OwnedFd, Pidfd);

/// The exit status for a program that cannot be run.
const CANNOT_RUN: u64 = 126;

/// A program that has just been started.
#[derive(Clone, Copy)]
pub struct Started {
    pub tracee: Tracee,
    /// The OCI runtime that has started it.
    pub runtime: Option<RuntimeId>,
    /// Whether its process has a filter of its own.
    pub has_own_filter: bool,
}

impl Installer {
    /// Prepares a program that is in the stop that announces its start. Returns what can be closed once
    /// it runs, if it starts by itself.
    pub async fn install(self, started: Started) -> Result<Option<Borrowed>, Refusal> {
        let Started { tracee, runtime, has_own_filter } = started;
        let visits = runtime.is_some();
        let mut detour = Detour::new(tracee);
        let (fresh, mut launch, bootstrap) = match self.examine(started) {
            Ok(examined) => examined,
            Err(refusal) => {
                leave_exec(&mut detour).await?;
                return Err(refusal);
            }
        };
        tracee.set_signal_mask(ALL_SIGNALS).map_err(Refusal::step("block its signals"))?;
        // A filter of a container or of its own may forbid the following steps.
        let suspended = (visits || has_own_filter) && tracee.suspend_filters();
        // It starts by itself, except for the first program of a visit, or where the bootstrap cannot
        // stay or its filters were suspended.
        if !visits && !suspended && bootstrap.is_in_padding() {
            launch.entry = fresh.entry.ip();
        }
        let grows = !fresh.has_stack(tracee);
        if suspended || grows {
            // From here on its calls are traced one by one.
            leave_exec(&mut detour).await?;
        }
        let grown = if grows { self.grow_stack(&mut detour, &fresh).await } else { Ok(()) };
        let written = grown.and_then(|()| {
            let written = bootstrap.put(self.region.layout, launch, fresh.slot);
            written.map_err(Refusal::step("write to its memory"))
        });
        let handed_over = match written {
            Ok(()) => self.hand_over(&mut detour, &fresh, &bootstrap, suspended).await,
            Err(refusal) => Err(refusal),
        };
        let prepared = match handed_over {
            Ok((goes_on, borrowed)) if launch.entry != 0 => {
                tracee.set_registers(goes_on).map_err(Refusal::step("set its registers"))?;
                detour.end().map_err(Refusal::step("stop it"))?;
                return Ok(Some(borrowed));
            }
            Ok((goes_on, borrowed)) => {
                run(&mut detour, Step::Image, goes_on, suspended, || drop(borrowed))
                    .await
                    .and_then(|_| bootstrap.remove().map_err(Refusal::step("restore its vDSO")))
            }
            Err(refusal) => Err(refusal),
        };
        let mut after = fresh.entry;
        after.skip(0);
        if prepared.is_err() {
            let args = [CANNOT_RUN, 0, 0, 0, 0, 0];
            after.call(self.kernel.syscall_at(fresh.vdso), libc::SYS_exit_group, args);
        }
        tracee.set_registers(after).map_err(Refusal::step("set its registers"))?;
        if suspended {
            tracee.end_with_tracer().map_err(Refusal::step("put its filters in force"))?;
        }
        prepared?;
        let mask = tracee.set_signal_mask(launch.mask);
        mask.map_err(Refusal::step("restore its signal mask"))?;
        detour.end().map_err(Refusal::step("stop it"))?;
        Ok(None)
    }

    /// Examines a program in that stop, and returns what it needs to run the bootstrap.
    fn examine(&self, started: Started) -> Result<(Fresh, Launch, Bootstrap), Refusal> {
        let Started { tracee, runtime, has_own_filter } = started;
        let entry = tracee.registers().map_err(Refusal::step("read its registers"))?;
        let fresh = Fresh::examine(tracee, entry)?;
        let bootstrap = Bootstrap::new(tracee, fresh.vdso, self.kernel.bytes(), fresh.stack);
        let launch = Launch {
            kernel: KernelFunctions {
                runtime: runtime.map_or(0, |runtime| runtime.get().into()),
                ..self.functions_at(fresh.vdso, has_own_filter)
            },
            entry: 0,
            stack: entry.stack(),
            mask: tracee.signal_mask().map_err(Refusal::step("read its signal mask"))?,
            changed: bootstrap.page(),
        };
        Ok((fresh, launch, bootstrap))
    }

    /// Makes the stack of a program grow down to where it is used.
    async fn grow_stack(&self, detour: &mut Detour, fresh: &Fresh) -> Result<(), Refusal> {
        let (nr, args) = fresh.grow_stack();
        let mut registers = fresh.entry;
        registers.call(self.kernel.syscall_at(fresh.vdso), nr, args);
        let grown = detour.system_call(registers).await;
        grown.map(drop).map_err(Refusal::step("let its stack grow"))
    }

    /// Sends a new program the shared memory; ends in a stop outside any call, or in one at a call that
    /// must not be made. Returns the registers with which it resumes.
    async fn hand_over(
        &self,
        detour: &mut Detour,
        fresh: &Fresh,
        bootstrap: &Bootstrap,
        suspended: bool,
    ) -> Result<(Registers, Borrowed), Refusal> {
        let tracee = detour.tracee;
        let makes_sockets = bootstrap.make_sockets(fresh.entry);
        let mut process = Err(Errno::ESRCH);
        let meanwhile = || process = Pidfd::open(tracee.0);
        let report = run(detour, Step::Sockets, makes_sockets, suspended, meanwhile).await?;
        let sockets = Bootstrap::sockets(&report);
        let borrowed = process
            .and_then(|process| Ok((process.borrow_descriptor(sockets[0])?, process)))
            .and_then(|borrowed| self.send_file(&borrowed.0).map(|()| borrowed))
            .map_err(Refusal::step("hand it the shared memory"))?;
        Ok((bootstrap.map_image(report, sockets), borrowed))
    }
}

impl Supervisor {
    /// Ends a program that reports, in these registers, that it could not start by itself.
    pub(super) fn refuse_boot(&mut self, tracee: Tracee, report: Registers) -> nix::Result<()> {
        let Err(refusal) = outcome(Step::Image, &report) else { return Ok(()) };
        self.say_refused(tracee, &refusal);
        let mut ends = report;
        ends.exit(CANNOT_RUN);
        if !tracee.is_beside_call() {
            ends.undo_call();
        }
        tracee.set_registers(ends)
    }

    fn say_refused(&self, tracee: Tracee, refusal: &Refusal) {
        let program = proc::program_of(tracee.0);
        self.say(tracee.0, &format!("{program} is not run in this timeline: {refusal}"));
    }

    /// Reports why a program cannot be let into the timeline; returns the future that ends it with the
    /// status for "cannot be run", unless it has ended.
    pub(super) fn refuse(
        &mut self,
        tracee: Tracee,
        refusal: &Refusal,
    ) -> Option<impl Future<Output = nix::Result<()>> + use<>> {
        if matches!(refusal, Refusal::Gone) {
            return None;
        }
        self.say_refused(tracee, refusal);
        // Whoever started the first program may read until no writer is left.
        self.first_stderr = None;
        Some(end_program(tracee))
    }
}

/// Ends a program whose memory may be inaccessible: its first system call becomes its last.
async fn end_program(tracee: Tracee) -> nix::Result<()> {
    let mut detour = Detour::new(tracee);
    detour.run_to_syscall().await?;
    let mut registers = tracee.registers()?;
    registers.exit(CANNOT_RUN);
    tracee.set_registers(registers)?;
    if registers.is_32_bit() {
        // The filter stops every 32-bit call; this one is the supervisor's.
        detour.run_to_filter(registers, || {}).await?;
    }
    tracee.resume(None)
}

/// Leaves the system call that started the program, whose result would otherwise
/// overwrite a register. Returns the registers at its first instruction.
async fn leave_exec(detour: &mut Detour) -> Result<Registers, Refusal> {
    detour.run_to_syscall().await.map_err(Refusal::step("leave exec"))?;
    detour.tracee.registers().map_err(Refusal::step("read its registers"))
}

/// What the program is run for.
#[derive(Clone, Copy)]
enum Step {
    Sockets,
    Image,
}

impl Step {
    fn text(self) -> &'static str {
        match self {
            Self::Sockets => "make a pair of sockets in it",
            Self::Image => "map the image in it",
        }
    }
}

/// Runs the program from these registers until it reports, which must not be a failure; ends in the
/// stop of the reporting call, or after it. Returns the registers of that call. `meanwhile` is called
/// while it runs.
async fn run(
    detour: &mut Detour,
    step: Step,
    registers: Registers,
    suspended: bool,
    meanwhile: impl FnOnce(),
) -> Result<Registers, Refusal> {
    let report = if suspended {
        meanwhile();
        detour.run_to_call(registers, is_report).await
    } else {
        detour.run_to_filter(registers, meanwhile).await.and_then(|()| detour.tracee.registers())
    };
    let report = report.map_err(Refusal::step(step.text()))?;
    outcome(step, &report).map(|()| report)
}

/// The outcome that is reported.
fn outcome(step: Step, report: &Registers) -> Result<(), Refusal> {
    let error = match report.arg(1) as i64 {
        0 => return Ok(()),
        error => Errno::from_raw(-error as i32),
    };
    Err(match (step, error) {
        // If no descriptor is free for it, the kernel passes none, without an error.
        (Step::Image, Errno::EBADF) => Refusal::Step(RECEIVE, Errno::EMFILE),
        (step, error) => Refusal::Step(step.text(), error),
    })
}
