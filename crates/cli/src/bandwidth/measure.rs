//! The measuring end.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::methods::{Bounds, Broken, Estimate, Found, Path, Phase, Step, estimate};
use eigentime_bandwidth::series::Smoothed;
use eigentime_bandwidth::session::DEFAULT_PORT;
use eigentime_bandwidth::session::client::{self, Request, Server, connect};
use eigentime_bandwidth::session::message::Direction;
use eigentime_bandwidth::session::sockets::open;
use eigentime_bandwidth::train::{Trace, Train};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::args::MeasureOptions;
use super::serve::manner;
use super::{chart, prometheus, tell, token};
use crate::place;

/// The exit statuses besides those of all commands.
const TOO_LITTLE: i32 = 1;
const INTERRUPTED: i32 = 130;

/// How often to check for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The width of charts, in cells.
const CELLS: usize = 40;

/// An estimate in machine-readable form.
#[derive(Serialize)]
struct Line<'a> {
    /// When it was made, in seconds since the epoch.
    at: f64,
    host: &'a str,
    direction: Direction,
    #[serde(flatten)]
    estimate: &'a Estimate,
    /// The moving average.
    smoothed: Smoothed,
}

/// Measures as often as requested.
pub fn measure(options: &MeasureOptions) -> Result<i32, String> {
    let server = server(options)?;
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second signal ends the program at once.
        let registered = flag::register_conditional_default(signal, Arc::clone(&stopped))
            .and_then(|_| flag::register(signal, Arc::clone(&stopped)));
        registered.map_err(|why| format!("cannot listen to signals: {why}"))?;
    }
    if let Some(file) = &options.output {
        place::check(file)?;
    }
    let mut series = Series::new(options);
    let mut last = None;
    while series.goes_on(&stopped) {
        let begin = Instant::now();
        match one(options, &server, &stopped) {
            Ok(Some(found)) => {
                series.add(&found)?;
                last = Some(found);
            }
            Ok(None) => break,
            // The server may be restarted: the user will see.
            Err(why) if options.watch && series.made > 0 => {
                eprintln!("eigentime: bandwidth: {why}")
            }
            Err(why) => return Err(why),
        }
        let interval = options.interval.unwrap_or_default();
        while series.goes_on(&stopped) && begin.elapsed() < interval {
            thread::sleep(LOOK.min(interval));
        }
    }
    Ok(last.map_or(INTERRUPTED, |last| status(&last, options.fail_under)))
}

/// A path that is not used any more after an interruption.
struct Interruptible<'a> {
    path: &'a mut dyn Path,
    stopped: &'a AtomicBool,
}

impl Path for Interruptible<'_> {
    fn send(&mut self, train: &Train) -> Result<Trace, Broken> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Broken("it was interrupted".to_owned()));
        }
        self.path.send(train)
    }

    fn bounds(&self) -> Bounds {
        self.path.bounds()
    }

    fn elapsed(&self) -> Duration {
        self.path.elapsed()
    }

    fn rest(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while !self.stopped.load(Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.path.rest(left.min(LOOK));
        }
    }
}

/// The rounding of four digits: trains are sent at whole nanoseconds.
const ROUNDED: f64 = 5e-4;

/// The exit status: whether the rate suffices.
fn status(last: &Estimate, least: Option<BitRate>) -> i32 {
    let known = match last.found {
        Found::Available { rate, .. } | Found::AtLeast { rate, .. } => Some(rate),
        Found::AtMost { .. } | Found::Unknown { .. } => None,
    };
    let is_number = matches!(last.found, Found::Available { .. });
    let is_enough = match least {
        Some(least) => known.is_some_and(|rate| rate.bits() >= least.bits() * (1.0 - ROUNDED)),
        None => is_number,
    };
    if is_enough { 0 } else { TOO_LITTLE }
}

