//! The command line of `eigentime bandwidth`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::methods::Choice;
use eigentime_bandwidth::session::DEFAULT_PORT;
use eigentime_bandwidth::session::limits::{LONGEST_PACKET, SHORTEST_PACKET};
use eigentime_bandwidth::session::message::Direction;
use eigentime_bandwidth::session::token::Fingerprint;
use eigentime_bandwidth::train::Timing;

use crate::values::parse_span;

/// The end of the help text.
pub const NOTES: &str = "\
Both hosts need the same token, in a file or in EIGENTIME_TOKEN; serve makes one if there is none.
Their communication is encrypted (TLS 1.3), with keys derived from the token. Datagrams go to the same port as TCP.

Examples:
  eigentime bandwidth serve --token-file token
  eigentime bandwidth measure server.example --token-file token
  EIGENTIME_TOKEN=… eigentime bandwidth measure server.example
  eigentime bandwidth measure server.example --token-file token --direction down --json
  eigentime bandwidth measure server.example --token-file token --watch --interval 30s
  eigentime bandwidth measure server.example --token-file token --fail-under 100M

Exit status: 0; 1 if --fail-under says so, or if the last estimate has no number; 125 if eigentime
fails, the arguments are wrong or the other host cannot be reached; 130 if it was interrupted before
the first estimate.";

/// Options of `eigentime bandwidth`.
#[derive(Debug, Args)]
pub struct BandwidthOptions {
    /// What to do
    #[command(subcommand)]
    pub action: Action,
}

/// The two ends.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Wait for other hosts to measure the path to this host, one at a time
    Serve(Box<ServeOptions>),

    /// Measure the available bandwidth of the path to a host that serves
    Measure(Box<MeasureOptions>),
}

/// The authentication.
#[derive(Debug, Args)]
pub struct TokenOptions {
    /// The file with the token that both hosts share [default: the variable EIGENTIME_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// How trains are sent.
#[derive(Clone, Copy, Debug, Args)]
pub struct MannerOptions {
    /// The clock by which packets are paced and timestamped
    #[arg(long, value_name = "TIMING", default_value = "precise")]
    pub timing: TimingName,

    /// Send without a real-time priority, even if one is allowed
    #[arg(long)]
    pub no_realtime: bool,
}

/// How packets are paced.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TimingName {
    /// Read the processor's counter and spin
    Precise,
    /// Use the kernel's clock and usleep, as most programs do
    System,
}

impl From<TimingName> for Timing {
    fn from(name: TimingName) -> Self {
        match name {
            TimingName::Precise => Self::Precise,
            TimingName::System => Self::System,
        }
    }
}

/// Options of `eigentime bandwidth serve`.
#[derive(Debug, Args)]
pub struct ServeOptions {
    #[command(flatten)]
    pub token: TokenOptions,

    /// The address to listen on [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<IpAddr>,

    /// The port, for TCP and UDP; 0 for any free one
    #[arg(long, default_value_t = DEFAULT_PORT)]
    pub port: u16,

    /// A private key for the server, as a PEM file. Clients then need its fingerprint, and the
    /// token alone is not enough to impersonate the server [default: derived from the token]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// The highest rate that a client may try [default: 10G]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub max_rate: Option<BitRate>,

    /// How many bytes may be sent for a client in a session, such as 8G; ten times that in an hour
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub max_bytes: Option<u64>,

    /// How long a session may last [default: 5m]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub max_time: Option<Duration>,

    /// Exit after this many sessions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub sessions: Option<u32>,

    /// Print events as JSON, one per line
    #[arg(long)]
    pub json: bool,

    /// Do not print events
    #[arg(long, short, conflicts_with = "json")]
    pub quiet: bool,

    #[command(flatten)]
    pub manner: MannerOptions,
}

/// The direction of trains.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DirectionName {
    /// From here to the server
    Up,
    /// From the server to here
    Down,
}

impl From<DirectionName> for Direction {
    fn from(name: DirectionName) -> Self {
        match name {
            DirectionName::Up => Self::Up,
            DirectionName::Down => Self::Down,
        }
    }
}

