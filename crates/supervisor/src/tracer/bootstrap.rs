//! The code that a program runs before its first instruction, in place of the last bytes of its
//! kernel's vDSO: nothing else of it that is known to us can be executed yet.
//!
//! It is one routine that takes the number and the arguments of a system call from the stack, makes
//! it, and returns to what the stack says: the next call, or the image. So all is done in one go that
//! would otherwise be three calls with two stops each. The program makes itself a pair of sockets and
//! reports that by a call that the filter stops; it takes the shared memory from one of the sockets,
//! whose other end the supervisor borrows meanwhile, so that no path is named and it works in any
//! root directory and any namespace; and it maps the image, whose `boot` goes on to the program
//! itself. A call that fails is reported instead.

use core::arch::global_asm;
use std::mem::{offset_of, size_of};

use eigentime_calls::nr;
use eigentime_vdso::{BOOTED_CLOCK, Launch, PAGE};

use super::arch::Registers;
use super::mapping::{Control, Message};
use super::plain::{Plain, bytes_of};
use super::tracee::Tracee;

global_asm!(
    ".pushsection .rodata.eigentime_bootstrap, \"a\"",
    ".balign 8",
    "eigentime_bootstrap:",
    "pop rax",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop r10",
    "pop r9",
    "add rsp, {skipped}",
    "pop r8",
    "syscall",
    "test rax, rax",
    "js 2f",
    "ret",
    "2:",
    "mov rsi, rax",
    "mov edi, {booted}",
    "mov eax, {clock_gettime}",
    "syscall",
    ".balign 8",
    "eigentime_bootstrap_end:",
    ".popsection",
    skipped = const offset_of!(Call, r8) - offset_of!(Call, skipped),
    booted = const BOOTED_CLOCK,
    clock_gettime = const libc::SYS_clock_gettime,
);

unsafe extern "C" {
    #[link_name = "eigentime_bootstrap"]
    static START: u8;
    #[link_name = "eigentime_bootstrap_end"]
    static END: u8;
}

/// Its bytes: whole words.
fn code() -> &'static [u8] {
    let (start, end) = (&raw const START, &raw const END);
    // SAFETY: these are bytes between two labels of one section, which nobody writes.
    unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

/// What the routine takes from the stack.
#[repr(C)]
struct Call {
    nr: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    r10: u64,
    r9: u64,
    /// The head of a control message, whose descriptor is the argument that follows.
    skipped: [u64; 2],
    r8: u64,
    /// Where it goes on.
    then: u64,
}

/// The stack for all of it, from the lowest address on.
#[repr(C)]
pub struct Chain {
    sockets: Call,
    report: Call,
    map: Call,
    /// Here the stack pointer is when the image begins.
    launch: Launch,
    message: Message,
}

impl Plain for Chain {}

/// How the image's code is mapped.
pub struct Image {
    /// What the program takes for its vDSO.
    pub header: u64,
    /// Where the code is to be, and how long it is.
    pub address: u64,
    pub size: u64,
    /// Where it lies in the shared memory.
    pub offset: u64,
    /// Its function that sets up its pages.
    pub boot: u64,
}

/// Is it the call by which the bootstrap and the image report?
pub fn is_report(registers: &Registers) -> bool {
    registers.nr() == nr::CLOCK_GETTIME && registers.arg(0) as u32 == BOOTED_CLOCK
}

/// The code in a program.
pub struct Bootstrap {
    tracee: Tracee,
    address: u64,
    /// What is there otherwise.
    original: &'static [u8],
    /// Where the program's [`Chain`] is.
    stack: u64,
}

impl Bootstrap {
    /// For a program with such a vDSO at `vdso`; its stack can be used from `stack` on, which is a
    /// multiple of 16.
    pub fn new(tracee: Tracee, vdso: u64, bytes: &'static [u8], stack: u64) -> Self {
        // In one page, as those are multiples of it.
        let within = (bytes.len() - code().len()) & !7;
        let original = &bytes[within..within + code().len()];
        Self { tracee, address: vdso + within as u64, original, stack }
    }

