//! A clock that moves only when a test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::ErrorBound;
use crate::line::{Line, UNKNOWN};

/// The top bit of a mock's ticks, which no counter reaches: it marks them as nanoseconds.
pub const MARK: u64 = 1 << 63;

/// Whether a count belongs to a mock.
pub const fn marks(ticks: u64) -> bool {
    ticks & MARK != 0
}

/// Moves the clock that [`Clock::mock`](crate::Clock::mock) returned with it.
///
/// It begins one second after the zero of the monotonic clock, at the Unix epoch, without error.
/// Clones move the same clock.
#[derive(Clone, Debug)]
pub struct Mock(Arc<State>);

/// The state of a mock.
#[derive(Debug)]
pub struct State {
    nanos: AtomicU64,
    wall_ahead: AtomicI64,
    error: AtomicU64,
}

const START: Duration = Duration::from_secs(1);

impl Mock {
    pub(crate) fn new() -> (Arc<State>, Self) {
        let state = Arc::new(State {
            nanos: AtomicU64::new(nanos(START)),
            wall_ahead: AtomicI64::new(-(START.as_nanos() as i64)),
            error: AtomicU64::new(0),
        });
        (Arc::clone(&state), Self(state))
    }

    /// Advances the time, on the wall clock too. It stops after 292 years.
    pub fn advance(&self, duration: Duration) {
        let passed = |now: u64| Some(now.saturating_add(nanos(duration)).min(MARK - 1));
        let _ = self.0.nanos.fetch_update(SeqCst, SeqCst, passed);
    }

    /// Sets the wall clock, between the years 1678 and 2262.
    pub fn set_wall(&self, wall: SystemTime) {
        let ahead = i128::from(since_epoch(wall)) - i128::from(self.0.nanos.load(SeqCst));
        let ahead = ahead.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        self.0.wall_ahead.store(ahead as i64, SeqCst);
    }

    /// Sets the error that every reading reports.
    pub fn set_error(&self, error: ErrorBound) {
        self.0.error.store(error.within().map_or(UNKNOWN, nanos), SeqCst);
    }
}

impl State {
    pub(crate) fn now(&self) -> u64 {
        self.nanos.load(SeqCst) | MARK
    }

    pub(crate) fn skip_to(&self, ticks: u64) {
        self.nanos.fetch_max(ticks & !MARK, SeqCst);
    }

    pub(crate) fn line(&self) -> Line {
        let error = self.error.load(SeqCst);
        Line {
            sample_ticks: MARK,
            base_ticks: MARK,
            wall_ahead: self.wall_ahead.load(SeqCst),
            error,
            utc_error: if error == UNKNOWN { UNKNOWN } else { 0 },
            ..Line::NANOSECONDS
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since the epoch, negative before it, limited to the 64-bit range.
pub fn since_epoch(wall: SystemTime) -> i64 {
    match wall.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}
