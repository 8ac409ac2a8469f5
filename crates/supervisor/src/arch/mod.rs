//! What differs between architectures: registers, instructions, addresses.

#[cfg(target_arch = "x86_64")]
mod x86_64;

use eigentime_calls::Restart;

#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// The results with which the kernel marks an interrupted call for restart: ERESTARTSYS,
/// ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
const RESTARTS: [i64; 4] =
    [RESTART_AS_HANDLER_SAYS, RESTART_ALWAYS, RESTART_UNLESS_HANDLED, RESTART_WITH_REST];

/// ERESTARTSYS: the call is restarted unless a handler without SA_RESTART runs.
pub const RESTART_AS_HANDLER_SAYS: i64 = -512;

/// ERESTARTNOINTR: the call is always restarted.
pub const RESTART_ALWAYS: i64 = -513;

/// ERESTARTNOHAND: the call is restarted unless a handler runs.
pub const RESTART_UNLESS_HANDLED: i64 = -514;

/// ERESTART_RESTARTBLOCK: the call resumes with the rest of its time unless a handler runs.
const RESTART_WITH_REST: i64 = -516;

const EINTR: i64 = 4;

/// The result that makes the kernel treat an interrupted call as its row says.
pub fn restart_result(restart: Restart) -> i64 {
    match restart {
        Restart::Always => RESTART_ALWAYS,
        Restart::AsHandlerSays => RESTART_AS_HANDLER_SAYS,
        Restart::Never | Restart::UnlessHandled | Restart::Futex => RESTART_UNLESS_HANDLED,
    }
}

impl Registers {
    /// Moves the thread, which is about to make a call, past it, as if it had been interrupted.
    pub fn interrupt(&mut self, after: u64) {
        self.jump(after);
        self.skip(-EINTR);
    }

    /// Whether the kernel will restart the interrupted call (or, with `or_failed`, it has failed
    /// because it was interrupted).
    pub fn was_interrupted(&self, or_failed: bool) -> bool {
        RESTARTS.contains(&self.result()) || (or_failed && self.has_failed_interrupted())
    }

    /// Whether a call has failed because the thread was stopped. If a handler has run since, the
    /// call is over: it failed because of the handler, and the program must see that.
    pub fn has_failed_interrupted(&self) -> bool {
        self.is_in_call() && self.result() == -EINTR
    }

    /// Makes the kernel restart the interrupted call from its beginning when the thread resumes,
    /// unless a signal handler that ends such a call runs first.
    pub fn make_again(&mut self) {
        if self.has_failed_interrupted() || self.result() == RESTART_WITH_REST {
            self.set_result(RESTART_UNLESS_HANDLED);
        }
    }
}

/// A call as the bootstrap reads it from the stack.
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
    /// The address at which the program continues afterwards.
    pub then: u64,
}

unsafe extern "C" {
    static eigentime_bootstrap: u8;
    static eigentime_bootstrap_end: u8;
}

/// The instructions, in whole words, that make a [`StackedCall`] and return to its `then`, or
/// report an error with a call.
pub fn bootstrap() -> &'static [u8] {
    let (start, end) = (&raw const eigentime_bootstrap, &raw const eigentime_bootstrap_end);
    // SAFETY: these are bytes between two labels of one section, which is never written.
    unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}
