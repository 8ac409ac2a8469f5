//! Sends trains.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use eigentime_clock::{Clock, Reason, Trust};

use super::Train;
use super::pacing::{self, Pace, Timing};
use super::packet::{Headers, Probe};

/// What part of a train's length a packet may be late before the rest is not sent any more: it would
/// follow in a burst.
const GIVEN_UP: f64 = 0.2;

/// The least of that, in nanoseconds: short trains are soon over anyway.
const GIVEN_UP_NS: f64 = 1_000_000.0;

/// Longer trains have no real-time priority: others are not kept from a processor for longer.
const SHORT: Duration = Duration::from_millis(200);

/// How often it is asked whether a train is still wanted, in nanoseconds of it.
const ASKED_NS: u64 = 5_000_000;

/// What was sent of a train.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// When each packet was given to the kernel, in nanoseconds; those that were given up are not
    /// there.
    pub sent_ns: Vec<i64>,
    /// How many the kernel had no room for.
    pub refused: u32,
    /// The clock did not go evenly meanwhile.
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
    /// One that paces so; with a real-time priority while it sends a train, if that is asked for and
    /// allowed.
    #[must_use]
    pub fn new(timing: Timing, realtime: bool) -> Self {
        Self { timing, realtime, room: Vec::new() }
    }

    /// Sends a train, packet by packet, over a socket that is connected, for as long as it is wanted.
    ///
    /// # Errors
    /// If the socket cannot send at all. That the kernel has no room for a packet is no error, and
    /// is counted.
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
        // Given back at the end of the train: it must not keep others from the processor for long.
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

/// The kernel has no room for a packet at the moment; or an earlier one was refused on its way.
fn is_full(error: &io::Error) -> bool {
    const PASSING: [i32; 4] = [libc::ENOBUFS, libc::EAGAIN, libc::ENOMEM, libc::ECONNREFUSED];
    error.raw_os_error().is_some_and(|code| PASSING.contains(&code))
}
