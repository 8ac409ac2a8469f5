//! Gives a program that has just been started the image in place of the kernel's
//! vDSO.
//!
//! The program gets the shared memory as a descriptor over a socket pair of its
//! own, whose other end the supervisor borrows: no path is named, so it works in
//! any root directory and any namespace, and nothing stays open in the program.

use std::io::IoSlice;
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;

use eigentime_vdso::{BOOTED_CLOCK, IMAGE, IMAGE_OFFSET, symbols};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::arch::Registers;
use super::detour::Detour;
use super::filtered::CLOCK_GETTIME;
use super::mapping::Failed;
use super::tracee::Tracee;
use super::visit::Visit;
use super::{Supervisor, notes};

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

/// What is put on the program's stack, below what it uses, for the steps.
#[repr(C)]
pub struct Block {
    kernel: eigentime_vdso::KernelFunctions,
    pub sockets: [i32; 2],
    pub header: Header,
    bytes: Bytes,
    pub control: Control,
    byte: u64,
}

/// `struct msghdr`.
#[repr(C)]
pub struct Header {
    name: u64,
    name_len: u64,
    bytes: u64,
    bytes_len: u64,
    control: u64,
    control_len: u64,
    flags: u64,
}

/// `struct iovec`.
#[repr(C)]
struct Bytes {
    base: u64,
    len: u64,
}

/// `struct cmsghdr` with one descriptor.
#[repr(C)]
pub struct Control {
    len: u64,
    level: i32,
    kind: i32,
    pub descriptor: i32,
    padding: i32,
}

/// How far below the stack pointer the block is put. The kernel maps 128 KiB of
/// stack for a new program (`setup_arg_pages` in fs/exec.c).
const BLOCK_DEPTH: u64 = 4096;

/// The signals that can arrive while the program is being prepared are kept back.
const ALL_SIGNALS: u64 = u64::MAX;

/// The exit status that says that a program cannot be run.
const CANNOT_RUN: u64 = 126;

/// AT_SYSINFO_EHDR.
const VDSO_ENTRY: u64 = 33;
const END_OF_VECTOR: u64 = 0;

impl Supervisor {
    /// Prepares the program that `tracee` has just started; it is in the stop that
    /// announces that.
    pub(super) fn install(&mut self, tracee: Tracee) -> Result<(), Refusal> {
        let mut detour = Detour::new(tracee);
        let fresh = Fresh::examine(&mut detour)?;
        let mask = tracee.signal_mask().map_err(Refusal::step("read its signal mask"))?;
        tracee.set_signal_mask(ALL_SIGNALS).map_err(Refusal::step("block its signals"))?;
        // A container's own filter may forbid what follows.
        let suspended = self.thread(tracee).visitor.is_some() && tracee.suspend_filters();
        let prepared = self.prepare_fresh(&mut detour, &fresh, suspended);
        let mut after = fresh.entry;
        if prepared.is_err() {
            let args = [CANNOT_RUN, 0, 0, 0, 0, 0];
            after.call(self.kernel.syscall_at(fresh.vdso), libc::SYS_exit_group, args);
        }
        tracee.set_registers(after).map_err(Refusal::step("set its registers"))?;
        if suspended {
            tracee.end_with_tracer().map_err(Refusal::step("put its filters in force"))?;
        }
        prepared?;
        tracee.set_signal_mask(mask).map_err(Refusal::step("restore its signal mask"))?;
        // The process was started by exec: it has this one thread.
        detour.end(tracee.0).map_err(Refusal::step("give back a signal"))
    }

