//! Either side may die at any time: the other ends the session, and a server goes on.

use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::session::client::{self, Remote, Request, Server};
use eigentime_bandwidth::session::error::SessionError;
use eigentime_bandwidth::session::message::{Direction, Message};
use eigentime_bandwidth::session::probes::{Cookie, Deadline, Probes, ReceivedReport, SentReport};
use eigentime_bandwidth::train::Train;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::plain::Plain;
use crate::raw::{established, next, served, validate};
use crate::support::{Running, Setup, connect, token, train};
use crate::wiretap::to;

/// How soon the other side's death is to be noticed.
const SOON: Duration = Duration::from_secs(8);

#[test]
fn a_client_that_dies_midway_makes_room_for_the_next() {
    let server = Running::new(Setup::default());
    for direction in [Direction::Up, Direction::Down] {
        let mut client = served(server.address);
        let socket = to(server.address);
        validate(&mut client, &socket);
        // In the midst of a train nobody is there any more.
        let train = train(4500, 1000, 4.0);
        assert!(Duration::from_nanos(train.length_ns()) > SOON);
        client.send(&Message::Prepare { train, direction, number: 0 }).unwrap();
        assert!(matches!(next(&mut client), Ok(Message::Ready { .. })));
        drop((client, socket));
        let begin = Instant::now();
        server.serves();
        assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    }
    assert!(server.told.ended().contains("closed the connection"));
}

/// The server of the tests below, in a process of its own. It ends with the test, or with its input.
#[test]
#[ignore = "it is started by others"]
fn serve() {
    let server = Running::new(Setup::default());
    println!("listening at {}", server.address);
    let mut nothing = String::new();
    std::io::stdin().read_line(&mut nothing).unwrap();
}

/// A server that can be killed.
struct Process(Child);

impl Process {
    fn new() -> (Self, Server) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "deaths::serve", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once("listening at ").map(|(_, address)| address.to_owned())
        });
        let (host, port) =
            address.as_deref().and_then(|it| it.split_once(':')).expect("an address");
        let (host, port) = (host.to_owned(), port.trim().parse().unwrap());
        (Self(child), Server { host, port, udp_port: None, token: token(), fingerprint: None })
    }

    fn signal(&self, signal: Signal) {
        let process = Pid::from_child(&self.0);
        kill_process(process, signal).unwrap();
        if signal == Signal::STOP {
            // It goes on for a moment, until it has stopped.
            waitpid(Some(process), WaitOptions::UNTRACED).unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a client says of a server to which this happens, before a train and in the midst of one.
fn server_meets(signal: Signal, said: &str) {
    for direction in [Direction::Up, Direction::Down] {
        let (process, known) = Process::new();
        let request = || Request { direction, ..Request::default() };
        let mut path = connect(&known, request()).unwrap();
        assert_eq!(path.send(&train(10, 1000, 50.0)).unwrap().arrived.len(), 10);
        process.signal(signal);
        fails_soon(&mut path, said);
        drop(process);

        // The server has said that it is ready, and then nothing more.
        let (process, known) = Process::new();
        let (process, armed) = (Arc::new(process), Arc::new(AtomicBool::new(false)));
        let (victim, fire) = (process.clone(), armed.clone());
        let amid = move |socket| -> io::Result<Box<dyn Probes>> {
            let (victim, fire) = (victim.clone(), fire.clone());
            let strike = Box::new(move || {
                if fire.load(Ordering::SeqCst) {
                    victim.signal(signal);
                }
            });
            Ok(Box::new(Amid { inner: Plain::open(socket)?, strike }))
        };
        let mut path = client::connect(&known, request(), Box::new(amid), &mut |_| {}).unwrap();
        armed.store(true, Ordering::SeqCst);
        let train = train(1000, 1000, 16.0);
        let begin = Instant::now();
        let why = path.send(&train).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
        let length = Duration::from_nanos(train.length_ns());
        assert!(begin.elapsed() < length + SOON, "{:?}", begin.elapsed());
    }
}

/// Something happens when a train begins.
struct Amid {
    inner: Box<dyn Probes>,
    strike: Box<dyn Fn() + Send>,
}

impl Probes for Amid {
    fn send(
        &mut self,
        train: &Train,
        to: SocketAddr,
        cookie: Cookie,
        number: u32,
        wanted: &mut dyn FnMut() -> bool,
    ) -> io::Result<SentReport> {
        (self.strike)();
        self.inner.send(train, to, cookie, number, wanted)
    }

    fn receive(
        &mut self,
        train: &Train,
        cookie: Cookie,
        number: u32,
        deadline: &Deadline,
    ) -> io::Result<ReceivedReport> {
        (self.strike)();
        self.inner.receive(train, cookie, number, deadline)
    }
}

fn fails_soon(path: &mut Remote, said: &str) {
    let begin = Instant::now();
    let why = path.send(&train(10, 1000, 50.0)).unwrap_err().to_string();
    assert!(why.contains("the server at 127.0.0.1:") && why.contains(said), "{why}");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

#[test]
fn a_server_that_is_killed_is_gone() {
    server_meets(Signal::KILL, "closed the connection");
}

#[test]
fn a_server_that_stands_still_is_silent() {
    server_meets(Signal::STOP, "is silent");
}

#[test]
fn a_server_that_is_stopped_takes_its_leave() {
    let server = Running::new(Setup::default());
    let told = server.told.clone();
    let mut client = served(server.address);
    let mut waiting = established(server.address).frames;
    assert!(matches!(next(&mut waiting), Ok(Message::Busy { before: 1 })));
    let silent = TcpStream::connect(server.address).unwrap();
    server.stop();
    let why = next(&mut client).unwrap_err();
    assert!(
        why.to_string().contains("has ended the session: the server is being stopped"),
        "{why}"
    );
    let left = std::iter::repeat_with(|| next(&mut waiting)).find_map(Result::err).unwrap();
    assert!(matches!(left, SessionError::Bye { .. }), "{left}");
    server.join();
    drop(silent);
    assert_eq!(told.ended(), "the server was stopped");
}
