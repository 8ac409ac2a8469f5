//! Clients are served one after the other.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::session::client::{Request, Step, connect};
use eigentime_bandwidth::session::event::Event;
use eigentime_bandwidth::session::message::Message;
use eigentime_bandwidth::session::server::ConnectionLimits;

use crate::plain::Plain;
use crate::raw::{established, next};
use crate::support::{PATIENCE, Running, Setup, refusal, train};

#[test]
fn two_clients_are_served_in_turn() {
    let server = Running::new(Setup::default());
    let mut first = server.connect(Request::default()).unwrap();
    thread::scope(|scope| {
        let (tell, steps) = mpsc::channel();
        let known = server.known();
        let second = scope.spawn(move || {
            let mut progress = |step| tell.send(step).unwrap();
            let mut path =
                connect(&known, Request::default(), Box::new(Plain::open), &mut progress).unwrap();
            path.send(&train(10, 1000, 50.0)).unwrap().arrived.len()
        });
        assert_eq!(steps.recv_timeout(PATIENCE), Ok(Step::Busy(1)));
        assert_eq!(first.send(&train(10, 1000, 50.0)).unwrap().arrived.len(), 10);
        drop(first);
        assert!(steps.iter().any(|step| step == Step::Begun));
        assert_eq!(second.join().unwrap(), 10);
    });
}

#[test]
fn waiting_has_an_end_on_either_side() {
    let connections =
        ConnectionLimits { wait: Duration::ZERO, clients: 2, ..ConnectionLimits::default() };
    let server = Running::new(Setup { connections, ..Setup::default() });
    let _first = server.connect(Request::default()).unwrap();
    let why = refusal(server.connect(Request::default()));
    assert!(why.contains("busy: still 1 before you") && why.contains("try again later"), "{why}");

    let server = Running::new(Setup::default());
    let _first = server.connect(Request::default()).unwrap();
    let why = refusal(server.connect(Request { wait: Duration::ZERO, ..Request::default() }));
    assert!(why.contains("is busy: 1 before you"), "{why}");
}

#[test]
fn more_than_may_wait_are_refused() {
    let connections = ConnectionLimits { clients: 1, ..ConnectionLimits::default() };
    let server = Running::new(Setup { connections, ..Setup::default() });
    let first = server.connect(Request::default()).unwrap();
    let why = refusal(server.connect(Request::default()));
    assert!(why.contains("1 clients are served and wait already"), "{why}");
    drop(first);
    server.told.ended();
}

#[test]
fn who_goes_while_waiting_gives_up_the_place() {
    let server = Running::new(Setup::default());
    let first = server.connect(Request::default()).unwrap();
    let mut second = established(server.address).frames;
    assert!(matches!(next(&mut second), Ok(Message::Busy { before: 1 })));
    server.told.wait(|event| matches!(event, Event::Waiting { before: 1, .. }).then_some(()));
    drop(second);
    assert!(server.told.refused().contains("closed the connection, while its turn was awaited"));
    drop(first);
    server.serves();
}
