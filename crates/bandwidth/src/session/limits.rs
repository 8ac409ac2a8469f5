//! A server's limits for a client, and the client's usage.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::failure::{Code, Failure};
use crate::train::{Arrival, Train};
use crate::units::BitRate;

/// The longest train: the length of an estimate, and more than any method sends at once.
pub const LONGEST_TRAIN: Duration = Duration::from_secs(10);

/// The most packets of a train.
pub const MOST_PACKETS: u32 = 100_000;

/// The shortest packet: the headers of IPv6 and UDP, and the contents of a probe.
pub const SHORTEST_PACKET: u16 = 100;

/// The longest packet: a jumbo frame.
pub const LONGEST_PACKET: u16 = 9000;

/// How much faster than allowed a train may seem to arrive: a host or a link that holds packets
/// back for a while delivers them at once.
const COMPRESSED: f64 = 2.0;

/// The minimum span of a train, in nanoseconds, for its arrival rate to be meaningful.
const TELLING_NS: i64 = 10_000_000;

/// The longest session, regardless of the limits.
const LONGEST_SESSION: Duration = Duration::from_secs(24 * 3600);

/// The period over which a client's usage counts.
const HOUR: Duration = Duration::from_secs(3600);

/// An amount of bytes and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes of probes, in both directions together.
    pub bytes: u64,
    /// Time of sessions.
    pub time: Duration,
}

impl Allowance {
    /// What is left after this usage.
    #[must_use]
    pub fn less(self, used: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(used.bytes),
            time: self.time.saturating_sub(used.time),
        }
    }
}

/// The limits of a server for each client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The highest rate of a train.
    pub rate: BitRate,
    /// The limits of one session.
    pub session: Allowance,
    /// The limits per hour, for all sessions from one address (for IPv6: one /64 network).
    pub hour: Allowance,
}

impl Default for Limits {
    /// 10 Gbit/s, 8 GB and five minutes per session, ten times that per hour.
    fn default() -> Self {
        let session = Allowance { bytes: 8_000_000_000, time: Duration::from_secs(300) };
        let hour = Allowance { bytes: 80_000_000_000, time: HOUR };
        Self { rate: BitRate::mega(10_000.0), session, hour }
    }
}

/// The limits for this session, as sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The highest rate of a train.
    pub rate: BitRate,
    /// Bytes of probes.
    pub bytes: u64,
    /// The time in seconds.
    pub seconds: f64,
}

impl Offer {
    /// Whether the offer is usable.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let numbers = [self.rate.bits(), self.seconds];
        numbers.iter().all(|it| *it >= 0.0 && it.is_finite()) && self.rate > BitRate::ZERO
    }
}

/// The limits and the usage of one session.
#[derive(Debug)]
pub struct Account {
    rate: BitRate,
    left: Allowance,
    /// Whether the hourly limit leaves less than the session limit.
    of_hour: bool,
    begin: Instant,
    /// Trains, in either direction.
    pub trains: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl Account {
    /// The offer to its client.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer { rate: self.rate, bytes: self.left.bytes, seconds: self.left.time.as_secs_f64() }
    }