    /// Lets a new program take the shared memory and map the image; ends in a stop outside
    /// of any call, or in one of a call that is not to be made.
    fn prepare_fresh(
        &mut self,
        detour: &mut Detour,
        fresh: &Fresh,
        suspended: bool,
    ) -> Result<(), Refusal> {
        let Fresh { entry, slot, vdso, stack } = *fresh;
        let tracee = detour.tracee;
        let layout = self.region.layout;
        let block = block_at(stack, self.functions_at(vdso));
        write_block(tracee, stack, &block)?;

        // The program makes itself a pair of sockets; through one end of it the
        // supervisor sends the descriptor that the program takes from the other.
        let call = |registers: &mut Registers, nr, args| {
            registers.call(self.kernel.syscall_at(vdso), nr, args);
        };
        let mut registers = entry;
        let at = |offset: usize| stack + offset as u64;
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
        let unix = libc::AF_UNIX as u64;
        let sockets = at(offset_of!(Block, sockets));
        call(&mut registers, libc::SYS_socketpair, [unix, kind, 0, sockets, 0, 0]);
        run(detour, "make a pair of sockets in it", registers)?;
        let [pair] = tracee.read_words(sockets).map_err(Refusal::step("read its sockets"))?;
        let (first, second) = (pair as u32, (pair >> 32) as u32);
        self.send_file(tracee, first).map_err(Refusal::step("hand it the shared memory"))?;

        let header = at(offset_of!(Block, header));
        let flags = libc::MSG_CMSG_CLOEXEC as u64;
        call(&mut registers, libc::SYS_recvmsg, [u64::from(second), header, flags, 0, 0, 0]);
        run(detour, "receive the shared memory in it", registers)?;
        let [descriptor] = tracee
            .read_words(at(offset_of!(Block, control) + offset_of!(Control, descriptor)))
            .map_err(Refusal::step("read its descriptor"))?;
        let file = u64::from(descriptor as u32);

        let image = layout.image();
        let size = IMAGE.len() as u64;
        let access = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let how = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
        call(&mut registers, libc::SYS_mmap, [image, size, access, how, file, IMAGE_OFFSET as u64]);
        run(detour, "map the image in it", registers)?;

        let boot_stack = stack - 0x100;
        let function = layout.symbol(symbols::BOOT);
        registers.enter(
            function,
            boot_stack,
            [file, u64::from(first), u64::from(second), image, stack],
        );
        boot(detour, registers, suspended)?;
        tracee.write_words(slot, &[image]).map_err(Refusal::step("change its auxiliary vector"))
    }

