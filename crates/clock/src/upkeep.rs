use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::Duration;

use crate::system;

/// A thread that does the clock's upkeep, so that no reader has to.
///
/// Without it, a reading made when upkeep is due, ten times a second at most, does it and takes a
/// microsecond longer. [`Clock::recent`](crate::Clock::recent) is as fresh as the interval of this
/// thread. The thread ends when this is dropped; a forked child has none.
#[derive(Debug)]
pub struct Upkeep {
    ended: Arc<AtomicBool>,
    /// The process that has the thread.
    process: u32,
    thread: Option<JoinHandle<()>>,
}

/// The shortest interval: shorter ones cost more than readers would pay.
const SHORTEST: Duration = Duration::from_millis(1);

impl Upkeep {
    /// Starts the thread. To relieve readers of all upkeep, the interval must be below 100 ms.
    ///
    /// # Errors
    /// When the interval is below a millisecond, or the thread cannot be started.
    pub fn start(interval: Duration) -> io::Result<Self> {
        if interval < SHORTEST {
            let reason = format!("an upkeep every {interval:?}: it must be 1 ms at least");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        system::upkeep();
        let thread = Builder::new().name("clock-upkeep".into()).spawn(move || {
            while !seen.load(SeqCst) {
                park_timeout(interval);
                system::routine();
            }
        })?;
        Ok(Self { ended, process: std::process::id(), thread: Some(thread) })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            // A forked child has the handle, but not the thread.
            if self.process == std::process::id() {
                thread.thread().unpark();
                let _ = thread.join();
            }
        }
    }
}