/// One estimate, in its own session; `None` if it was interrupted.
fn one(
    options: &MeasureOptions,
    server: &Server,
    stopped: &AtomicBool,
) -> Result<Option<Estimate>, String> {
    let screen = Screen::new(options);
    let request = Request {
        direction: options.direction.into(),
        bytes: options.packet_size,
        rate: options.max_rate,
        time: options.time,
        total_bytes: options.max_bytes.unwrap_or(u64::MAX),
        wait: options.wait,
    };
    screen.say(format!("connecting to {}", options.host));
    let mut path = connect(server, request, open(manner(options.manner)), &mut |step| match step {
        client::Step::Busy(before) => screen.say(format!("{before} before this one")),
        client::Step::Begun => screen.say("looking for the longest packet that passes".to_owned()),
        client::Step::Bytes(bytes) => screen.say(format!("packets of {bytes} bytes pass")),
    })
    .map_err(|why| why.to_string())?;
    let mut path = Interruptible { path: &mut path, stopped };
    let found = estimate(options.method.into(), &mut path, &mut |step| screen.train(step));
    screen.clear();
    if stopped.load(Ordering::Relaxed) {
        return Ok(None);
    }
    found.map(Some).map_err(|why| why.to_string())
}

fn server(options: &MeasureOptions) -> Result<Server, String> {
    let (host, port) = address(&options.host)?;
    let missing = "both hosts need the same token: give it with --token-file FILE or in \
                   EIGENTIME_TOKEN (eigentime bandwidth serve makes one if it has none)";
    Ok(Server {
        host,
        port,
        udp_port: options.udp_port,
        token: token(&options.token)?.ok_or(missing)?,
        fingerprint: options.fingerprint,
    })
}

/// Parses a host with or without its port. An IPv6 address needs brackets only with a port.
fn address(text: &str) -> Result<(String, u16), String> {
    let wrong = || {
        format!(
            "'{text}' is not a host: write name, name:port, address or \
             [address]:port"
        )
    };
    // The interface of a link-local address follows it: fe80::1%eth0.
    let number = text.split('%').next().unwrap_or_default();
    if number.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok((text.to_owned(), DEFAULT_PORT));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (text, DEFAULT_PORT),
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.is_empty() || bare.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok((bare.to_owned(), port))
}

/// The progress display on a terminal.
struct Screen {
    bar: ProgressBar,
    time: Duration,
}

impl Screen {
    fn new(options: &MeasureOptions) -> Self {
        let is_shown = io::stderr().is_terminal() && !options.quiet;
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let millis = u64::try_from(options.time.as_millis()).unwrap_or(u64::MAX);
        let bar = ProgressBar::with_draw_target(Some(millis), target);
        let style = ProgressStyle::with_template("{bar:24} {wide_msg}");
        bar.set_style(style.expect("the template is sound"));
        Self { bar, time: options.time }
    }

    fn say(&self, text: String) {
        self.bar.set_message(text);
        self.bar.tick();
    }

    fn train(&self, step: &Step) {
        let what = match step.phase {
            Phase::Searching => "searching",
            Phase::Measuring => "measuring",
        };
        let so_far = step.so_far.map(|rate| format!(", about {rate}")).unwrap_or_default();
        let spent = Duration::from_secs_f64(step.cost.seconds).min(self.time);
        self.bar.set_position(u64::try_from(spent.as_millis()).unwrap_or(u64::MAX));
        self.say(format!("{what} at {}{so_far}", step.train.rate));
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// The estimates so far.
struct Series<'a> {
    options: &'a MeasureOptions,
    made: u32,
    smoothed: Smoothed,
    full: BitRate,
    /// The text for the output file.
    text: String,
}

impl<'a> Series<'a> {
    fn new(options: &'a MeasureOptions) -> Self {
        let (smoothed, full) = (Smoothed::default(), BitRate::ZERO);
        Self { options, made: 0, smoothed, full, text: String::new() }
    }

    fn goes_on(&self, stopped: &AtomicBool) -> bool {
        let is_enough = !self.options.watch && self.made >= self.options.count;
        !is_enough && !stopped.load(Ordering::Relaxed)
    }

