//! x86-64.

use std::arch::global_asm;
use std::mem::offset_of;
use std::ops::Range;

use eigentime_calls::{Nr, nr};
use eigentime_vdso::symbols::Symbol;
use eigentime_vdso::{BOOTED_CLOCK, Frame, INTERRUPTED, PAGE, RED_ZONE, symbols};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::StackedCall;

/// The architecture in ELF headers.
pub const ELF_MACHINE: u16 = object::elf::EM_X86_64;

/// The system call instruction, `syscall`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];
pub const SYSCALL_LENGTH: u64 = SYSCALL.len() as u64;

/// The addresses that programs can use; the lowest are reserved.
pub const USABLE: Range<u64> = 0x1_0000..0x7fff_ffff_f000;

/// The addresses for regions: below everything that the kernel places itself (whose mappings start
/// within 2^40 bytes of the top of the 47-bit space), and in a part that ThreadSanitizer treats as
/// the application's.
pub const REGION_WINDOW: Range<u64> = 0x7e90_0000_0000..0x7ee0_0000_0000;

/// The start of the vsyscall page, whose three functions are 1024 bytes apart.
const VSYSCALL_PAGE: u64 = 0xffff_ffff_ff60_0000;

/// The code segment of 32-bit programs.
const CODE_SEGMENT_32: u64 = 0x23;

/// The kernel's value for "no system call".
const NO_CALL: u64 = u64::MAX;

/// The addresses at which nothing has been done in the image yet, besides [`SAVES_FLAGS`].
const STARTS: [Symbol; 3] = [symbols::ENTER, symbols::ENTERED, symbols::REWRITTEN];

// The kernel restarts a call by moving back over these bytes.
const _: () = {
    let [enter, interrupted] = [symbols::ENTER, symbols::INTERRUPTED];
    let length = symbols::OFFSETS[interrupted.0].1 - symbols::OFFSETS[enter.0].1;
    assert!(length as u64 == SYSCALL_LENGTH);
};

/// Where the image saves the flags; after a single step over one of these, they contain
/// [`STEP_FLAG`].
pub const SAVES_FLAGS: [Symbol; 2] = [symbols::ENTER_FLAGS, symbols::REWRITTEN_FLAGS];

/// Where the image restores the flags; a single step would leave the flag in them.
pub const RESTORES_FLAGS: [Symbol; 2] = [symbols::LEAVE_FLAGS, symbols::PASS_FLAGS];

/// The single-step flag (TF).
pub const STEP_FLAG: u64 = 0x100;

/// `jmp [rip]`, followed by the target address.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
pub const FAR_JUMP_LENGTH: usize = JUMP.len() + 8;

/// A jump to any address that changes no register.
pub fn far_jump(to: u64) -> [u8; FAR_JUMP_LENGTH] {
    let mut bytes = [0; FAR_JUMP_LENGTH];
    bytes[..JUMP.len()].copy_from_slice(&JUMP);
    bytes[JUMP.len()..].copy_from_slice(&to.to_le_bytes());
    bytes
}

/// The offsets of return instructions in code.
pub fn find_returns(code: &[u8]) -> impl Iterator<Item = u64> {
    let instructions = Decoder::new(64, code, DecoderOptions::NONE).into_iter();
    instructions.filter(|it| it.mnemonic() == Mnemonic::Ret && it.len() == 1).map(|it| it.ip())
}

/// The offset of a system call instruction in `code`.
pub fn find_syscall(code: &[u8]) -> Option<usize> {
    code.windows(SYSCALL.len()).position(|bytes| bytes == SYSCALL)
}

