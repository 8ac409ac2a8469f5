//! The departure times of a train's packets.
//!
//! With [`Timing::Precise`] the processor's counter is polled until a packet is due: a wake-up
//! takes tens of microseconds, in which several packets are due at 1 Gbit/s. Only long gaps are
//! partly slept through. [`Timing::System`] is what most programs do, for comparison: it reads the
//! kernel's clock and sleeps with `usleep`.

use std::hint::spin_loop;
use std::time::Duration;

use eigentime_clock::sleeper::{Policy, Sleeper};
use eigentime_clock::{Clock, Instant};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::Train;

/// The clock that paces and timestamps trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// The library's clock and sleeper.
    #[default]
    Precise,
    /// `clock_gettime` and `usleep`.
    System,
}

/// Gaps of at least this length are slept through, except for the end.
const ROOMY: Duration = Duration::from_micros(500);

/// The part of such a gap that is spun: wake-ups are seldom later.
const SPUN: Duration = Duration::from_micros(150);

/// The time from the beginning of a train to its first packet.
const LEAD: Duration = Duration::from_micros(50);

/// The times at which the packets of one train are due.
#[derive(Debug)]
pub enum Pace<'a> {
    /// With the library.
    Precise {
        /// The clock.
        clock: Clock,
        /// Sleeps through long gaps.
        sleeper: &'a mut Sleeper,
        /// When the first packet is due.
        begin: Instant,
        /// The train being sent.
        train: Train,
    },
    /// With the system: a sleep before each packet, however late it is, so that none leave at once.
    System {
        /// The train being sent.
        train: Train,
        /// When the first packet left, in nanoseconds.
        begin_ns: Option<i64>,
    },
}

impl<'a> Pace<'a> {
    /// The pace of a train that begins now.
    pub fn begin(timing: Timing, train: Train, sleeper: &'a mut Sleeper) -> Self {
        match timing {
            Timing::Precise => {
                let clock = Clock::system();
                let now = clock.now_ordered();
                Self::Precise { clock, sleeper, begin: now.checked_add(LEAD).unwrap_or(now), train }
            }
            Timing::System => Self::System { train, begin_ns: None },
        }
    }

    /// Waits until a packet is due, and returns when that is on CLOCK_MONOTONIC, in nanoseconds.
    pub fn wait(&mut self, packet: u32) -> i64 {
        match self {
            Self::Precise { clock, sleeper, begin, train } => {
                let due = Duration::from_nanos(train.due_ns(packet));
                let target = begin.checked_add(due).unwrap_or(*begin);
                if train.gap_ns() >= ROOMY.as_nanos() as f64
                    && let Some(nearly) = target.checked_sub(SPUN)
                {
                    sleeper.sleep_until(nearly);
                }
                loop {
                    let now = clock.now_ordered();
                    if now >= target {
                        return nanos(clock.monotonic(now));
                    }
                    spin_loop();
                }
            }
            Self::System { train, begin_ns } => {
                let mut now = system_now();
                let target = *begin_ns.get_or_insert(now) + train.due_ns(packet) as i64;
                let mut is_slept_for = packet == 0;
                while now < target || !is_slept_for {
                    let microseconds = ((target - now) / 1000).max(1);
                    // SAFETY: it takes no pointers.
                    unsafe { libc::usleep(u32::try_from(microseconds).unwrap_or(u32::MAX)) };
                    (now, is_slept_for) = (system_now(), true);
                }
                now
            }
        }
    }
}

/// A sleeper for the sending thread, with real-time priority while a train is sent, if requested
/// and allowed.
///
/// # Panics
/// Never: the priority is valid.
#[must_use]
pub fn sleeper(realtime: bool) -> Sleeper {
    /// In the middle: above the minimum, below the kernel's own threads.
    const PRIORITY: u8 = 50;
    let policy = Policy { cpu: 1.0, ..Policy::default() };
    let builder = Sleeper::builder().policy(policy);
    let builder = if realtime { builder.realtime(PRIORITY) } else { builder };
    builder.build().expect("a priority from 1 to 99, a share of one")
}

fn system_now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BitRate;

    /// The times of all packets.
    fn times(timing: Timing, train: Train) -> Vec<i64> {
        let mut sleeper = sleeper(false);
        let mut pace = Pace::begin(timing, train, &mut sleeper);
        (0..train.packets).map(|packet| pace.wait(packet)).collect()
    }

    #[test]
    fn no_packet_leaves_early() {
        for (timing, gap_us) in
            [(Timing::Precise, 10), (Timing::Precise, 1000), (Timing::System, 10)]
        {
            let gap_ns = gap_us * 1000;
            let rate = BitRate::of(1500.0, gap_ns as f64);
            let train = Train { packets: 50, bytes: 1500, rate };
            let mut sleeper = sleeper(false);
            let mut pace = Pace::begin(timing, train, &mut sleeper);
            let begin = match &pace {
                Pace::Precise { clock, begin, .. } => Some(nanos(clock.monotonic(*begin))),
                Pace::System { .. } => None,
            };
            let times: Vec<i64> = (0..train.packets).map(|packet| pace.wait(packet)).collect();
            let begin = begin.unwrap_or(times[0]);
            for (packet, time) in times.iter().enumerate() {
                let early = begin + packet as i64 * gap_ns - time;
                // The clock's rate may be refined meanwhile.
                assert!(early <= 1000, "{timing:?} {gap_us} µs: {packet}: {early} ns early");
            }
        }
    }

    #[test]
    fn precise_trains_keep_a_rate_at_which_others_cannot() {
        let train = Train { packets: 400, bytes: 1500, rate: BitRate::mega(1000.0) };
        let length = train.length_ns() as f64;
        let spans = |timing| {
            (0..100).map(move |_| {
                let times = times(timing, train);
                (times[times.len() - 1] - times[0]) as f64 / length
            })
        };
        // Other threads may take the processor meanwhile, but not each time.
        assert!(spans(Timing::Precise).any(|span| span < 1.2), "it never keeps its rate");
        let mut system = spans(Timing::System).take(5);
        assert!(system.all(|span| span > 1.5), "usleep wakes later than after 12 µs");
    }
}
