//! What is particular to x86-64.

use eigentime_calls::{Nr, nr};
use eigentime_vdso::{Frame, RED_ZONE};

/// The start of the vsyscall page, whose three functions stand 1024 bytes apart.
const VSYSCALL_PAGE: u64 = 0xffff_ffff_ff60_0000;

/// The code segment of 32-bit programs.
const CODE_SEGMENT_32: u64 = 0x23;

/// A system call instruction is two bytes long.
const SYSCALL_LENGTH: u64 = 2;

/// What the kernel sees as "no system call".
const NO_CALL: u64 = u64::MAX;

/// The results by which the kernel tells itself that an interrupted call is to be
/// made again: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
const RESTARTS: [i64; 4] = [RESTART_AS_HANDLER_SAYS, RESTART_ALWAYS, -514, -516];

/// ERESTARTSYS: the call is made again unless a handler without SA_RESTART runs.
pub const RESTART_AS_HANDLER_SAYS: i64 = -512;

/// ERESTARTNOINTR: the call is made again, whatever happens.
pub const RESTART_ALWAYS: i64 = -513;

const EINTR: i64 = 4;

/// A stopped thread's registers.
#[derive(Clone, Copy, Debug)]
pub struct Registers(pub libc::user_regs_struct);

impl Registers {
    /// The system call the thread is at.
    pub fn nr(&self) -> Nr {
        Nr(self.0.orig_rax as u32)
    }

    /// Argument `index` of the system call.
    pub fn arg(&self, index: usize) -> u64 {
        let r = &self.0;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9][index]
    }

    /// The next instruction.
    pub fn ip(&self) -> u64 {
        self.0.rip
    }

    /// The stack pointer.
    pub fn stack(&self) -> u64 {
        self.0.rsp
    }

    /// The result of a system call that was made.
    pub fn result(&self) -> i64 {
        self.0.rax as i64
    }

    /// Is the program a 32-bit one?
    pub fn is_32_bit(&self) -> bool {
        self.0.cs == CODE_SEGMENT_32
    }

    /// Was the call made through the vsyscall page?
    pub fn is_in_vsyscall_page(&self) -> bool {
        self.ip() & !0xfff == VSYSCALL_PAGE
    }

    /// Makes the call that is made again another one.
    pub fn set_nr(&mut self, nr: Nr) {
        self.0.orig_rax = u64::from(nr.0);
    }

    /// Replaces an argument of the call that is about to be made.
    pub fn set_first_arg(&mut self, value: u64) {
        self.0.rdi = value;
    }

    /// Skips the call; the program sees `result`.
    pub fn skip(&mut self, result: i64) {
        self.0.orig_rax = NO_CALL;
        self.0.rax = result as u64;
    }

    /// Skips the call and goes on at `entry` of the image, which finds the number
    /// of the call in rax, the hint in r11, and the way back in rcx.
    pub fn redirect(&mut self, entry: u64, hint: i64) {
        let nr = self.0.orig_rax;
        self.0.rcx = self.0.rip;
        self.0.r11 = hint as u64;
        self.skip(nr as i64);
        self.0.rip = entry;
    }

    /// Puts the thread, which is about to make a call, after it, as if it had been
    /// interrupted.
    pub fn interrupt(&mut self, after: u64) {
        self.0.rip = after;
        self.skip(-EINTR);
    }

    /// Those of a thread that is about to make the call with which it has come into the image, by
    /// the frame that it has left at `at`.
    pub fn before_call(&self, at: u64, frame: &Frame) -> Self {
        let mut r = self.0;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = frame.args;
        (r.rbp, r.rbx) = (frame.rbp, frame.rbx);
        [r.r12, r.r13, r.r14, r.r15] = [frame.r12, frame.r13, frame.r14, frame.r15];
        r.rsp = at + size_of::<Frame>() as u64 + RED_ZONE;
        r.rax = frame.nr;
        r.orig_rax = NO_CALL;
        r.rip = frame.back - SYSCALL_LENGTH;
        r.eflags = frame.flags;
        Self(r)
    }

    /// Those of a thread whose call, with which it has come into the image, was interrupted: the
    /// kernel decides whether it is made again once a handler has run. `at` is its frame.
    pub fn interrupted_call(&self, at: u64, frame: &Frame) -> Self {
        let Self(mut r) = self.before_call(at, frame);
        r.orig_rax = frame.nr;
        r.rax = RESTART_AS_HANDLER_SAYS as u64;
        r.rip = frame.back;
        Self(r)
    }

    /// Takes the flags that lie on the stack.
    pub fn take_flags(&mut self, flags: u64) {
        self.0.eflags = flags;
        self.0.rsp += 8;
    }

    /// Gives back the red zone that a redirected call has just skipped.
    pub fn leave_red_zone(&mut self) {
        self.0.rsp += RED_ZONE;
    }

    /// Undoes a redirection of which nothing has been carried out: the thread is
    /// about to make its call.
    pub fn undo_redirect(&mut self) {
        self.0.rip = self.0.rcx - SYSCALL_LENGTH;
        self.0.orig_rax = NO_CALL;
    }

    /// Prepares a system call by the instruction at `instruction`.
    pub fn call(&mut self, instruction: u64, nr: i64, args: [u64; 6]) {
        self.0.orig_rax = NO_CALL;
        self.0.rax = nr as u64;
        self.0.rip = instruction;
        let r = &mut self.0;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = args;
    }

    /// Moves the thread to another instruction.
    pub fn jump(&mut self, to: u64) {
        self.0.rip = to;
    }

    /// Will the kernel make the interrupted call again (or, with `or_failed`, has
    /// it failed because it was interrupted)?
    pub fn was_interrupted(&self, or_failed: bool) -> bool {
        let result = self.result();
        RESTARTS.contains(&result) || (or_failed && result == -EINTR)
    }

    /// Has a call failed because the thread was stopped?
    pub fn has_failed_interrupted(&self) -> bool {
        self.0.orig_rax != NO_CALL && self.result() == -EINTR
    }

    /// Has the kernel the call made again when the thread goes on.
    pub fn make_again(&mut self) {
        self.0.rax = RESTART_ALWAYS as u64;
    }

    /// Is the thread about to return from a call with `look_again`, or to make one
    /// again?
    pub fn is_told(&self, look_again: i64) -> bool {
        self.result() == if self.0.orig_rax == NO_CALL { look_again } else { RESTART_ALWAYS }
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