    fn add(&mut self, estimate: &Estimate) -> Result<(), String> {
        self.made += 1;
        self.smoothed.add(estimate);
        let told = self.told(estimate)?;
        let Some(file) = &self.options.output else {
            // There is only one set of metrics: the last.
            let follows = !self.options.watch && self.made < self.options.count;
            let is_kept_back = self.options.prometheus && follows;
            return if is_kept_back { Ok(()) } else { place::write(None, &told) };
        };
        if self.options.prometheus {
            self.text.clear();
        }
        self.text.push_str(&told);
        place::write(Some(file), &self.text)
    }

    fn told(&mut self, estimate: &Estimate) -> Result<String, String> {
        let now = SystemTime::now();
        if self.options.prometheus {
            let direction = self.options.direction.into();
            return prometheus::text(estimate, &self.options.host, direction, now)
                .map_err(|why| why.to_string());
        }
        if self.options.json {
            let at = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let (host, smoothed) = (self.options.host.as_str(), self.smoothed);
            let direction = self.options.direction.into();
            let line = Line { at: at.as_secs_f64(), host, direction, estimate, smoothed };
            let text = serde_json::to_string(&line).map_err(|why| why.to_string())?;
            return Ok(format!("{text}\n"));
        }
        Ok(format!("{}{}\n", self.chart(estimate), tell::line(estimate)))
    }

    /// A bar before the line, in a series that is watched.
    fn chart(&mut self, estimate: &Estimate) -> String {
        if !self.options.watch {
            return String::new();
        }
        let rate = match estimate.found {
            Found::Available { rate, .. } | Found::AtLeast { rate, .. } => rate,
            Found::AtMost { .. } | Found::Unknown { .. } => BitRate::ZERO,
        };
        let capacity = estimate.capacity.unwrap_or_default();
        self.full = chart::full([self.full, rate, capacity].into_iter());
        let mark = self.smoothed.rate().unwrap_or_default();
        format!("{}▏{} ", chart::bar(rate, mark, self.full, CELLS), self.full)
    }
}

#[cfg(test)]
mod tests {
    use eigentime_bandwidth::methods::{Cost, Limit, Method};

    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_ports() {
        for (text, host, port) in [
            ("server", "server", DEFAULT_PORT),
            ("server:99", "server", 99),
            ("10.0.0.1:99", "10.0.0.1", 99),
            ("fe80::1", "fe80::1", DEFAULT_PORT),
            ("fe80::1%eth0", "fe80::1%eth0", DEFAULT_PORT),
            ("[fe80::1%eth0]:99", "fe80::1%eth0", 99),
            ("[fe80::1]", "fe80::1", DEFAULT_PORT),
            ("[fe80::1]:99", "fe80::1", 99),
        ] {
            assert_eq!(address(text), Ok((host.to_owned(), port)), "{text}");
        }
        for text in ["", ":99", "server:", "server:x", "server:99999", "a b", "[]:7"] {
            let why = address(text).unwrap_err();
            assert!(why.contains(&format!("'{text}'")), "{why}");
        }
    }

    #[test]
    fn the_status_says_whether_there_is_enough() {
        let of = |found| Estimate {
            method: Method::Regression,
            found,
            capacity: None,
            cost: Cost::default(),
            discarded: Vec::new(),
        };
        let rate = BitRate::mega(100.0);
        let available = of(Found::Available { rate, low: rate, high: rate });
        let at_least = of(Found::AtLeast { rate, limit: Limit::Sender });
        let unknown = of(Found::Unknown { why: Limit::Silent });
        for (estimate, least, expected) in [
            (&available, None, 0),
            (&available, Some(99.0), 0),
            (&available, Some(101.0), TOO_LITTLE),
            (&at_least, None, TOO_LITTLE),
            (&at_least, Some(99.0), 0),
            (&unknown, None, TOO_LITTLE),
            (&unknown, Some(1.0), TOO_LITTLE),
        ] {
            assert_eq!(
                status(estimate, least.map(BitRate::mega)),
                expected,
                "{estimate:?} {least:?}"
            );
        }
    }
}
