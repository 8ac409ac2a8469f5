//! What a session needs of whoever sends and receives trains.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::train::{Arrival, Train};

/// What each probe of a session carries, so that others' datagrams are not taken for probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie(pub u64);

/// Sends and receives trains over a socket.
pub trait Probes: Send {
    /// Sends a train to an address; each packet carries the cookie and the train's number. It is
    /// asked every few milliseconds whether anybody still wants it: the rest is not sent if not.
    ///
    /// # Errors
    /// If the socket is of no use any more; packets that the kernel refuses are counted instead.
    fn send(
        &mut self,
        train: &Train,
        to: SocketAddr,
        cookie: Cookie,
        number: u32,
        wanted: &mut dyn FnMut() -> bool,
    ) -> io::Result<SentReport>;

    /// What arrives of a train until all of it is there or the deadline has passed, which may be
    /// moved forward meanwhile; what is in the socket when it passes has arrived in time, whenever it
    /// is read. Whatever does not carry the cookie and the train's number is left
    /// aside, and never answered.
    ///
    /// # Errors
    /// If the socket is of no use any more.
    fn receive(
        &mut self,
        train: &Train,
        cookie: Cookie,
        number: u32,
        deadline: &Deadline,
    ) -> io::Result<ReceivedReport>;
}

/// Makes one of a socket, which is connected to the other side and breaks no packets up (their
/// "don't fragment" is set, and the kernel's own notion of the path does not matter).
pub type Open = dyn Fn(UdpSocket) -> io::Result<Box<dyn Probes>> + Send + Sync;

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentReport {
    /// When each packet was given to the kernel, in nanoseconds since a moment of the sender.
    pub sent_ns: Vec<i64>,
    /// How many the kernel had no room for, or refused.
    pub unsent: u32,
    /// The clock did not go evenly.
    pub clock_trouble: bool,
}

/// What has arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedReport {
    /// In the order of arrival, each packet once.
    pub arrived: Vec<Arrival>,
    /// How many the host has dropped for want of room in the socket.
    pub overflowed: u32,
    /// The clock did not go evenly.
    pub clock_trouble: bool,
}

/// When to give up waiting for packets. The session moves it forward, from another thread, when
/// the sender says that all was sent, or is gone: ask again at least every 10 ms.
#[derive(Debug)]
pub struct Deadline {
    begin: Instant,
    /// In nanoseconds after the beginning.
    at: AtomicU64,
}

impl Deadline {
    /// In so much time.
    #[must_use]
    pub fn after(time: Duration) -> Self {
        Self { begin: Instant::now(), at: AtomicU64::new(time.as_nanos() as u64) }
    }

    /// How much time is left; zero once it has passed.
    #[must_use]
    pub fn left(&self) -> Duration {
        // Relaxed: nothing but the time itself is told by it.
        let at = Duration::from_nanos(self.at.load(Ordering::Relaxed));
        at.saturating_sub(self.begin.elapsed())
    }

    /// Moves it forward to so much time from now; never back.
    pub fn hasten(&self, time: Duration) {
        let at = self.begin.elapsed() + time;
        self.at.fetch_min(at.as_nanos() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_moves_forward_only() {
        let deadline = Deadline::after(Duration::from_secs(1000));
        deadline.hasten(Duration::from_secs(2000));
        assert!(deadline.left() <= Duration::from_secs(1000));
        assert!(deadline.left() > Duration::from_secs(900));
        deadline.hasten(Duration::ZERO);
        assert_eq!(deadline.left(), Duration::ZERO);
    }
}