    /// Puts the code into the program, the chain on its stack, and the image's address to `slot`.
    pub fn put(&self, image: &Image, launch: Launch, slot: u64) -> nix::Result<()> {
        let (chain, address) = (self.chain(image, launch), image.header.to_ne_bytes());
        self.tracee.write_parts([(self.stack, bytes_of(&chain)), (slot, &address)])?;
        self.write(code())
    }

    fn chain(&self, image: &Image, launch: Launch) -> Chain {
        let at = |offset: usize| self.stack + offset as u64;
        let call = |nr: libc::c_long, [rdi, rsi, rdx, r10]: [u64; 4], then| Call {
            nr: nr as u64,
            rdi,
            rsi,
            rdx,
            r10,
            r9: 0,
            skipped: [0; 2],
            // No descriptor.
            r8: u64::MAX,
            then,
        };
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
        let pair = at(offset_of!(Chain, report.rdx));
        let access = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let how = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
        let map = [image.address, image.size, access, how];
        Chain {
            sockets: call(
                libc::SYS_socketpair,
                [libc::AF_UNIX as u64, kind, 0, pair],
                self.address,
            ),
            report: call(libc::SYS_clock_gettime, [BOOTED_CLOCK.into(), 0, 0, 0], self.address),
            map: Call { r9: image.offset, ..call(libc::SYS_mmap, map, image.boot) },
            launch,
            // Its descriptor becomes an argument of mmap.
            message: Message::new(
                at(offset_of!(Chain, message)),
                at(offset_of!(Chain, map.skipped)),
            ),
        }
    }

    /// Is there nothing else where it is put? Then it can stay until the program lets go of the page,
    /// or for good where the kernel seals the vDSO.
    pub fn is_in_padding(&self) -> bool {
        self.original.iter().all(|byte| *byte == 0)
    }

    /// The page that it is put into.
    pub fn page(&self) -> u64 {
        self.address & !(PAGE as u64 - 1)
    }

    /// Puts back what was there.
    pub fn remove(self) -> nix::Result<()> {
        self.write(self.original)
    }

    fn write(&self, bytes: &[u8]) -> nix::Result<()> {
        let (words, _) = bytes.as_chunks();
        (self.address..)
            .step_by(8)
            .zip(words)
            .try_for_each(|(address, word)| self.tracee.poke(address, u64::from_ne_bytes(*word)))
    }

    /// Has it make the sockets and report.
    pub fn make_sockets(&self, mut registers: Registers) -> Registers {
        registers.jump(self.address);
        registers.0.rsp = self.stack;
        registers
    }

    /// The sockets that it has made.
    pub fn sockets(report: &Registers) -> [u32; 2] {
        let pair = report.arg(2);
        [pair as u32, (pair >> 32) as u32]
    }

    /// Has it take the shared memory from the second of its sockets instead of reporting, map the
    /// image, and run that.
    pub fn map_image(&self, mut report: Registers, [first, second]: [u32; 2]) -> Registers {
        const SYSCALL: u64 = 2;
        let header = self.stack + offset_of!(Chain, message) as u64;
        let flags = libc::MSG_CMSG_CLOEXEC as u64;
        let args = [second.into(), header, flags, 0, 0, 0];
        report.call(report.ip() - SYSCALL, libc::SYS_recvmsg, args);
        [report.0.rbx, report.0.rbp] = [first.into(), second.into()];
        report
    }
}

const _: () = {
    assert!(offset_of!(Call, r8) - offset_of!(Call, skipped) == offset_of!(Control, descriptor));
    assert!(size_of::<Control>() == offset_of!(Control, descriptor) + 8);
    // The ABI's alignment of the stack.
    assert!(offset_of!(Chain, launch).is_multiple_of(16));
};
