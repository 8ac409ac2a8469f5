//! What differs between architectures: registers, instructions, addresses.

#[cfg(target_arch = "x86_64")]
mod x86_64;

use eigentime_calls::Restart;

#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// The results by which the kernel tells itself that an interrupted call is to be
/// made again: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
const RESTARTS: [i64; 4] =
    [RESTART_AS_HANDLER_SAYS, RESTART_ALWAYS, RESTART_UNLESS_HANDLED, RESTART_WITH_REST];

/// ERESTARTSYS: the call is made again unless a handler without SA_RESTART runs.
pub const RESTART_AS_HANDLER_SAYS: i64 = -512;

/// ERESTARTNOINTR: the call is made again, whatever happens.
pub const RESTART_ALWAYS: i64 = -513;

/// ERESTARTNOHAND: the call is made again unless a handler runs.
pub const RESTART_UNLESS_HANDLED: i64 = -514;

/// ERESTART_RESTARTBLOCK: it goes on unless a handler runs, with what is left of its time.
const RESTART_WITH_REST: i64 = -516;

const EINTR: i64 = 4;

/// The result by which the kernel does with an interrupted call what its row says.
pub fn restart_result(restart: Restart) -> i64 {
    match restart {
        Restart::Always => RESTART_ALWAYS,
        Restart::AsHandlerSays => RESTART_AS_HANDLER_SAYS,
        Restart::Never | Restart::UnlessHandled | Restart::Futex => RESTART_UNLESS_HANDLED,
    }
}

impl Registers {
    /// Puts the thread, which is about to make a call, after it, as if it had been
    /// interrupted.
    pub fn interrupt(&mut self, after: u64) {
        self.jump(after);
        self.skip(-EINTR);
    }

    /// Will the kernel make the interrupted call again (or, with `or_failed`, has
    /// it failed because it was interrupted)?
    pub fn was_interrupted(&self, or_failed: bool) -> bool {
        RESTARTS.contains(&self.result()) || (or_failed && self.has_failed_interrupted())
    }

    /// Has a call failed because the thread was stopped? If a handler has run since, it is over: it
    /// failed because of that, and the program is to know.
    pub fn has_failed_interrupted(&self) -> bool {
        self.is_in_call() && self.result() == -EINTR
    }

    /// Has the kernel make the interrupted call again, from its start, when the thread goes on: unless a
    /// signal handler runs first that ends such a call.
    pub fn make_again(&mut self) {
        if self.has_failed_interrupted() || self.result() == RESTART_WITH_REST {
            self.set_result(RESTART_UNLESS_HANDLED);
        }
    }
}

/// A call as the bootstrap takes it from the stack.
#[repr(C)]
pub struct StackedCall {
    /// Its number.
    pub nr: u64,
    /// Its first four arguments.
    pub args: [u64; 4],
    /// Its sixth argument.
    pub offset: u64,
    /// The head of a control message, whose descriptor follows.
    pub control: [u64; 2],
    /// Its fifth argument.
    pub descriptor: u64,
    /// Where the program goes on after it.
    pub then: u64,
}

unsafe extern "C" {
    static eigentime_bootstrap: u8;
    static eigentime_bootstrap_end: u8;
}

/// The instructions that make a [`StackedCall`] and return to its `then`, or report an error by a
/// call: whole words.
pub fn bootstrap() -> &'static [u8] {
    let (start, end) = (&raw const eigentime_bootstrap, &raw const eigentime_bootstrap_end);
    // SAFETY: these are bytes between two labels of one section, which nobody writes.
    unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}
