//! Trains come through, either way and over both versions of IP.

use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::session::client::{Request, Step, connect};
use eigentime_bandwidth::session::message::Direction;

use crate::plain::Plain;
use crate::support::{Running, Setup, refusal, train};

/// A whole session: most packets come, each once, and the times are those of the train.
fn trains_pass(setup: Setup, direction: Direction) {
    let server = Running::new(setup);
    let mut path = server.connect(Request { direction, ..Request::default() }).unwrap();
    assert_eq!(path.bounds().bytes, 9000, "the loopback carries jumbo packets");
    assert_eq!(path.seen_as().ip(), server.address.ip());
    let sent = path.bounds().total_bytes;
    for bytes in [1500, 9000] {
        let trace = path.send(&train(10, bytes, 200.0)).unwrap();
        assert_eq!(trace.sent_ns.len(), 10);
        assert_eq!(trace.arrived.len(), 10, "nothing is lost on the loopback");
        assert!(trace.arrived.iter().map(|it| it.packet).eq(0..10));
        assert_eq!(trace.host.unsent, 0);
        let span = trace.sent_ns[9] - trace.sent_ns[0];
        assert!(span as u64 >= trace.train.length_ns() / 2, "{span} ns");
        assert!(trace.seen().is_some());
    }
    assert_eq!(path.bounds().total_bytes, sent - 10 * (1500 + 9000));
    drop(path);
    assert_eq!(server.told.ended(), "done");
}

#[test]
fn up() {
    trains_pass(Setup::default(), Direction::Up);
}

#[test]
fn down() {
    trains_pass(Setup::default(), Direction::Down);
}

#[test]
fn over_ipv6() {
    for direction in [Direction::Up, Direction::Down] {
        trains_pass(Setup { listen: "[::1]:0", ..Setup::default() }, direction);
    }
}

#[test]
fn over_either_where_the_server_listens_anywhere() {
    let server = Running::new(Setup { listen: "[::]:0", ..Setup::default() });
    for host in ["127.0.0.1", "::1", "[::1]", "localhost"] {
        let known = eigentime_bandwidth::session::client::Server {
            host: host.to_owned(),
            ..server.known()
        };
        for direction in [Direction::Up, Direction::Down] {
            let mut path =
                crate::support::connect(&known, Request { direction, ..Request::default() })
                    .unwrap();
            assert_eq!(path.send(&train(10, 500, 50.0)).unwrap().arrived.len(), 10, "{host}");
        }
    }
}

#[test]
fn packets_longer_than_the_interface_carries_are_refused() {
    let server = Running::new(Setup::default());
    let why = refusal(server.connect(Request { bytes: Some(9001), ..Request::default() }));
    assert!(
        why.contains("9001 bytes are too long: the route that they leave by takes 9000"),
        "{why}"
    );
    let path = server.connect(Request { bytes: Some(1400), ..Request::default() }).unwrap();
    assert_eq!(path.bounds().bytes, 1400);
}

#[test]
fn progress_is_told() {
    let server = Running::new(Setup::default());
    let mut steps = Vec::new();
    let path = connect(&server.known(), Request::default(), Box::new(Plain::open), &mut |step| {
        steps.push(step)
    });
    drop(path.unwrap());
    assert_eq!(steps, [Step::Begun, Step::Bytes(9000)]);
}

#[test]
fn a_host_that_is_not_there_is_told_as_such() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let server = Running::new(Setup::default());
    let nobody =
        eigentime_bandwidth::session::client::Server { port: address.port(), ..server.known() };
    let why = refusal(crate::support::connect(&nobody, Request::default()));
    assert!(why.contains(&format!("cannot reach a server at {address}")), "{why}");
    let nowhere = eigentime_bandwidth::session::client::Server {
        host: "no such host".to_owned(),
        ..server.known()
    };
    let why = refusal(crate::support::connect(&nowhere, Request::default()));
    assert!(why.contains("'no such host' is not known"), "{why}");
}