    /// Prepares the program that `tracee` has just started and that no filter stops. It
    /// can be let go then.
    pub(super) fn install_unfiltered(&mut self, tracee: Tracee) -> Result<(), Refusal> {
        let mut detour = Detour::new(tracee);
        let Fresh { slot, vdso, stack, .. } = Fresh::examine(&mut detour)?;
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
    pub(super) fn send_file(&self, tracee: Tracee, socket: u32) -> nix::Result<()> {
        let socket = tracee.borrow_descriptor(socket)?;
        let descriptors = [self.region.file().as_raw_fd()];
        let message = [ControlMessage::ScmRights(&descriptors)];
        let bytes = [IoSlice::new(&[0])];
        sendmsg::<()>(socket.as_raw_fd(), &bytes, &message, MsgFlags::MSG_NOSIGNAL, None).map(drop)
    }

    /// Ends a program that cannot be let into the timeline, with a word on its
    /// standard error and the status that says "cannot be run".
    pub(super) fn refuse(&mut self, tracee: Tracee, refusal: &Refusal) -> nix::Result<()> {
        if matches!(refusal, Refusal::Gone) {
            return Ok(());
        }
        let program = notes::program_of(tracee.0);
        self.say(tracee.0, &format!("{program} is not run in this timeline: {refusal}"));
        // Its memory may be closed to us; its first system call becomes its last.
        let mut detour = Detour::new(tracee);
        detour.run_to_syscall()?;
        let mut registers = tracee.registers()?;
        registers.exit(CANNOT_RUN);
        tracee.set_registers(registers)?;
        if registers.is_32_bit() {
            // The filter stops every 32-bit call; this one is ours.
            detour.run_to_filter(registers)?;
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
    /// Leaves exec and looks at what it has made; 32-bit programs are refused.
    fn examine(detour: &mut Detour) -> Result<Self, Refusal> {
        let entry = leave_exec(detour)?;
        if entry.is_32_bit() {
            return Err(Refusal::ThirtyTwoBits);
        }
        let tracee = detour.tracee;
        let slot = vdso_slot(tracee, entry.stack())?;
        let [vdso] = tracee.read_words(slot).map_err(Refusal::step("read its auxiliary vector"))?;
        Ok(Self { entry, slot, vdso, stack: (entry.stack() - BLOCK_DEPTH) & !0xff })
    }
}

/// Leaves the system call that started the program, whose result would otherwise
/// overwrite a register. Returns the registers at its first instruction.
fn leave_exec(detour: &mut Detour) -> Result<Registers, Refusal> {
    detour.run_to_syscall().map_err(Refusal::step("leave exec"))?;
    detour.tracee.registers().map_err(Refusal::step("read its registers"))
}

/// Makes the program make a system call, which must not fail.
fn run(detour: &mut Detour, step: &'static str, registers: Registers) -> Result<(), Refusal> {
    match detour.system_call(registers).map_err(Refusal::step(step))? {
        error @ -4095..0 => Err(Refusal::Step(step, Errno::from_raw(-error as i32))),
        _ => Ok(()),
    }
}

/// Lets the image set up its pages; ends in the stop of the call by which it reports, or
/// behind that.
fn boot(detour: &mut Detour, registers: Registers, suspended: bool) -> Result<(), Refusal> {
    const STEP: &str = "set up the image in it";
    let reported = match suspended {
        true => detour.run_to_call(registers, is_report),
        false => detour.run_to_filter(registers).and_then(|()| detour.tracee.registers()),
    };
    match reported.map_err(Refusal::step(STEP))?.arg(1) as i64 {
        0 => Ok(()),
        error => Err(Refusal::Step(STEP, Errno::from_raw(-error as i32))),
    }
}

/// Is it the call by which the image reports?
fn is_report(registers: &Registers) -> bool {
    registers.nr() == CLOCK_GETTIME && registers.arg(0) as u32 == BOOTED_CLOCK
}

fn write_block(tracee: Tracee, to: u64, block: &Block) -> Result<(), Refusal> {
    tracee.write(to, bytes_of(block)).map_err(Refusal::step("write to its stack"))
}

/// What the kernel or a program is told in memory.
pub trait Plain {}
impl Plain for Block {}
impl Plain for eigentime_vdso::KernelFunctions {}

/// The bytes of a structure.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain data without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// Fills the block for an address.
pub fn block_at(address: u64, kernel: eigentime_vdso::KernelFunctions) -> Block {
    let at = |offset: usize| address + offset as u64;
    Block {
        kernel,
        sockets: [-1; 2],
        header: Header {
            name: 0,
            name_len: 0,
            bytes: at(offset_of!(Block, bytes)),
            bytes_len: 1,
            control: at(offset_of!(Block, control)),
            control_len: size_of::<Control>() as u64,
            flags: 0,
        },
        bytes: Bytes { base: at(offset_of!(Block, byte)), len: 1 },
        control: Control { len: 0, level: 0, kind: 0, descriptor: -1, padding: 0 },
        byte: 0,
    }
}

/// Where the auxiliary vector of a new program holds the address of its vDSO. On
/// its stack lie the number of arguments, the arguments, a null, the environment, a
/// null, and the vector.
fn vdso_slot(tracee: Tracee, stack: u64) -> Result<u64, Refusal> {
    const STEP: &str = "read its auxiliary vector";
    let [arguments] = tracee.read_words(stack).map_err(Refusal::step(STEP))?;
    let mut words = Words::new(tracee, stack + 8 * (1 + arguments + 1));
    while words.next().map_err(Refusal::step(STEP))? != 0 {}
    loop {
        match words.next().map_err(Refusal::step(STEP))? {
            VDSO_ENTRY => return Ok(words.address()),
            END_OF_VECTOR => return Err(Refusal::NoVdso),
            _ => words.next().map_err(Refusal::step(STEP))?,
        };
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

    /// The address of the next word.
    fn address(&self) -> u64 {
        self.start + self.used as u64
    }

    fn next(&mut self) -> nix::Result<u64> {
        if self.used == self.filled {
            self.start = self.address();
            self.used = 0;
            self.filled = self.tracee.read_some(self.start, &mut self.buffer)? & !7;
            if self.filled == 0 {
                return Err(Errno::EFAULT);
            }
        }
        let bytes = &self.buffer[self.used..self.used + 8];
        self.used += 8;
        Ok(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
    }
}
