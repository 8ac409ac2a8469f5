//! Sends trains.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use eigentime_clock::{Clock, Reason, Trust};

use super::Train;
use super::pacing::{self, Pace, Timing};
use super::packet::{Headers, Probe};

/// How late a packet may be, as a part of a train's length, before the rest is abandoned: it would
/// follow in a burst.
const GIVEN_UP: f64 = 0.2;

/// The minimum of that, in nanoseconds: short trains are soon over anyway.
const GIVEN_UP_NS: f64 = 1_000_000.0;

/// Longer trains do not use real-time priority, which would keep others from a processor for
/// longer.
const SHORT: Duration = Duration::from_millis(200);

/// How often to ask whether a train is still wanted, in nanoseconds of it.
const ASKED_NS: u64 = 5_000_000;

/// The sent part of a train.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// When each packet was given to the kernel, in nanoseconds, without abandoned ones.
    pub sent_ns: Vec<i64>,
    /// The number of packets for which the kernel had no room.
    pub refused: u32,
    /// The clock did not run evenly meanwhile.
    pub clock_trouble: bool,
}

/// Sends trains from a socket.
#[derive(Debug)]
pub struct Sender {
    timing: Timing,
    realtime: bool,
    room: Vec<u8>,
}

impl Sender {
    /// A sender with this pacing; with a real-time priority while it sends a train, if requested
    /// and allowed.
    #[must_use]
    pub fn new(timing: Timing, realtime: bool) -> Self {
        Self { timing, realtime, room: Vec::new() }
    }

    /// Sends a train, packet by packet, over a connected socket, for as long as it is wanted.
    ///
    /// # Errors
    /// If the socket cannot send at all. Packets for which the kernel has no room are not an error,
    /// and are counted.
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        to: SocketAddr,
        train: &Train,
        mut probe: Probe,
        wanted: &mut dyn FnMut() -> bool,
    ) -> io::Result<Sent> {
        let length = usize::from(train.bytes.saturating_sub(Headers::to(to.ip()).bytes()));
        self.room.resize(length.max(Probe::BYTES), 0);
        let mut sent =
            Sent { sent_ns: Vec::with_capacity(train.packets as usize), ..Sent::default() };
        let trust = Clock::system().trust();
        // Dropped at the end of the train: it must not keep others from the processor for long.
        let is_short = train.length_ns() <= SHORT.as_nanos() as u64;
        let mut sleeper = pacing::sleeper(self.realtime && is_short);
        let mut pace = Pace::begin(self.timing, *train, &mut sleeper);
        let patience = (train.length_ns() as f64 * GIVEN_UP).max(GIVEN_UP_NS);
        let mut asked = ASKED_NS;
        for packet in 0..train.packets {
            if train.due_ns(packet) >= asked {
                asked += ASKED_NS;
                if !wanted() {
                    break;
                }
            }
            probe.packet = packet;
            probe.write(&mut self.room);
            let now = pace.wait(packet);
            let first = *sent.sent_ns.first().unwrap_or(&now);
            let late = (now - first) as f64 - train.due_ns(packet) as f64;
            if self.timing == Timing::Precise && late > patience {
                break;
            }
            match socket.send(&self.room) {
                Ok(_) => {}
                Err(error) if is_full(&error) => sent.refused += 1,
                Err(error) => return Err(error),
            }
            sent.sent_ns.push(now);
        }
        let after = Clock::system().trust();
        sent.clock_trouble = after != trust || after == Trust::Kernel(Reason::Timeline);
        Ok(sent)
    }
}

/// Whether the kernel has no room for a packet at the moment, or an earlier one was refused on its
/// way.
fn is_full(error: &io::Error) -> bool {
    const PASSING: [i32; 4] = [libc::ENOBUFS, libc::EAGAIN, libc::ENOMEM, libc::ECONNREFUSED];
    error.raw_os_error().is_some_and(|code| PASSING.contains(&code))
}
