//! Starts to trace threads, and collects the stops and ends of others meanwhile.
//!
//! A thread that starts a program waits until all other threads of its process are gone (`de_thread` in
//! fs/exec.c), and nobody can start to trace any of them in the meantime (`cred_guard_mutex`, which
//! `ptrace_attach` in kernel/ptrace.c waits for). Those that are traced already are gone only once their
//! tracer has collected their ends. So the supervisor, which may be waiting to trace another of them,
//! collects what it is told in a signal handler. Stops are collected as well: the kernel does not leave
//! those of traced threads aside (`wait_task_stopped` in kernel/exit.c).

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction};
use nix::unistd::Pid;

/// What has been collected and not yet reported: threads, each with its status. Only this thread touches
/// them: the handler runs while it waits in [`seize`].
static COLLECTED: [(AtomicI32, AtomicI32); 4096] =
    [const { (AtomicI32::new(0), AtomicI32::new(0)) }; 4096];
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
        // Whoever waits for the signal is to look for what has been collected.
        nix::sys::signal::raise(Signal::SIGCHLD)?;
    }
    seized
}

extern "C" fn collect(_: i32) {
    let error = Errno::last_raw();
    HAS_RUN.store(true, Ordering::Relaxed);
    for slot in &COLLECTED[COUNT.load(Ordering::Relaxed)..] {
        let mut status = 0;
        // SAFETY: the pointer is to an int of ours.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if thread <= 0 {
            break;
        }
        store(slot, (thread, status));
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    Errno::set_raw(error);
}

fn load((thread, status): &(AtomicI32, AtomicI32)) -> (i32, i32) {
    (thread.load(Ordering::Relaxed), status.load(Ordering::Relaxed))
}

fn store(slot: &(AtomicI32, AtomicI32), (thread, status): (i32, i32)) {
    slot.0.store(thread, Ordering::Relaxed);
    slot.1.store(status, Ordering::Relaxed);
}

/// Whether anything has been collected and not yet reported.
pub fn has_collected() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Reports the first that has been collected of this thread, or of any for -1: the thread and its status.
pub fn take_collected(thread: i32) -> Option<(i32, i32)> {
    let count = COUNT.load(Ordering::Relaxed);
    let collected = &COLLECTED[..count];
    let found = collected.iter().position(|slot| thread == -1 || load(slot).0 == thread)?;
    let taken = load(&collected[found]);
    for at in found + 1..count {
        store(&collected[at - 1], load(&collected[at]));
    }
    COUNT.store(count - 1, Ordering::Relaxed);
    Some(taken)
}
