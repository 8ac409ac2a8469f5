//! Yields the processor while polling for a stop.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A yield that took this long has let others run.
const LONG: Duration = Duration::from_micros(50);
/// How long they are then assumed to still want the processor.
const CONTENDED: Duration = Duration::from_millis(100);

thread_local! {
    /// Until when this thread does not yield.
    static RESUMES: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Yields the processor. Returns false, without doing so, for a while after others have run: the kernel
/// takes a turn from a thread each time it yields (`yield_task_fair` in kernel/sched/fair.c), so that a
/// thread that keeps yielding beside busy ones hardly runs.
pub fn yield_if_free() -> bool {
    let begin = Instant::now();
    if RESUMES.get().is_some_and(|at| begin < at) {
        return false;
    }
    std::thread::yield_now();
    let end = Instant::now();
    RESUMES.set((end - begin > LONG).then(|| end + CONTENDED));
    true
}