global_asm!(
    ".pushsection .rodata.eigentime_bootstrap, \"a\"",
    ".globl eigentime_bootstrap, eigentime_bootstrap_end",
    ".hidden eigentime_bootstrap, eigentime_bootstrap_end",
    ".balign 8",
    "eigentime_bootstrap:",
    "pop rax",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop r10",
    "pop r9",
    "add rsp, {control}",
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
    // The thread is not traced: the next clock is the one that requests a notification.
    "inc edi",
    "xor eax, eax",
    "mov al, {clock_gettime}",
    "syscall",
    ".balign 8",
    "eigentime_bootstrap_end:",
    ".popsection",
    control = const offset_of!(StackedCall, descriptor) - offset_of!(StackedCall, control),
    booted = const BOOTED_CLOCK,
    clock_gettime = const nr::CLOCK_GETTIME.0,
);

/// Whether an address is in the vsyscall page.
pub fn is_in_vsyscall_page(ip: u64) -> bool {
    ip & !(PAGE as u64 - 1) == VSYSCALL_PAGE
}

/// How many hardware breakpoints a thread has.
pub const BREAKPOINTS: usize = 4;

/// Makes the processor stop a stopped thread before it executes an instruction at one of these
/// addresses only. The breakpoints belong to the thread, and change no memory.
pub fn set_breakpoints(thread: Pid, addresses: &[u64]) -> nix::Result<()> {
    const CONTROL: usize = 7;
    let set = |register: usize, value: u64| {
        let offset = offset_of!(libc::user, u_debugreg) + register * size_of::<u64>();
        ptrace::write_user(thread, offset as ptrace::AddressType, value as libc::c_long)
    };
    if addresses.len() > BREAKPOINTS {
        return Err(Errno::ENOSPC);
    }
    let mut enabled = 0;
    for (register, address) in addresses.iter().enumerate() {
        set(register, *address)?;
        enabled |= 1 << (2 * register);
    }
    set(CONTROL, enabled)
}

/// A stopped thread's registers.
#[derive(Clone, Copy, Debug)]
pub struct Registers(libc::user_regs_struct);

impl Registers {
    /// Reads the registers of a stopped thread.
    pub fn of(thread: Pid) -> nix::Result<Self> {
        ptrace::getregs(thread).map(Self)
    }

    /// Writes them to a stopped thread.
    pub fn give(self, thread: Pid) -> nix::Result<()> {
        ptrace::setregs(thread, self.0)
    }

    /// The system call that the thread is in.
    pub fn nr(&self) -> Nr {
        Nr(self.0.orig_rax as u32)
    }