    /// When its time is over.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.begin + self.left.time
    }

    /// The usage so far.
    #[must_use]
    pub fn used(&self) -> Allowance {
        Allowance { bytes: self.bytes, time: self.begin.elapsed() }
    }

    /// The failure reported when its time is over.
    #[must_use]
    pub fn over_time(&self) -> Failure {
        let time = self.left.time;
        let whose = self.whose();
        Failure::new(Code::Time, format!("the {time:.0?} that {whose} are over (--max-time)"))
    }

    /// The name of the limits that apply.
    fn whose(&self) -> &'static str {
        if self.of_hour { "an hour has left for this session" } else { "this session may have" }
    }

    /// Counts a train that is about to be sent, in either direction.
    ///
    /// # Errors
    /// If it is invalid or exceeds the limits.
    pub fn admit(&mut self, train: &Train) -> Result<(), Failure> {
        possible(train)?;
        let refuse = |code, message: String| Err(Failure::new(code, message));
        // A rate may change in its last bit in transit.
        if train.rate.bits() > self.rate.bits() * (1.0 + 1e-9) {
            let (rate, most) = (train.rate, self.rate);
            return refuse(
                Code::Rate,
                format!("a train at {rate}, where {most} are allowed (--max-rate)"),
            );
        }
        let bytes = self.bytes.saturating_add(train.total_bytes());
        if bytes > self.left.bytes {
            let (most, whose) = (self.left.bytes, self.whose());
            return refuse(
                Code::Bytes,
                format!("{bytes} bytes with this train, of {most} that {whose} (--max-bytes)"),
            );
        }
        if Instant::now() + length(train) > self.end() {
            return Err(self.over_time());
        }
        self.trains += 1;
        self.bytes = bytes;
        Ok(())
    }

    /// Checks that the arrivals match the admitted train: no faster than allowed.
    ///
    /// # Errors
    /// If they were faster.
    pub fn came(&self, train: &Train, arrived: &[Arrival]) -> Result<(), Failure> {
        let (Some(first), Some(last)) = (arrived.first(), arrived.last()) else { return Ok(()) };
        let span = last.at_ns - first.at_ns;
        let rate =
            BitRate::of(f64::from(train.bytes) * (arrived.len() - 1) as f64, span.max(1) as f64);
        if span < TELLING_NS || rate.bits() < self.rate.bits() * COMPRESSED {
            return Ok(());
        }
        let most = self.rate;
        Err(Failure::new(
            Code::Rate,
            format!("a train came at {rate}, where {most} are allowed (--max-rate)"),
        ))
    }
}

fn length(train: &Train) -> Duration {
    Duration::from_nanos(train.length_ns())
}

/// Checks that a train can be sent at all, whoever asks for it.
fn possible(train: &Train) -> Result<(), Failure> {
    let Train { packets, bytes, rate } = *train;
    let rows = [
        (
            !(2..=MOST_PACKETS).contains(&packets),
            format!("{packets} packets, where 2 to {MOST_PACKETS} can be"),
        ),
        (
            !(SHORTEST_PACKET..=LONGEST_PACKET).contains(&bytes),
            format!("packets of {bytes} bytes, where {SHORTEST_PACKET} to {LONGEST_PACKET} can be"),
        ),
        (!(rate.bits() > 0.0 && rate.bits().is_finite()), "no rate".to_owned()),
        (length(train) > LONGEST_TRAIN, format!("a length of more than {LONGEST_TRAIN:?}")),
    ];
    match rows.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => Err(Failure::new(Code::Train, format!("a train cannot have {what}"))),
        None => Ok(()),
    }
}

/// The clients' usage in the last hour, by address.
#[derive(Debug)]
pub struct Ledger {
    limits: Limits,
    had: HashMap<IpAddr, VecDeque<(Instant, Allowance)>>,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, had: HashMap::new() }
    }

    /// Opens the account of a client that begins now.
    ///
    /// # Errors
    /// If it has used up the hour.
    pub fn open(&mut self, who: IpAddr, now: Instant) -> Result<Account, Failure> {
        let Limits { rate, session, hour } = self.limits;
        self.had.retain(|_, entries| {
            entries.retain(|(at, _)| now.saturating_duration_since(*at) < HOUR);
            !entries.is_empty()
        });
        let entries = self.had.get(&network(who)).into_iter().flatten();
        let left = entries.fold(hour, |left, (_, used)| left.less(*used));
        let rows = [
            (left.bytes == 0, Code::Bytes, "bytes", "--max-bytes"),
            (left.time.is_zero(), Code::Time, "time", "--max-time"),
        ];
        if let Some((_, code, what, option)) = rows.into_iter().find(|(is_so, ..)| *is_so) {
            let message = format!(
                "{} has had all the {what} of an hour ({option}): try again later",
                network(who)
            );
            return Err(Failure::new(code, message));
        }
        let of_hour = left.bytes < session.bytes || left.time < session.time;
        let left = Allowance {
            bytes: left.bytes.min(session.bytes),
            time: left.time.min(session.time).min(LONGEST_SESSION),
        };
        Ok(Account { rate, left, of_hour, begin: now, trains: 0, bytes: 0 })
    }

    /// Records the usage of a session.
    pub fn close(&mut self, who: IpAddr, used: Allowance, now: Instant) {
        self.had.entry(network(who)).or_default().push_back((now, used));
    }
}

