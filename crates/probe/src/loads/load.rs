//! The definition of a load.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use super::Options;
use super::activity::Activity;

/// A load: a row of the table.
pub struct Load {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// Starts the load.
    pub start: fn(&Options) -> Result<Box<dyn Running>, Unable>,
}

/// A load that runs until it is dropped.
pub trait Running {
    /// The judgement of its work since the last call, as long ago as `now` says.
    fn judge(&mut self, now: &Activity) -> Judgement;
}

/// Whether a load does its job.
#[derive(Debug)]
pub struct Judgement {
    pub is_loading: bool,
    /// If not, why; otherwise what it does, briefly.
    pub how: String,
    /// Its own counts.
    pub numbers: BTreeMap<String, f64>,
}

/// Why a load cannot start.
#[derive(Debug)]
pub enum Unable {
    /// It is not available here: what it needs. The record is then
    /// [`Skipped`](eigentime_probe::record::Skipped).
    Needs(String),
    /// It should have worked.
    Failed(Box<dyn Error>),
}

impl<E: Into<Box<dyn Error>>> From<E> for Unable {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The threads of a load: they are told to end when this is dropped, and end with the process in
/// any case.
pub struct Threads(Arc<Shared>);

struct Shared {
    over: AtomicBool,
    trouble: Mutex<Option<String>>,
}

/// The shared state as a load's thread sees it.
#[derive(Clone)]
pub struct Within(Arc<Shared>);

/// The stack size of a thread with shallow calls: small, for a hundred of them on a small machine.
const STACK: usize = 128 << 10;

impl Threads {
    /// No threads yet.
    pub fn new() -> Self {
        Self(Arc::new(Shared { over: AtomicBool::new(false), trouble: Mutex::new(None) }))
    }

    /// Starts a thread. Its error is kept for [`Threads::trouble`].
    ///
    /// # Errors
    /// When no more threads are available.
    pub fn start(
        &self,
        work: impl FnOnce(&Within) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let within = Within(Arc::clone(&self.0));
        let main = move || {
            let failed = work(&within).err().filter(|_| !within.is_over());
            if let Some(error) = failed {
                let mut trouble = within.0.trouble.lock().unwrap_or_else(PoisonError::into_inner);
                trouble.get_or_insert(error.to_string());
            }
        };
        let builder = thread::Builder::new().name("eigentime-load".to_owned()).stack_size(STACK);
        builder.spawn(main).map(drop)
    }

    /// The error of the first thread that has failed.
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

impl Within {
    /// Whether the load is over.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.0.over.load(Relaxed)
    }
}

/// The rate of a number that only grows.
#[derive(Default)]
pub struct Pace(u64);

impl Pace {
    /// Starts with this number.
    pub fn from(number: u64) -> Self {
        Self(number)
    }

    /// The increase per second since the last call.
    pub fn per_second(&mut self, number: u64, elapsed: Duration) -> f64 {
        let added = number.saturating_sub(self.0);
        self.0 = number;
        added as f64 / elapsed.as_secs_f64().max(1e-9)
    }
}

/// Numbers by their names.
pub fn numbers<const N: usize>(named: [(&str, f64); N]) -> BTreeMap<String, f64> {
    named.into_iter().map(|(name, number)| (name.to_owned(), number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_end_when_they_are_dropped_and_say_what_has_failed() {
        let threads = Threads::new();
        let (ended, end) = std::sync::mpsc::channel();
        threads
            .start(move |within| {
                while !within.is_over() {
                    thread::yield_now();
                }
                let _ = ended.send(());
                Err(io::ErrorKind::BrokenPipe.into())
            })
            .unwrap();
        let (gone, failed) = std::sync::mpsc::channel::<()>();
        threads
            .start(move |_| {
                let _gone = gone;
                Err(io::Error::other("no more blocks"))
            })
            .unwrap();
        assert!(failed.recv().is_err());
        let patience = std::time::Instant::now() + Duration::from_secs(60);
        while threads.trouble().is_none() && std::time::Instant::now() < patience {
            thread::yield_now();
        }
        assert_eq!(threads.trouble().as_deref(), Some("no more blocks"));
        drop(threads);
        end.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn a_pace_is_of_the_time_between() {
        let mut pace = Pace::from(100);
        assert_eq!(pace.per_second(300, Duration::from_secs(2)), 100.0);
        assert_eq!(pace.per_second(300, Duration::from_secs(2)), 0.0);
        assert_eq!(pace.per_second(0, Duration::from_secs(1)), 0.0, "it was set back");
    }
}