    /// The arguments of the system call.
    pub fn args(&self) -> [u64; 6] {
        let r = &self.0;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]
    }

    /// Argument `index` of the system call.
    pub fn arg(&self, index: usize) -> u64 {
        self.args()[index]
    }

    /// The address of the next instruction.
    pub fn ip(&self) -> u64 {
        self.0.rip
    }

    /// The stack pointer.
    pub fn stack(&self) -> u64 {
        self.0.rsp
    }

    /// The result of a completed system call.
    pub fn result(&self) -> i64 {
        self.0.rax as i64
    }

    /// Whether the program is a 32-bit one.
    pub fn is_32_bit(&self) -> bool {
        self.0.cs == CODE_SEGMENT_32
    }

    /// Replaces the number of the call that is restarted.
    pub fn set_nr(&mut self, nr: Nr) {
        self.0.orig_rax = u64::from(nr.0);
    }

    /// Replaces an argument of the call that is about to be made.
    pub fn set_arg(&mut self, index: usize, value: u64) {
        let r = &mut self.0;
        *[&mut r.rdi, &mut r.rsi, &mut r.rdx, &mut r.r10, &mut r.r8, &mut r.r9][index] = value;
    }

    /// Skips the call; the program sees `result`.
    pub fn skip(&mut self, result: i64) {
        self.0.orig_rax = NO_CALL;
        self.set_result(result);
    }

    /// Skips the call and continues at `entry` of the image, which finds the number of the call in
    /// rax, the hint in r11, and the return address in rcx.
    pub fn redirect(&mut self, entry: u64, hint: i64) {
        let nr = self.0.orig_rax;
        self.0.rcx = self.0.rip;
        self.0.r11 = hint as u64;
        self.skip(nr as i64);
        self.0.rip = entry;
    }

    /// Sends an interrupted call to the image, at `interrupted`, where the kernel handles it
    /// according to this result: it continues there if a handler that ends it runs, and at
    /// `et_enter` otherwise.
    pub fn redirect_interrupted(&mut self, interrupted: u64, result: i64) {
        self.0.rcx = self.0.rip;
        self.0.r11 = self.0.orig_rax;
        self.0.rip = interrupted;
        self.set_result(result);
    }

    /// Whether a handler has ended it, so that it passes through the image only to report that.
    fn was_ended_early(&self) -> bool {
        self.0.r11 == INTERRUPTED as u64
    }

    /// Undoes [`redirect_interrupted`](Self::redirect_interrupted).
    pub fn undo_redirect_interrupted(&mut self) {
        self.0.rip = self.0.rcx;
    }

    /// Whether the kernel has yet to decide where that continues.
    pub fn is_redirected_interrupted(&self, interrupted: u64) -> bool {
        self.ip() == interrupted && self.is_in_call()
    }

    /// Moves the thread, which is about to make a call, past it, as if it had been interrupted
    /// there and were about to restart it.
    pub fn interrupt_and_make_again(&mut self, after: u64) {
        self.0.orig_rax = self.0.rax;
        self.jump(after);
        self.set_result(super::RESTART_ALWAYS);
    }

    /// Whether the thread is outside any call, about to make the one that returns to `after`.
    pub fn is_before_call(&self, after: u64) -> bool {
        !self.is_in_call() && self.0.rip == after - SYSCALL_LENGTH
    }

    /// The registers of a thread that is about to make the call with which it entered the image,
    /// restored from the frame that it left at `at`.
    pub fn before_call(&self, at: u64, frame: &Frame) -> Self {
        let mut r = self.0;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = frame.args;
        r.rbp = frame.rbp;
        [r.r15, r.r14, r.r13, r.r12, r.rbx] = frame.preserved;
        r.rsp = at + size_of::<Frame>() as u64 + RED_ZONE;
        r.rax = frame.nr;
        r.orig_rax = NO_CALL;
        r.rip = frame.back - SYSCALL_LENGTH;
        r.eflags = frame.flags;
        Self(r)
    }

    /// The registers of a thread whose call, with which it entered the image, was interrupted: the
    /// kernel decides whether to restart it once a handler has run. Its frame is at `at`.
    pub fn interrupted_call(&self, at: u64, frame: &Frame) -> Self {
        let Self(mut r) = self.before_call(at, frame);
        r.orig_rax = frame.nr;
        r.rax = super::RESTART_AS_HANDLER_SAYS as u64;
        r.rip = frame.back;
        Self(r)
    }

    /// Moves a thread that has executed nothing in the image, whose symbols are at these addresses,
    /// back to where it is about to make its call, even if the image is about to make that call
    /// unchanged. Returns whether that was so. `read` reads a word of the thread's memory.
    pub fn undo_redirect(
        &mut self,
        address_of: impl Fn(Symbol) -> u64,
        read: impl FnOnce(u64) -> nix::Result<u64>,
    ) -> nix::Result<bool> {
        let is_at = |symbol| self.ip() == address_of(symbol);
        if self.was_ended_early() {
            return Ok(false);
        }
        if SAVES_FLAGS.into_iter().any(is_at) {
            self.0.rsp += RED_ZONE;
        } else if is_at(symbols::PASS_FLAGS) {
            self.0.eflags = read(self.0.rsp)?;
            self.0.rsp += 8 + RED_ZONE;
        } else if self.is_redirected_interrupted(address_of(symbols::INTERRUPTED)) {
            self.0.rax = self.0.orig_rax;
        } else if !STARTS.into_iter().any(is_at) {
            return Ok(false);
        }
        self.0.rip = self.0.rcx - SYSCALL_LENGTH;
        self.0.orig_rax = NO_CALL;
        Ok(true)
    }

    /// The call with which a thread has entered the image, whose symbols are at these addresses, if
    /// nothing has been done there yet.
    pub fn redirected(&self, address_of: impl Fn(Symbol) -> u64) -> Option<Nr> {
        let mut starts = STARTS.into_iter().chain(SAVES_FLAGS);
        let is_there = starts.any(|symbol| self.ip() == address_of(symbol));
        (is_there && !self.was_ended_early()).then_some(Nr(self.0.rax as u32))
    }

    /// Prepares a system call with the instruction at `instruction`.
    pub fn call(&mut self, instruction: u64, nr: i64, args: [u64; 6]) {
        self.0.orig_rax = NO_CALL;
        self.0.rax = nr as u64;
        self.0.rip = instruction;
        let r = &mut self.0;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = args;
    }

    /// Moves a thread whose call has not been executed back to where it is about to make it.
    pub fn undo_call(&mut self) {
        self.0.rax = self.0.orig_rax;
        self.0.orig_rax = NO_CALL;
        self.0.rip -= SYSCALL_LENGTH;
    }

    /// Moves the thread to another instruction.
    pub fn jump(&mut self, to: u64) {
        self.0.rip = to;
    }

    /// Moves the stack pointer.
    pub fn set_stack(&mut self, to: u64) {
        self.0.rsp = to;
    }

    /// Passes the sockets to close to the image's `et_boot`.
    pub fn set_sockets(&mut self, [first, second]: [u32; 2]) {
        [self.0.rbx, self.0.rbp] = [first.into(), second.into()];
    }

    /// Replaces the result of a call.
    pub fn set_result(&mut self, result: i64) {
        self.0.rax = result as u64;
    }

    /// Whether the thread is in a system call that is not skipped.
    pub fn is_in_call(&self) -> bool {
        self.0.orig_rax != NO_CALL
    }

    /// Makes the call that is about to be made end the program with `status`.
    pub fn exit(&mut self, status: u64) {
        const EXIT_GROUP_32: u64 = 252;
        if self.is_32_bit() {
            self.0.orig_rax = EXIT_GROUP_32;
            self.0.rbx = status;
        } else {
            self.0.orig_rax = u64::from(nr::EXIT_GROUP.0);
            self.0.rdi = status;
        }
    }
}

