//! What a client may do is limited, and said.

use std::time::Duration;

use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::session::client::Request;
use eigentime_bandwidth::session::failure::Code;
use eigentime_bandwidth::session::limits::{Allowance, Limits, Offer};
use eigentime_bandwidth::session::message::{Direction, Message};
use eigentime_bandwidth::session::server::ConnectionLimits;

use crate::raw::{failure, next, served};
use crate::support::{Running, Setup, refusal, train};

const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

fn limited(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    Running::new(Setup { limits, ..Setup::default() })
}

#[test]
fn the_rate_is_limited_either_way() {
    let server = limited(|limits| limits.rate = BitRate::mega(100.0));
    for direction in BOTH {
        let mut path = server.connect(Request { direction, ..Request::default() }).unwrap();
        assert_eq!(path.bounds().rate, BitRate::mega(100.0));
        assert_eq!(path.send(&train(10, 1000, 100.0)).unwrap().arrived.len(), 10);
        let why = path.send(&train(10, 1000, 101.0)).unwrap_err().to_string();
        assert!(why.contains("101.0 Mbit/s, where 100.0 Mbit/s are allowed (--max-rate)"), "{why}");
        let again = path.send(&train(10, 1000, 1.0)).unwrap_err().to_string();
        assert_eq!(again, why, "what is broken stays so");
    }
}

#[test]
fn bytes_are_limited_in_a_session_and_in_an_hour() {
    let server = limited(|limits| {
        limits.session.bytes = 200_000;
        limits.hour.bytes = 250_000;
    });
    let mut path = server.connect(Request::default()).unwrap();
    path.send(&train(100, 1000, 50.0)).unwrap();
    let left = path.bounds().total_bytes;
    assert!(left < 100_000, "{left}");
    let why = path.send(&train(100, 1000, 50.0)).unwrap_err().to_string();
    assert!(why.contains("of 200000 that this session may have (--max-bytes)"), "{why}");
    drop(path);
    let mut path =
        server.connect(Request { direction: Direction::Down, ..Request::default() }).unwrap();
    let left = path.bounds().total_bytes;
    assert!(left < 100_000, "{left} of an hour");
    let rest = (left / 1000) as u32;
    path.send(&train(rest, 1000, 50.0)).unwrap();
    let why = path.send(&train(2, 1000, 50.0)).unwrap_err().to_string();
    assert!(why.contains("that an hour has left for this session (--max-bytes)"), "{why}");
}

#[test]
fn an_hour_that_is_used_up_has_no_more_sessions() {
    let server = limited(|limits| limits.hour.bytes = 45_000);
    let path = server.connect(Request::default()).unwrap();
    assert_eq!(path.bounds().total_bytes, 0, "the search for the longest packet took all");
    drop(path);
    server.told.ended();
    let why = refusal(server.connect(Request::default()));
    assert!(why.contains("127.0.0.1 has had all the bytes of an hour (--max-bytes)"), "{why}");
}

#[test]
fn a_session_lasts_no_longer_than_it_may() {
    let time = Duration::from_millis(1500);
    let server = limited(|limits| limits.session = Allowance { time, ..limits.session });
    let mut path = server.connect(Request::default()).unwrap();
    assert!(path.bounds().time <= time);
    assert!(server.told.ended().contains("that this session may have are over (--max-time)"));
    assert_eq!(path.bounds().time, Duration::ZERO);
    let why = path.send(&train(10, 1000, 50.0)).unwrap_err().to_string();
    assert!(why.contains("--max-time"), "{why}");
}

#[test]
fn who_asks_for_nothing_is_not_kept() {
    let connections =
        ConnectionLimits { idle: Duration::from_millis(200), ..ConnectionLimits::default() };
    let server = Running::new(Setup { connections, ..Setup::default() });
    let mut path = server.connect(Request::default()).unwrap();
    let why = server.told.ended();
    assert!(why.contains("is silent") && why.contains("a request"), "{why}");
    assert!(path.send(&train(10, 1000, 50.0)).is_err());
    server.serves();
}

#[test]
fn an_offer_that_cannot_be_is_not_taken() {
    let sound = Offer { rate: BitRate::mega(1.0), bytes: 0, seconds: 0.0 };
    assert!(sound.is_sound());
    let minus = serde_json::from_str(r#"{"rate":-1.0,"bytes":1,"seconds":1.0}"#).unwrap();
    for wrong in [minus, Offer { rate: BitRate::ZERO, ..sound }, Offer { seconds: -1.0, ..sound }] {
        assert!(!wrong.is_sound(), "{wrong:?}");
    }
}

#[test]
fn limits_without_end_are_limits_of_a_day() {
    let server = limited(|limits| {
        let all = Allowance { bytes: u64::MAX, time: Duration::MAX };
        *limits = Limits { session: all, hour: all, ..*limits };
    });
    let path = server.connect(Request::default()).unwrap();
    assert!(path.offer().seconds <= 24.0 * 3600.0);
}

#[test]
fn who_only_says_that_it_is_there_is_kept() {
    let server = Running::new(Setup::default());
    let mut client = served(server.address);
    for _ in 0..3 {
        client.send(&Message::Ping).unwrap();
        assert_eq!(next(&mut client).unwrap(), Message::Pong);
    }
    client.send(&Message::Pong).unwrap();
    assert_eq!(failure(&mut client).code, Code::Order);
}
