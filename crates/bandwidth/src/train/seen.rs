//! The evaluation of a trace: the sent and the received rate, and whether the train is usable.

use std::fmt;

use eigentime_measure::quantile::median;
use serde::{Deserialize, Serialize};

use super::Trace;
use crate::units::BitRate;

/// The maximum deviation from the requested rate, of most packets or on the whole.
const OFF_RATE: f64 = 0.02;

/// The maximum deviation of a single packet from even departure times, as a part of the train's
/// length: a preempted sender sends the rest in a burst, a slow one is slow all the time.
const LATE_PART: f64 = 0.05;

/// The minimum part of a train that is judged by itself, and its minimum number of packets.
const USABLE_PART: f64 = 0.5;
const USABLE: usize = 2;

/// The part of a train's length without arrivals, and its minimum in nanoseconds, that counts as a
/// stall if the delayed packets then come at once; other traffic also holds up a train, but iperf3
/// and similar programs send in one millisecond steps.
const SILENT_PART: f64 = 0.2;
const SILENT_NS: f64 = 1.5e6;

/// How close together packets are that come at once, in nanoseconds and as a part of the gap they
/// were sent at: they have waited in the receiver. Those that have waited in the path come at its
/// rate.
const AT_ONCE_NS: f64 = 2_000.0;
const AT_ONCE: f64 = 0.1;

/// The minimum number of them.
const TOGETHER: usize = 3;

/// The result of a train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// The sent rate.
    pub offered: BitRate,
    /// The received rate, over the span between the first and the last arrival.
    pub received: BitRate,
    /// The number of packets lost.
    pub lost: u32,
    /// The number of packets that arrived after one sent later.
    pub reordered: u32,
    /// The increase of the transit time from the first third to the last, in nanoseconds: a queue
    /// has grown.
    pub delay_growth_ns: f64,
}

/// Why a train is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discarded {
    /// The sender was preempted.
    SenderLate,
    /// The sender could not keep the rate.
    SenderSlow,
    /// The sender's host refused packets.
    NotSent,
    /// The receiver's host dropped packets.
    ReceiverFull,
    /// Nothing arrived for a while and then much at once.
    Stalled,
    /// A clock ran unevenly.
    Clock,
    /// Fewer than two packets arrived.
    Nothing,
}

impl fmt::Display for Discarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SenderLate => "the sender was kept from its processor",
            Self::SenderSlow => "the sender could not keep the rate",
            Self::NotSent => "the sender's host refused packets",
            Self::ReceiverFull => "the receiver's host dropped packets",
            Self::Stalled => "nothing came for a while, and then much at once",
            Self::Clock => "a clock went unevenly",
            Self::Nothing => "nothing came",
        })
    }
}

impl Trace {
    /// The part of the train sent before the sender was preempted, if that is most of it: it is as
    /// good as a train intended to be that short.
    #[must_use]
    pub fn on_time(mut self) -> Self {
        let Some(first) = self.sent_ns.first() else { return self };
        let late = self.train.length_ns() as f64 * LATE_PART;
        let is_late = |(packet, sent): (usize, &i64)| {
            (sent - first) as f64 - self.train.gap_ns() * packet as f64 > late
        };
        let before =
            self.sent_ns.iter().enumerate().position(is_late).unwrap_or(self.sent_ns.len());
        let least = f64::from(self.train.packets) * USABLE_PART;
        if before >= USABLE && before as f64 >= least {
            self.train.packets = before as u32;
            self.sent_ns.truncate(before);
            self.arrived.retain(|it| (it.packet as usize) < before);
        }
        self
    }

    /// Evaluates the train.
    ///
    /// # Errors
    /// [`Discarded`], first by the hosts' reports, then by the packets.
    pub fn judge(&self) -> Result<Seen, Discarded> {
        // The rest was not sent.
        let is_cut = self.sent_ns.len() < self.train.packets as usize;
        let nothing = if is_cut { Discarded::SenderLate } else { Discarded::Nothing };
        let seen = self.seen().ok_or(nothing)?;
        let host = &self.host;
        let length = self.train.length_ns() as f64;
        let is_off = (seen.offered.bits() / self.train.rate.bits() - 1.0).abs() > OFF_RATE;
        let signs = [
            (host.clock_trouble, Discarded::Clock),
            (host.unsent > 0, Discarded::NotSent),
            (host.overflowed > 0, Discarded::ReceiverFull),
            (is_off && self.is_steadily_off(), Discarded::SenderSlow),
            (is_cut || is_off || self.most_uneven_ns() > length * LATE_PART, Discarded::SenderLate),
            (self.has_stalled(), Discarded::Stalled),
        ];
        match signs.into_iter().find(|(is_so, _)| *is_so) {
            Some((_, why)) => Err(why),
            None => Ok(seen),
        }
    }

