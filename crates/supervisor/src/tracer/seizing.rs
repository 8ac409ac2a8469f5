//! Starts to trace threads, and collects the ends of others meanwhile.
//!
//! A thread that starts a program waits until all other threads of its process are gone (`de_thread` in
//! fs/exec.c), and nobody can start to trace any of them in the meantime (`cred_guard_mutex`, which
//! `ptrace_attach` in kernel/ptrace.c waits for). Those that are traced already are gone only once their
//! tracer has collected their ends. So the supervisor, which may be waiting to trace another of them,
//! collects ends in a signal handler.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction};
use nix::unistd::Pid;

/// The threads whose ends have been collected, and not yet reported. Only this thread touches them: the
/// handler runs while it waits in [`seize`].
static ENDED: [AtomicI32; 4096] = [const { AtomicI32::new(0) }; 4096];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether the handler has run, and taken a signal that may report stops as well.
static HAS_RUN: AtomicBool = AtomicBool::new(false);

/// Blocks the signal by which the kernel reports stops and ends of traced threads, in this thread and
/// those that it makes; it stays pending for whoever waits for it.
pub fn block_news() -> nix::Result<SigSet> {
    let action = SigAction::new(SigHandler::Handler(collect), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler makes system calls, stores to atomics, and keeps errno.
    unsafe { sigaction(Signal::SIGCHLD, &action) }?;
    let news = SigSet::from(Signal::SIGCHLD);
    news.thread_block()?;
    Ok(news)
}

/// Starts to trace a thread.
pub fn seize(thread: Pid, options: Options) -> nix::Result<()> {
    let news = SigSet::from(Signal::SIGCHLD);
    let mask = news.thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?;
    let seized = ptrace::seize(thread, options);
    mask.thread_set_mask()?;
    if HAS_RUN.swap(false, Ordering::Relaxed) && mask.contains(Signal::SIGCHLD) {
        // Stops that it reported as well are still to be collected.
        nix::sys::signal::raise(Signal::SIGCHLD)?;
    }
    seized
}

extern "C" fn collect(_: i32) {
    let error = Errno::last_raw();
    HAS_RUN.store(true, Ordering::Relaxed);
    for slot in &ENDED[COUNT.load(Ordering::Relaxed)..] {
        // SAFETY: a siginfo may be all zero, and the pointer is to one of ours. Of ends only: a stop stays.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::__WALL;
            match libc::waitid(libc::P_ALL, 0, &raw mut info, flags) {
                0 => info.si_pid(),
                _ => 0,
            }
        };
        if ended == 0 {
            break;
        }
        slot.store(ended, Ordering::Relaxed);
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    Errno::set_raw(error);
}

/// Whether the end of any thread has been collected and not yet reported.
pub fn has_collected() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Reports the end of this thread, or of any for -1, if it has been collected.
pub fn take_collected(thread: i32) -> Option<i32> {
    let count = COUNT.load(Ordering::Relaxed);
    let ended = &ENDED[..count];
    let is_it = |slot: &AtomicI32| thread == -1 || slot.load(Ordering::Relaxed) == thread;
    let found = ended.iter().position(is_it)?;
    let taken = ended[found].load(Ordering::Relaxed);
    for at in found + 1..count {
        ended[at - 1].store(ended[at].load(Ordering::Relaxed), Ordering::Relaxed);
    }
    COUNT.store(count - 1, Ordering::Relaxed);
    Some(taken)
}