/// The address to account to: for IPv6, one client has a /64 network.
#[must_use]
pub fn network(who: IpAddr) -> IpAddr {
    match who.to_canonical() {
        IpAddr::V6(it) => IpAddr::V6((u128::from(it) >> 64 << 64).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            rate: BitRate::mega(100.0),
            session: Allowance { bytes: 1_000_000, time: Duration::from_secs(60) },
            hour: Allowance { bytes: 1_500_000, time: Duration::from_secs(3600) },
        }
    }

    fn train(packets: u32, mega: f64) -> Train {
        Train { packets, bytes: 1500, rate: BitRate::mega(mega) }
    }

    #[test]
    fn trains_are_admitted_up_to_the_limits() {
        let who = "192.0.2.1".parse().unwrap();
        let now = Instant::now();
        let mut account = Ledger::new(limits()).open(who, now).unwrap();
        account.admit(&train(600, 100.0)).unwrap();
        for (train, code, what) in [
            (train(2, 100.1), Code::Rate, "100.0 Mbit/s are allowed"),
            (train(100, 100.0), Code::Bytes, "1050000 bytes with this train"),
            (train(1, 1.0), Code::Train, "1 packets"),
            (train(MOST_PACKETS + 1, 1.0), Code::Train, "100001 packets"),
            (train(50, 0.01), Code::Train, "a length"),
            (Train { bytes: 99, ..train(2, 1.0) }, Code::Train, "of 99 bytes"),
            (Train { bytes: 9001, ..train(2, 1.0) }, Code::Train, "of 9001 bytes"),
            (Train { rate: BitRate::ZERO, ..train(2, 1.0) }, Code::Train, "no rate"),
        ] {
            let why = account.admit(&train).unwrap_err();
            assert_eq!(why.code, code, "{}", why.message);
            assert!(why.message.contains(what), "{}", why.message);
        }
        account.admit(&train(66, 100.0)).unwrap();
        assert_eq!((account.trains, account.bytes), (2, 999_000));
    }

    #[test]
    fn an_hour_is_counted_for_an_address_and_passes() {
        let mut ledger = Ledger::new(limits());
        let begin = Instant::now();
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|it| it.parse().unwrap());
        let used = Allowance { bytes: 900_000, time: Duration::from_secs(5) };
        ledger.close(one, used, begin);
        let left = ledger.open(same, begin).unwrap().offer();
        assert_eq!((left.bytes, left.seconds), (600_000, 60.0));
        ledger.close(same, used, begin + Duration::from_secs(100));
        let why = ledger.open(one, begin + Duration::from_secs(200)).unwrap_err();
        assert!(why.code == Code::Bytes && why.message.contains("2001:db8::"), "{why:?}");
        assert_eq!(ledger.open(other, begin).unwrap().offer().bytes, 1_000_000);
        let later = begin + Duration::from_secs(3650);
        assert_eq!(ledger.open(one, later).unwrap().offer().bytes, 600_000);
    }

    #[test]
    fn a_train_that_comes_much_faster_than_allowed_is_noticed() {
        let account =
            Ledger::new(limits()).open("192.0.2.1".parse().unwrap(), Instant::now()).unwrap();
        let spread = |gap: i64| -> Vec<_> {
            (0..2000).map(|packet| Arrival { packet, at_ns: i64::from(packet) * gap }).collect()
        };
        account.came(&train(2000, 100.0), &spread(120_000)).unwrap();
        account.came(&train(2000, 100.0), &spread(1_000)).unwrap();
        let why = account.came(&train(2000, 100.0), &spread(12_000)).unwrap_err();
        assert!(why.code == Code::Rate && why.message.contains("1.000 Gbit/s"), "{why:?}");
    }

    #[test]
    fn a_session_ends_when_its_time_is_over() {
        let now = Instant::now();
        let short = Limits {
            session: Allowance { time: Duration::from_millis(1), ..limits().session },
            ..limits()
        };
        let mut account = Ledger::new(short).open("192.0.2.1".parse().unwrap(), now).unwrap();
        let why = account.admit(&train(60, 1.0)).unwrap_err();
        assert_eq!(why.code, Code::Time);
    }
}
