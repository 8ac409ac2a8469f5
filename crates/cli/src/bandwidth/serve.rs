//! The waiting end.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use eigentime_bandwidth::session::event::{Entry, Event};
use eigentime_bandwidth::session::limits::Limits;
use eigentime_bandwidth::session::server::{ConnectionLimits, Server, Settings, Stop, anywhere};
use eigentime_bandwidth::session::sockets::{Manner, open};
use eigentime_bandwidth::session::token::{Key, Token};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::args::{MannerOptions, ServeOptions};
use super::token;

/// By default, how many sessions' worth of data a client may use in an hour.
const SESSIONS: u32 = 10;

/// How trains are sent.
pub fn manner(options: MannerOptions) -> Manner {
    Manner { timing: options.timing.into(), realtime: !options.no_realtime }
}

/// Serves until a signal arrives, or for as many sessions as requested.
pub fn serve(options: &ServeOptions) -> Result<i32, String> {
    // Installed before listening, so that an early signal also ends it cleanly.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|why| why.to_string())?;
    let known = match token(&options.token)? {
        Some(token) => token,
        None => {
            let text = Token::generate();
            eprintln!("eigentime: no token was given: clients need EIGENTIME_TOKEN={text}");
            text.parse().map_err(|why| format!("{why}"))?
        }
    };
    let key = options.key.as_deref().map(Key::read).transpose();
    let stop: &'static OnceLock<Stop> = Box::leak(Box::default());
    let settings = Settings {
        listen: match options.listen {
            Some(address) => SocketAddr::new(address, options.port),
            None => anywhere(options.port),
        },
        token: known,
        key: key.map_err(|why| why.to_string())?,
        limits: limits(options),
        connections: ConnectionLimits::default(),
        open: open(manner(options.manner)),
        tell: Box::new(teller(options, stop)),
    };
    let server = Server::bind(settings).map_err(|why| why.to_string())?;
    let handle = stop.get_or_init(|| server.stop()).clone();
    let handler = signals.handle();
    let waiting = thread::spawn(move || {
        if signals.forever().next().is_some() {
            handle.stop();
        }
        // Its pipe is written to when the handle is closed.
        signals
    });
    let served = server.run().map_err(|why| why.to_string());
    handler.close();
    drop(waiting.join().map_err(|_| "the thread that waits for signals has failed".to_owned())?);
    served.map(|()| 0)
}

/// Prints events, and stops the server after as many sessions as requested.
fn teller(
    options: &ServeOptions,
    stop: &'static OnceLock<Stop>,
) -> impl Fn(&Entry) + Send + Sync + 'static {
    let (json, quiet) = (options.json, options.quiet);
    let (sessions, ended) = (options.sessions, AtomicU32::new(0));
    move |entry| {
        if !quiet {
            print(entry, json);
        }
        let is_last = matches!(entry.event, Event::Ended { .. })
            && sessions == Some(ended.fetch_add(1, Ordering::Relaxed) + 1);
        if let Some(stop) = stop.get().filter(|_| is_last) {
            stop.stop();
        }
    }
}

/// Prints to standard output as JSON, or to standard error as text. The reader may be gone.
fn print(entry: &Entry, json: bool) {
    let written = match serde_json::to_string(entry).ok().filter(|_| json) {
        Some(text) => {
            let mut output = io::stdout().lock();
            writeln!(output, "{text}").and_then(|()| output.flush())
        }
        None => writeln!(io::stderr().lock(), "{entry}"),
    };
    drop(written);
}

fn limits(options: &ServeOptions) -> Limits {
    let mut limits = Limits::default();
    limits.rate = options.max_rate.unwrap_or(limits.rate);
    if let Some(bytes) = options.max_bytes {
        limits.session.bytes = bytes;
        limits.hour.bytes = bytes.saturating_mul(SESSIONS.into());
    }
    if let Some(time) = options.max_time {
        limits.session.time = time;
        limits.hour.time = time.saturating_mul(SESSIONS).max(Duration::from_secs(60));
    }
    limits
}