#[cfg(test)]
mod tests {
    use eigentime_vdso::IMAGE;
    use iced_x86::Instruction;
    use object::elf::PF_X;
    use object::{Object, ObjectSegment, SegmentFlags};

    use super::*;

    #[test]
    fn all_that_saves_or_restores_the_flags_is_known() {
        // IMAGE itself may be unaligned.
        let image = IMAGE.to_vec();
        let image = object::File::parse(&image[..]).unwrap();
        let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0);
        let begin = symbols::OFFSETS[symbols::CODE.0].1 as u64;
        let mut found = Vec::new();
        for code in image.segments().filter(|segment| is_code(segment.flags())) {
            // The headers precede the code in the segment.
            let from = begin.max(code.address());
            let bytes = &code.data().unwrap()[(from - code.address()) as usize..];
            let decoded = Decoder::with_ip(64, bytes, from, DecoderOptions::NONE);
            let on_flags =
                |it: &Instruction| matches!(it.mnemonic(), Mnemonic::Pushfq | Mnemonic::Popfq);
            found.extend(decoded.into_iter().filter(on_flags).map(|it| it.ip()));
        }
        let known = SAVES_FLAGS.into_iter().chain(RESTORES_FLAGS);
        let mut known: Vec<_> = known.map(|symbol| symbols::OFFSETS[symbol.0].1 as u64).collect();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
