//! The command line of `eigentime-path`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use eigentime_bandwidth::BitRate;
use eigentime_timeline::text::parse_offset;

use crate::emulator::Settings;
use crate::emulator::cross::Traffic;
use crate::emulator::host::End;
use crate::emulator::way::{self, Limit};

/// Emulates a path between two interfaces: capacity, queue, delay, loss and cross traffic
///
/// Every frame that arrives at one end leaves at the other. This needs root, or CAP_NET_RAW and
/// CAP_NET_ADMIN, and CAP_SYS_ADMIN for other namespaces. See docs/bandwidth/path.md.
#[derive(Debug, Parser)]
#[command(name = "eigentime-path", version, max_term_width = 100)]
pub struct Arguments {
    /// One end: IFACE, or NETNS:IFACE
    #[arg(value_name = "A")]
    first: End,
    /// The other end
    #[arg(value_name = "B")]
    second: End,

    /// The capacity each way, in bits of IP packets per second: 300M, 1G
    #[arg(long, value_name = "RATE")]
    capacity: BitRate,
    /// The length of the queue: bytes (150000, 64k, 2M) or a time at the capacity (20ms)
    #[arg(long, value_name = "BYTES|TIME", default_value = "100ms", value_parser = limit)]
    queue: Limit,
    /// The delay each way, in addition to the queue's
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = span)]
    delay: Duration,
    /// The share of packets lost each way
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    loss: f64,
    /// The share of packets delayed further, so that others overtake them
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    reorder: f64,
    /// The additional delay of those packets
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = span)]
    reorder_by: Duration,
    /// The longest IP packet that it carries [default: the longest that both interfaces allow]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(68..=65_535))]
    mtu: Option<u32>,
    /// The capacity from this time on, such as '2s 100M'; may be repeated
    #[arg(long, value_name = "AT CAPACITY", value_parser = change)]
    change: Vec<(Duration, BitRate)>,
    /// Cross traffic from A to B: cbr:RATE, poisson:RATE or pareto:RATE[:SHAPE]
    #[arg(long, value_name = "TRAFFIC")]
    cross: Option<Traffic>,
    /// The length of its packets
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = crate::emulator::cross::BYTES,
        value_parser = clap::value_parser!(u32).range(20..=65_535)
    )]
    cross_bytes: u32,

    /// The seed for loss, reordering and cross traffic
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// How long it runs; a signal ends it earlier
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = positive_span)]
    duration: Duration,
    /// Write what it actually carried, as JSON lines
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// The time that each line of --truth covers
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = truth_span)]
    truth_every: Duration,
    /// The processor to run on
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<usize>,
    /// The real-time priority, where one is allowed
    #[arg(
        long,
        value_name = "PRIORITY",
        default_value = "10",
        value_parser = clap::value_parser!(u8).range(1..=99)
    )]
    realtime: u8,
    /// Take no real-time priority
    #[arg(long, conflicts_with = "realtime")]
    no_realtime: bool,
    /// Report readiness on this descriptor instead of standard output
    #[arg(long, value_name = "FD")]
    pub ready_fd: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    reverse: Reverse,
}

/// The properties of the way from B to A. By default they are those from A to B, but the capacity
/// does not change, and there is no cross traffic.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "From B to A, if different")]
struct Reverse {
    /// The capacity
    #[arg(long, value_name = "RATE")]
    reverse_capacity: Option<BitRate>,
    /// The length of the queue
    #[arg(long, value_name = "BYTES|TIME", value_parser = limit)]
    reverse_queue: Option<Limit>,
    /// The delay
    #[arg(long, visible_alias = "reverse-delay", value_name = "TIME", value_parser = span)]
    delay_back: Option<Duration>,
    /// The share of packets lost
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    reverse_loss: Option<f64>,
    /// The share of packets delayed further
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    reverse_reorder: Option<f64>,
    /// The capacity from this time on; may be repeated
    #[arg(long, value_name = "AT CAPACITY", value_parser = change)]
    reverse_change: Vec<(Duration, BitRate)>,
    /// Cross traffic
    #[arg(long, value_name = "TRAFFIC")]
    reverse_cross: Option<Traffic>,
}

impl Arguments {
    /// The requested path.
    pub fn settings(self) -> Settings {
        let bytes = self.cross_bytes;
        let sized = |traffic: Traffic| Traffic { bytes, ..traffic };
        let forward = way::Settings {
            capacity: self.capacity,
            changes: self.change,
            queue: self.queue,
            delay: self.delay,
            loss: self.loss,
            reorder: self.reorder,
            reorder_by: self.reorder_by,
            mtu: self.mtu,
            cross: self.cross.map(sized),
            seed: self.seed,
        };
        let reverse = self.reverse;
        let back = way::Settings {
            capacity: reverse.reverse_capacity.unwrap_or(forward.capacity),
            changes: reverse.reverse_change,
            queue: reverse.reverse_queue.unwrap_or(forward.queue),
            delay: reverse.delay_back.unwrap_or(forward.delay),
            loss: reverse.reverse_loss.unwrap_or(forward.loss),
            reorder: reverse.reverse_reorder.unwrap_or(forward.reorder),
            cross: reverse.reverse_cross.map(sized),
            // Another random sequence than that of the forward direction.
            seed: self.seed.wrapping_add(1),
            ..forward.clone()
        };
        Settings {
            ends: [self.first, self.second],
            ways: [forward, back],
            duration: self.duration,
            truth: self.truth,
            truth_every: self.truth_every,
            cpu: self.cpu,
            realtime: (!self.no_realtime).then_some(self.realtime),
        }
    }
}

fn span(text: &str) -> Result<Duration, String> {
    let nanos = parse_offset(text).map_err(|error| error.to_string())?;
    u64::try_from(nanos.0).map(Duration::from_nanos).map_err(|_| "it is below zero".into())
}

fn positive_span(text: &str) -> Result<Duration, String> {
    let positive = |span: &Duration| !span.is_zero();
    span(text).and_then(|it| Some(it).filter(positive).ok_or("it must be more than nothing".into()))
}

/// Shorter spans than the kernel's own work are not worth their lines.
fn truth_span(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_micros(100);
    let span = span(text)?;
    if span < LEAST { Err("it must be 100us at least".into()) } else { Ok(span) }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>().ok();
    let share = number.filter(|it| (0.0..=100.0).contains(it)).map(|it| it / 100.0);
    share.ok_or_else(|| "it must be a number from 0 to 100".into())
}

/// Bytes if it is a number or ends with k, M or G; otherwise a time.
fn limit(text: &str) -> Result<Limit, String> {
    const UNITS: [(char, u64); 3] = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let (number, one) = unit.map_or((text, 1), |(_, one)| (&text[..text.len() - 1], *one));
    if let Ok(number) = number.parse::<u64>() {
        let bytes = number.checked_mul(one).filter(|bytes| *bytes > 0);
        return bytes.map(Limit::Bytes).ok_or_else(|| "no such number of bytes".into());
    }
    let refuse = |error| format!("neither bytes (150000, 64k, 2M) nor a time: {error}");
    positive_span(text).map(Limit::Time).map_err(refuse)
}

fn change(text: &str) -> Result<(Duration, BitRate), String> {
    let (at, rate) = text
        .trim()
        .split_once(char::is_whitespace)
        .ok_or("write '2s 100M': when, and what then")?;
    let rate = rate
        .trim()
        .parse()
        .map_err(|error: eigentime_bandwidth::units::NoRate| error.to_string())?;
    Ok((span(at)?, rate))
}