/// The method of estimation.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MethodName {
    /// The method with the best results so far: regression
    Auto,
    /// A regression line through the results of trains at several rates
    Regression,
    /// A reconstruction of Kite2, for reference: repeated instant estimates; its interval is their
    /// repeatability
    Kite,
    /// The published method, for reference; its interval is its repeatability
    Yaz,
}

impl From<MethodName> for Choice {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Auto => Self::Auto,
            MethodName::Regression => Self::Regression,
            MethodName::Kite => Self::Kite,
            MethodName::Yaz => Self::Yaz,
        }
    }
}

/// Options of `eigentime bandwidth measure`.
#[derive(Debug, Args)]
pub struct MeasureOptions {
    /// The serving host, with its port if it is not the default: host, host:port, [address]:port
    #[arg(value_name = "HOST")]
    pub host: String,

    #[command(flatten)]
    pub token: TokenOptions,

    /// The port for datagrams, if something on the way maps them to another one
    #[arg(long, value_name = "PORT")]
    pub udp_port: Option<u16>,

    /// The method
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    pub method: MethodName,

    /// The direction
    #[arg(long, value_name = "WAY", default_value = "up")]
    pub direction: DirectionName,

    #[command(flatten)]
    pub manner: MannerOptions,

    /// The length of the longest IP packets to send [default: the longest that pass]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(
        i64::from(SHORTEST_PACKET)..=i64::from(LONGEST_PACKET)
    ))]
    pub packet_size: Option<u16>,

    /// The highest rate to try
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub max_rate: Option<BitRate>,

    /// How many bytes an estimate may send, such as 50M
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub max_bytes: Option<u64>,

    /// How long an estimate may take, once the server is ready
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "5s")]
    pub time: Duration,

    /// The number of estimates
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,

    /// Repeat until Ctrl-C, with a chart and a moving average
    #[arg(long, conflicts_with = "count")]
    pub watch: bool,

    /// The shortest time from one estimate to the next
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub interval: Option<Duration>,

    /// How long to wait while the server is busy with other clients
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1m")]
    pub wait: Duration,

    /// The fingerprint of a server that has a key of its own, as serve --key prints it
    #[arg(long, value_name = "SHA256")]
    pub fingerprint: Option<Fingerprint>,

    /// Print JSON, one line per estimate
    #[arg(long, conflicts_with = "prometheus")]
    pub json: bool,

    /// Print metrics of the last estimate for Prometheus, in the format of node_exporter's textfile
    /// collector
    #[arg(long)]
    pub prometheus: bool,

    /// Write to this file instead, atomically, after each estimate
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Exit with status 1 if less than this is available
    #[arg(long, value_name = "RATE")]
    pub fail_under: Option<BitRate>,

    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// A rate at which a train can be sent within the time that one may last.
fn parse_rate(text: &str) -> Result<BitRate, String> {
    let least = BitRate::mega(0.1);
    let rate: BitRate = text.parse().map_err(|why| format!("{why}"))?;
    if rate < least { Err(format!("it must be {least} at least")) } else { Ok(rate) }
}

/// Bytes with k, M or G, which are powers of 1000.
fn parse_bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(char, f64); 4] = [('k', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12)];
    let unit = UNITS.iter().find(|(name, _)| text.ends_with(*name));
    let (number, one) =
        unit.map_or((text, 1.0), |(name, one)| (text.trim_end_matches(*name), *one));
    let bytes = number.trim().parse::<f64>().ok().map(|number| number * one);
    let bytes = bytes.filter(|bytes| (1.0..1e18).contains(bytes));
    bytes
        .map(|bytes| bytes as u64)
        .ok_or_else(|| "write bytes as a number above 0, with k, M, G or T: 50M, 1.5G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_such_that_trains_can_be_sent() {
        assert_eq!(parse_rate("100k"), Ok(BitRate::mega(0.1)));
        for text in ["1", "99k", "fast"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_are_read_as_people_write_them() {
        for (text, bytes) in [("1500", 1500), ("50M", 50_000_000), ("1.5G", 1_500_000_000)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "0", "-1", "1e40", "much", "nan"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