    /// The same, regardless of the hosts; none for fewer than two packets.
    #[must_use]
    pub fn seen(&self) -> Option<Seen> {
        let bytes = f64::from(self.train.bytes);
        let (sent_first, sent_last) = (*self.sent_ns.first()?, *self.sent_ns.last()?);
        let gaps_sent = self.sent_ns.len().checked_sub(1).filter(|gaps| *gaps > 0)?;
        let first = self.arrived.first()?;
        let last = self.arrived.last()?;
        let gaps_come = self.arrived.len().checked_sub(1).filter(|gaps| *gaps > 0)?;
        let [sent, come] = [sent_last - sent_first, last.at_ns - first.at_ns];
        if sent <= 0 || come <= 0 {
            return None;
        }
        let highest = |(highest, late), packet: u32| {
            if packet < highest { (highest, late + 1) } else { (packet, late) }
        };
        let (_, reordered) = self.arrived.iter().map(|it| it.packet).fold((0, 0), highest);
        Some(Seen {
            offered: BitRate::of(bytes * gaps_sent as f64, sent as f64),
            received: BitRate::of(bytes * gaps_come as f64, come as f64),
            lost: self.sent_ns.len().saturating_sub(self.arrived.len()) as u32,
            reordered,
            delay_growth_ns: self.delay_growth_ns(),
        })
    }

    /// Whether the whole train left at another rate, rather than some of it at other times: a slow
    /// sender gets later and later, a preempted one is late from then on.
    fn is_steadily_off(&self) -> bool {
        let Some(first) = self.sent_ns.first() else { return false };
        let third = self.sent_ns.len() / 3;
        let late = |packet: usize| {
            (self.sent_ns[packet] - first) as f64 - self.train.gap_ns() * packet as f64
        };
        let middle =
            |part: usize| median((part * third..(part + 1) * third).map(late)).unwrap_or_default();
        let [begin, middle, end] = [0, 1, 2].map(middle);
        let least = OFF_RATE * self.train.gap_ns() * third as f64;
        let grows = |by: f64| by > least;
        let [early, late] = [middle - begin, end - middle];
        grows(early) && grows(late) || grows(-early) && grows(-late)
    }

    /// The maximum deviation of a packet from even departure times, in nanoseconds, relative to the
    /// first and the last.
    fn most_uneven_ns(&self) -> f64 {
        let (Some(first), Some(last)) = (self.sent_ns.first(), self.sent_ns.last()) else {
            return 0.0;
        };
        let gaps = self.sent_ns.len().saturating_sub(1).max(1);
        let gap = (last - first) as f64 / gaps as f64;
        let late =
            |(packet, sent): (usize, &i64)| ((sent - first) as f64 - gap * packet as f64).abs();
        self.sent_ns.iter().enumerate().map(late).fold(0.0, f64::max)
    }

    /// Whether nothing arrived for a while and then much at once.
    fn has_stalled(&self) -> bool {
        let long = (self.train.length_ns() as f64 * SILENT_PART).max(SILENT_NS);
        let short = (self.train.gap_ns() * AT_ONCE).min(AT_ONCE_NS) * (TOGETHER - 1) as f64;
        let apart = |of: &[super::Arrival]| (of[of.len() - 1].at_ns - of[0].at_ns) as f64;
        self.arrived
            .windows(TOGETHER + 1)
            .any(|of| apart(&of[..2]) > long && apart(&of[1..]) < short)
    }

    /// The median transit time of the last third of the arrivals less that of the first third.
    fn delay_growth_ns(&self) -> f64 {
        let delay = |it: &super::Arrival| {
            let sent = self.sent_ns.get(it.packet as usize)?;
            Some((it.at_ns - sent) as f64)
        };
        let third = self.arrived.len().div_ceil(3);
        let middle = |part: &[super::Arrival]| median(part.iter().filter_map(delay));
        let (early, late) = (&self.arrived[..third], &self.arrived[self.arrived.len() - third..]);
        middle(late).zip(middle(early)).map_or(0.0, |(late, early)| late - early)
    }
}
