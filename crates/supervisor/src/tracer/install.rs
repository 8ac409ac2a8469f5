//! Gives a program that has just been started the image in place of the kernel's
//! vDSO.
//!
//! The program gets the shared memory as a descriptor by the `bootstrap`; nothing stays open in it.

use std::io::IoSlice;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use eigentime_vdso::{BOOTED_CLOCK, IMAGE, IMAGE_OFFSET, Launch, symbols};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::arch::Registers;
use super::bootstrap::{Bootstrap, Image};
use super::detour::Detour;
use super::filtered::CLOCK_GETTIME;
use super::mapping::Failed;
use super::tracee::{Process, Tracee};
use super::visit::Visit;
use super::{Supervisor, notes};

/// A socket of a program, and the program.
pub type Borrowed = (OwnedFd, Process);

/// Why a program cannot be let into the timeline.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It is a 32-bit program.
    #[error("it is a 32-bit program, whose calls are not translated")]
    ThirtyTwoBits,
    /// Its memory is closed to the user.
    #[error("it may be executed but not read by this user, so it cannot be prepared")]
    Unreadable,
    /// The kernel gave it no vDSO.
    #[error("the kernel gave it no vDSO to read the clocks by")]
    NoVdso,
    /// A step failed.
    #[error("{0}: {error}", error = .1.desc())]
    Step(&'static str, Errno),
    /// It ended meanwhile.
    #[error("it ended")]
    Gone,
}

impl Refusal {
    fn step(step: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| match error {
            Errno::ESRCH => Self::Gone,
            Errno::EPERM => Self::Unreadable,
            error => Self::Step(step, error),
        }
    }
}

/// How far below the stack pointer its stack is used. The kernel maps 128 KiB of
/// stack for a new program (`setup_arg_pages` in fs/exec.c).
const DEPTH: u64 = 4096;

/// The signals that can arrive while the program is being prepared are kept back.
const ALL_SIGNALS: u64 = u64::MAX;

/// The exit status that says that a program cannot be run.
const CANNOT_RUN: u64 = 126;

/// AT_SYSINFO_EHDR.
const VDSO_ENTRY: u64 = 33;
const END_OF_VECTOR: u64 = 0;

