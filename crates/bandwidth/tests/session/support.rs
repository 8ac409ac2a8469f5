//! A server in a thread, and clients of it.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::session::client::{self, Remote, Request};
use eigentime_bandwidth::session::error::SessionError;
use eigentime_bandwidth::session::event::{Entry, Event};
use eigentime_bandwidth::session::limits::Limits;
use eigentime_bandwidth::session::server::{ConnectionLimits, Server, Settings, Stop};
use eigentime_bandwidth::session::token::{Key, Token};
use eigentime_bandwidth::train::Train;

use crate::plain::Plain;

/// How long anything may take before a test has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Made once: that takes its time.
pub fn token() -> Token {
    static TOKEN: LazyLock<Token> =
        LazyLock::new(|| "a token of these tests".parse().expect("long enough"));
    TOKEN.clone()
}

/// One that nobody else knows.
pub fn other_token() -> Token {
    static OTHER: LazyLock<Token> =
        LazyLock::new(|| Token::generate().parse().expect("long enough"));
    OTHER.clone()
}

/// What a server has told.
#[derive(Clone, Default)]
pub struct Told(Arc<(Mutex<Vec<Event>>, Condvar)>);

impl Told {
    fn add(&self, entry: &Entry) {
        self.0.0.lock().unwrap().push(entry.event.clone());
        self.0.1.notify_all();
    }

    /// The first event that is one of these, once there is one.
    pub fn wait<T>(&self, what: impl Fn(&Event) -> Option<T>) -> T {
        let begin = Instant::now();
        let mut all = self.0.0.lock().unwrap();
        loop {
            if let Some(found) = all.iter().find_map(&what) {
                return found;
            }
            let left = PATIENCE.checked_sub(begin.elapsed());
            let left = left.unwrap_or_else(|| panic!("it has not happened: {all:?}"));
            all = self.0.1.wait_timeout(all, left).unwrap().0;
        }
    }

    /// Why somebody was refused.
    pub fn refused(&self) -> String {
        self.wait(|event| match event {
            Event::Refused { why, .. } => Some(why.clone()),
            _ => None,
        })
    }

    /// How a session ended.
    pub fn ended(&self) -> String {
        self.wait(|event| match event {
            Event::Ended { result, .. } => Some(result.clone()),
            _ => None,
        })
    }
}

pub struct Setup {
    pub listen: &'static str,
    pub limits: Limits,
    pub connections: ConnectionLimits,
    pub key: Option<Key>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0",
            limits: Limits::default(),
            connections: ConnectionLimits::default(),
            key: None,
        }
    }
}

/// A server in a thread, which ends with this.
pub struct Running {
    pub address: SocketAddr,
    pub told: Told,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn new(setup: Setup) -> Self {
        let told = Told::default();
        let tell = told.clone();
        let server = Server::bind(Settings {
            listen: setup.listen.parse().unwrap(),
            token: token(),
            key: setup.key,
            limits: setup.limits,
            connections: setup.connections,
            open: Box::new(Plain::open),
            tell: Box::new(move |entry| tell.add(entry)),
        })
        .unwrap();
        let (address, stop) = (server.address(), server.stop());
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self { address, told, stop, thread }
    }

    /// A client's notion of it.
    pub fn known(&self) -> client::Server {
        client::Server {
            host: self.address.ip().to_string(),
            port: self.address.port(),
            udp_port: None,
            token: token(),
            fingerprint: None,
        }
    }

    pub fn connect(&self, request: Request) -> Result<Remote, SessionError> {
        connect(&self.known(), request)
    }

    /// Whether a client that does everything right is served: nothing before it has done any harm.
    pub fn serves(&self) {
        drop(self.connect(Request::default()).unwrap());
    }

    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Until it has stopped by itself.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A test that fails already does not need a second panic.
            let _ = thread.join();
        }
    }
}

pub fn connect(server: &client::Server, request: Request) -> Result<Remote, SessionError> {
    client::connect(server, request, Box::new(Plain::open), &mut |_| {})
}

/// Why there is no session.
pub fn refusal(result: Result<Remote, SessionError>) -> String {
    match result {
        Ok(_) => panic!("there is a session"),
        Err(why) => why.to_string(),
    }
}

pub fn train(packets: u32, bytes: u16, mega: f64) -> Train {
    Train { packets, bytes, rate: BitRate::mega(mega) }
}
