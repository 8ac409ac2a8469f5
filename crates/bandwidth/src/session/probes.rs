//! The interface of a session to whatever sends and receives trains.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::train::{Arrival, Train};

/// The cookie in each probe of a session, which tells it from other datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie(pub u64);

/// Sends and receives trains over a socket.
pub trait Probes: Send {
    /// Sends a train to an address; each packet carries the cookie and the train's number. Asks
    /// every few milliseconds whether the train is still wanted, and does not send the rest if not.
    ///
    /// # Errors
    /// If the socket is unusable; packets that the kernel refuses are counted instead.
    fn send(
        &mut self,
        train: &Train,
        to: SocketAddr,
        cookie: Cookie,
        number: u32,
        wanted: &mut dyn FnMut() -> bool,
    ) -> io::Result<SentReport>;

    /// Receives a train until all of it has arrived or the deadline has passed, which may be moved
    /// forward meanwhile. Packets in the socket at the deadline are in time, whenever they are
    /// read. Datagrams without the cookie and the train's number are ignored and never answered.
    ///
    /// # Errors
    /// If the socket is unusable.
    fn receive(
        &mut self,
        train: &Train,
        cookie: Cookie,
        number: u32,
        deadline: &Deadline,
    ) -> io::Result<ReceivedReport>;
}

/// Creates the probes of a socket, which is connected to the other side and does not fragment
/// packets ("don't fragment" is set, and the kernel's own path MTU does not matter).
pub type Open = dyn Fn(UdpSocket) -> io::Result<Box<dyn Probes>> + Send + Sync;

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentReport {
    /// When each packet was given to the kernel, in nanoseconds since a reference time of the
    /// sender.
    pub sent_ns: Vec<i64>,
    /// The number of packets for which the kernel had no room, or that it refused.
    pub unsent: u32,
    /// The clock did not run evenly.
    pub clock_trouble: bool,
}

/// What has arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedReport {
    /// In the order of arrival, each packet once.
    pub arrived: Vec<Arrival>,
    /// The number of packets dropped by the host for lack of room in the socket.
    pub overflowed: u32,
    /// The clock did not run evenly.
    pub clock_trouble: bool,
}

/// When to give up waiting for packets. The session moves it forward, from another thread, when the
/// sender reports that all was sent, or is gone: check it at least every 10 ms.
#[derive(Debug)]
pub struct Deadline {
    begin: Instant,
    /// In nanoseconds after the beginning.
    at: AtomicU64,
}

impl Deadline {
    /// A deadline this far from now.
    #[must_use]
    pub fn after(time: Duration) -> Self {
        Self { begin: Instant::now(), at: AtomicU64::new(time.as_nanos() as u64) }
    }

    /// The time left; zero once it has passed.
    #[must_use]
    pub fn left(&self) -> Duration {
        // Relaxed: only the time itself is communicated.
        let at = Duration::from_nanos(self.at.load(Ordering::Relaxed));
        at.saturating_sub(self.begin.elapsed())
    }

    /// Moves it forward to this far from now; never back.
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