impl Supervisor {
    /// Prepares the program that `tracee` has just started; it is in the stop that
    /// announces that. Returns what can be closed once it goes on.
    pub(super) fn install(&mut self, tracee: Tracee) -> Result<Option<Borrowed>, Refusal> {
        let mut detour = Detour::new(tracee);
        let visits = self.thread(tracee).visitor.is_some();
        let (fresh, launch, bootstrap) = match self.place_bootstrap(tracee, visits) {
            Ok(placed) => placed,
            Err(refusal) => {
                leave_exec(&mut detour)?;
                return Err(refusal);
            }
        };
        tracee.set_signal_mask(ALL_SIGNALS).map_err(Refusal::step("block its signals"))?;
        // A container's own filter may forbid what follows.
        let suspended = visits && tracee.suspend_filters();
        if suspended {
            // From here on its calls are followed one by one.
            leave_exec(&mut detour)?;
        }
        let prepared = match self.hand_over(&mut detour, &fresh, &bootstrap, suspended) {
            Ok((goes_on, borrowed)) if launch.entry != 0 => {
                tracee.set_registers(goes_on).map_err(Refusal::step("set its registers"))?;
                detour.end(tracee.0).map_err(Refusal::step("give back a signal"))?;
                self.thread(tracee).boots = true;
                return Ok(Some(borrowed));
            }
            Ok((goes_on, borrowed)) => {
                run(&mut detour, Step::Image, goes_on, suspended, || drop(borrowed))
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
        // The process was started by exec: it has this one thread.
        detour.end(tracee.0).map_err(Refusal::step("give back a signal"))?;
        Ok(None)
    }

    /// Looks at a program that is in that stop, and writes what it needs to run the bootstrap. By
    /// that it starts by itself, but for the first program of a visit, and where the bootstrap cannot
    /// stay.
    fn place_bootstrap(
        &self,
        tracee: Tracee,
        visits: bool,
    ) -> Result<(Fresh, Launch, Bootstrap), Refusal> {
        let entry = tracee.registers().map_err(Refusal::step("read its registers"))?;
        let fresh = Fresh::examine(tracee, entry)?;
        let bootstrap = Bootstrap::new(tracee, fresh.vdso, self.kernel.bytes(), fresh.stack);
        let starts = !visits && bootstrap.is_in_padding();
        let launch = Launch {
            kernel: self.functions_at(fresh.vdso),
            entry: if starts { entry.ip() } else { 0 },
            stack: entry.stack(),
            mask: tracee.signal_mask().map_err(Refusal::step("read its signal mask"))?,
            changed: bootstrap.page(),
        };
        let layout = self.region.layout;
        let image = Image {
            address: layout.image(),
            size: IMAGE.len() as u64,
            offset: IMAGE_OFFSET as u64,
            boot: layout.symbol(symbols::BOOT),
        };
        let put = bootstrap.put(&image, launch, fresh.slot);
        put.map_err(Refusal::step("write to its memory"))?;
        Ok((fresh, launch, bootstrap))
    }

    /// Sends a new program the shared memory; ends in a stop outside of any call, or in one of a call
    /// that is not to be made. Returns the registers with which it goes on.
    fn hand_over(
        &self,
        detour: &mut Detour,
        fresh: &Fresh,
        bootstrap: &Bootstrap,
        suspended: bool,
    ) -> Result<(Registers, Borrowed), Refusal> {
        let tracee = detour.tracee;
        let makes_sockets = bootstrap.make_sockets(fresh.entry);
        let mut process = Err(Errno::ESRCH);
        let meanwhile = || process = Process::open(tracee);
        let report = run(detour, Step::Sockets, makes_sockets, suspended, meanwhile)?;
        let sockets = Bootstrap::sockets(&report);
        let borrowed = process
            .and_then(|process| Ok((process.borrow_descriptor(sockets[0])?, process)))
            .and_then(|borrowed| self.send_file(&borrowed.0).map(|()| borrowed))
            .map_err(Refusal::step("hand it the shared memory"))?;
        Ok((bootstrap.map_image(report, sockets), borrowed))
    }

    /// Ends a program that reports, by these registers, that it could not be started by itself.
    pub(super) fn refuse_boot(&mut self, tracee: Tracee, report: Registers) -> nix::Result<()> {
        let Err(refusal) = outcome(Step::Image, &report) else { return tracee.resume(None) };
        self.say_refused(tracee, &refusal);
        let mut ends = report;
        ends.exit(CANNOT_RUN);
        tracee.set_registers(ends)?;
        tracee.resume(None)
    }

    /// Prepares the program that `tracee` has just started and that no filter stops. It
    /// can be let go then.
    pub(super) fn install_unfiltered(&mut self, tracee: Tracee) -> Result<(), Refusal> {
        let mut detour = Detour::new(tracee);
        let entry = leave_exec(&mut detour)?;
        let Fresh { slot, vdso, stack, .. } = Fresh::examine(tracee, entry)?;
        let visit = Visit::new(tracee, self.kernel.syscall_at(vdso));
        let mut visit = visit.map_err(Refusal::step("read its registers"))?;
        let mapped = self.map_region(&mut visit, stack);
        visit.end(tracee.0).map_err(Refusal::step("let it go on"))?;
        mapped.map_err(|Failed(step, error)| Refusal::step(step)(error))?;
        self.write_functions(tracee, vdso).map_err(Refusal::step("write to its memory"))?;
        let image = self.region.layout.image();
        tracee.write_words(slot, &[image]).map_err(Refusal::step("change its auxiliary vector"))?;
        detour.end(tracee.0).map_err(Refusal::step("give back a signal"))
    }

    /// Sends the shared memory through a socket of the program.
    pub(super) fn send_file(&self, socket: &OwnedFd) -> nix::Result<()> {
        let descriptors = [self.region.file().as_raw_fd()];
        let message = [ControlMessage::ScmRights(&descriptors)];
        let bytes = [IoSlice::new(&[0])];
        sendmsg::<()>(socket.as_raw_fd(), &bytes, &message, MsgFlags::MSG_NOSIGNAL, None).map(drop)
    }

    fn say_refused(&self, tracee: Tracee, refusal: &Refusal) {
        let program = notes::program_of(tracee.0);
        self.say(tracee.0, &format!("{program} is not run in this timeline: {refusal}"));
    }

    /// Ends a program that cannot be let into the timeline, with a word on its
    /// standard error and the status that says "cannot be run".
    pub(super) fn refuse(&mut self, tracee: Tracee, refusal: &Refusal) -> nix::Result<()> {
        if matches!(refusal, Refusal::Gone) {
            return Ok(());
        }
        self.say_refused(tracee, refusal);
        // Its memory may be closed to us; its first system call becomes its last.
        let mut detour = Detour::new(tracee);
        detour.run_to_syscall()?;
        let mut registers = tracee.registers()?;
        registers.exit(CANNOT_RUN);
        tracee.set_registers(registers)?;
        if registers.is_32_bit() {
            // The filter stops every 32-bit call; this one is ours.
            detour.run_to_filter(registers, || {})?;
        }
        tracee.resume(None)
    }
}

/// A program at its first instruction.
struct Fresh {
    entry: Registers,
    /// Where its auxiliary vector holds the address of its vDSO, and that address.
    slot: u64,
    vdso: u64,
    /// Where its stack can be used.
    stack: u64,
}

impl Fresh {
    /// Looks at what exec has made; 32-bit programs are refused.
    fn examine(tracee: Tracee, entry: Registers) -> Result<Self, Refusal> {
        if entry.is_32_bit() {
            return Err(Refusal::ThirtyTwoBits);
        }
        let (slot, vdso) = find_vdso(tracee, entry.stack())?;
        Ok(Self { entry, slot, vdso, stack: (entry.stack() - DEPTH) & !0xff })
    }
}

/// Leaves the system call that started the program, whose result would otherwise
/// overwrite a register. Returns the registers at its first instruction.
fn leave_exec(detour: &mut Detour) -> Result<Registers, Refusal> {
    detour.run_to_syscall().map_err(Refusal::step("leave exec"))?;
    detour.tracee.registers().map_err(Refusal::step("read its registers"))
}

/// What the program is let run for.
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

/// Lets the program run from these registers until it reports, which must not be a failure; ends in
/// the stop of the call by which it reports, or behind that. Returns the registers of that call.
/// `meanwhile` is done while it runs.
fn run(
    detour: &mut Detour,
    step: Step,
    registers: Registers,
    suspended: bool,
    meanwhile: impl FnOnce(),
) -> Result<Registers, Refusal> {
    let report = if suspended {
        meanwhile();
        detour.run_to_call(registers, is_report)
    } else {
        detour.run_to_filter(registers, meanwhile).and_then(|()| detour.tracee.registers())
    };
    let report = report.map_err(Refusal::step(step.text()))?;
    outcome(step, &report).map(|()| report)
}

/// What is reported.
fn outcome(step: Step, report: &Registers) -> Result<(), Refusal> {
    match report.arg(1) as i64 {
        0 => Ok(()),
        error => Err(Refusal::Step(step.text(), Errno::from_raw(-error as i32))),
    }
}

/// Is it the call by which the bootstrap and the image report?
pub fn is_report(registers: &Registers) -> bool {
    registers.nr() == CLOCK_GETTIME && registers.arg(0) as u32 == BOOTED_CLOCK
}

/// What the kernel or a program is told in memory.
pub trait Plain {}
impl Plain for eigentime_vdso::KernelFunctions {}

/// The bytes of a structure.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain data without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// Where the auxiliary vector of a new program holds the address of its vDSO, and that address. On
/// its stack lie the number of arguments, the arguments, a null, the environment, a
/// null, and the vector.
fn find_vdso(tracee: Tracee, stack: u64) -> Result<(u64, u64), Refusal> {
    let mut words = Words::new(tracee, stack);
    let mut next = || words.next().map_err(Refusal::step("read its auxiliary vector"));
    let (_, arguments) = next()?;
    for _ in 0..=arguments {
        next()?;
    }
    while next()?.1 != 0 {}
    loop {
        let ((_, kind), value) = (next()?, next()?);
        match kind {
            VDSO_ENTRY => return Ok(value),
            END_OF_VECTOR => return Err(Refusal::NoVdso),
            _ => {}
        }
    }
}

/// Words of a program's memory, read in larger pieces.
struct Words {
    tracee: Tracee,
    start: u64,
    buffer: [u8; 2048],
    filled: usize,
    used: usize,
}

impl Words {
    fn new(tracee: Tracee, start: u64) -> Self {
        Self { tracee, start, buffer: [0; 2048], filled: 0, used: 0 }
    }

    /// The next word, and its address.
    fn next(&mut self) -> nix::Result<(u64, u64)> {
        if self.used == self.filled {
            self.start += self.used as u64;
            self.used = 0;
            self.filled = self.tracee.read_some(self.start, &mut self.buffer)? & !7;
            if self.filled == 0 {
                return Err(Errno::EFAULT);
            }
        }
        let address = self.start + self.used as u64;
        let bytes = &self.buffer[self.used..self.used + 8];
        self.used += 8;
        Ok((address, u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))))
    }
}
