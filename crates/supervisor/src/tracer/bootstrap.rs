//! The code that a program runs before its first instruction, in place of the last bytes of its
//! kernel's vDSO: nothing else of it can be executed yet that is known to us. In one go it makes
//! what would otherwise be three system calls with two stops each.
//!
//! It takes the shared memory over a socket pair of its own, whose other end the supervisor borrows
//! meanwhile: no path is named, so it works in any root directory and any namespace. Then it maps the
//! image, whose `boot` closes what is open. It tells of both by the call that the filter stops.

use core::arch::global_asm;
use std::mem::offset_of;

use eigentime_vdso::BOOTED_CLOCK;

use super::arch::Registers;
use super::install::{Block, Control};
use super::tracee::Tracee;

global_asm!(
    ".pushsection .rodata.eigentime_bootstrap, \"a\"",
    ".balign 8",
    "eigentime_bootstrap:",
    // The arguments are set already.
    "mov eax, {socketpair}",
    "syscall",
    "mov rdx, [r10]",
    "jmp 2f",
    "eigentime_bootstrap_receive:",
    "mov eax, {recvmsg}",
    "syscall",
    "test rax, rax",
    "js 2f",
    // mmap(image, its size, PROT_READ | PROT_EXEC, how, the descriptor, its offset)
    "mov r8d, [r15 + {descriptor}]",
    "mov rdi, r12",
    "mov rsi, r13",
    "mov edx, 5",
    "mov eax, {mmap}",
    "syscall",
    "cmp rax, r12",
    "jne 2f",
    // boot(the descriptor, first, second, image, the block)
    "mov edi, r8d",
    "mov esi, ebx",
    "mov edx, ebp",
    "mov rcx, r12",
    "mov r8, r15",
    "jmp r14",
    "2:",
    "mov rsi, rax",
    "mov edi, {booted}",
    "mov eax, {clock_gettime}",
    "syscall",
    "ud2",
    ".balign 8",
    "eigentime_bootstrap_end:",
    ".popsection",
    socketpair = const libc::SYS_socketpair,
    recvmsg = const libc::SYS_recvmsg,
    mmap = const libc::SYS_mmap,
    clock_gettime = const libc::SYS_clock_gettime,
    booted = const BOOTED_CLOCK,
    descriptor = const offset_of!(Block, control) + offset_of!(Control, descriptor),
);

unsafe extern "C" {
    #[link_name = "eigentime_bootstrap"]
    static START: u8;
    #[link_name = "eigentime_bootstrap_receive"]
    static RECEIVE: u8;
    #[link_name = "eigentime_bootstrap_end"]
    static END: u8;
}

/// Its bytes: whole words.
fn code() -> &'static [u8] {
    let (start, end) = (&raw const START, &raw const END);
    // SAFETY: these are bytes between two labels of one section, which nobody writes.
    unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

/// How the image is mapped and entered.
pub struct Image {
    pub address: u64,
    pub size: u64,
    /// Where it lies in the shared memory.
    pub offset: u64,
    /// Its function that sets up its pages, and the stack for that.
    pub boot: u64,
    pub stack: u64,
}

/// The code in a program.
pub struct Bootstrap {
    tracee: Tracee,
    address: u64,
    /// What is there otherwise.
    original: &'static [u8],
    /// Where the program's [`Block`] is.
    block: u64,
}

impl Bootstrap {
    /// Puts it into the vDSO at `vdso`, whose bytes are these.
    pub fn put(tracee: Tracee, vdso: u64, bytes: &'static [u8], block: u64) -> nix::Result<Self> {
        let within = (bytes.len() - code().len()) & !7;
        let original = &bytes[within..within + code().len()];
        let bootstrap = Self { tracee, address: vdso + within as u64, original, block };
        bootstrap.write(code()).map(|()| bootstrap)
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

    /// Makes it make a pair of sockets, and report. (What leaves exec overwrites rax.)
    pub fn make_sockets(&self, registers: &mut Registers) {
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
        let sockets = self.block + offset_of!(Block, sockets) as u64;
        registers.call(self.address, 0, [libc::AF_UNIX as u64, kind, 0, sockets, 0, 0]);
    }

    /// The sockets that it has made, by its report.
    pub fn sockets(report: &Registers) -> [u32; 2] {
        let pair = report.arg(2);
        [pair as u32, (pair >> 32) as u32]
    }

    /// Makes it take the shared memory from the second of its sockets, map the image, and have that
    /// report.
    pub fn map_image(&self, registers: &mut Registers, sockets: [u32; 2], image: &Image) {
        let [first, second] = sockets.map(u64::from);
        let receive = (&raw const RECEIVE).addr() - (&raw const START).addr();
        let header = self.block + offset_of!(Block, header) as u64;
        let flags = libc::MSG_CMSG_CLOEXEC as u64;
        let how = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
        let args = [second, header, flags, how, 0, image.offset];
        registers.call(self.address + receive as u64, 0, args);
        let r = &mut registers.0;
        [r.r12, r.r13, r.r14, r.r15] = [image.address, image.size, image.boot, self.block];
        [r.rbx, r.rbp, r.rsp] = [first, second, image.stack];
    }
}
