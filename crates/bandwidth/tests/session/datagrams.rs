//! What comes to the UDP port: nobody unknown is answered, and nobody with more than came.

use std::net::UdpSocket;

use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::session::client::{Request, Server};
use eigentime_bandwidth::session::failure::Code;
use eigentime_bandwidth::session::message::{Direction, Message};
use eigentime_bandwidth::session::path_validation;

use crate::raw::{failure, next, request, served, validate};
use crate::support::{PATIENCE, Running, Setup, connect, refusal, train};
use crate::wiretap::{Wiretap, answered, to};

const BOTH_LISTEN: [&str; 2] = ["127.0.0.1:0", "[::]:0"];

/// Datagrams as an attacker may make them, who has seen those of a session.
fn forged(seen: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = [0, 1, 23, 24, 25, 1400].map(|length| vec![0x45; length]).to_vec();
    all.extend((0..20).map(|seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        [&b"Etbw req"[..], &(0..16).map(|_| random.u8(..)).collect::<Vec<_>>()].concat()
    }));
    for one in seen {
        all.push(one.clone());
        let mut changed = one.clone();
        *changed.last_mut().unwrap() ^= 1;
        all.push(changed);
    }
    all
}

#[test]
fn garbage_and_what_was_overheard_is_never_answered() {
    let tap = Wiretap::new();
    for listen in BOTH_LISTEN {
        let server = Running::new(Setup { listen, ..Setup::default() });
        let port = server.address.port();
        let known = Server { host: "127.0.0.1".to_owned(), ..server.known() };
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        // Nobody has a session; then somebody has; then nobody again.
        let strange = to(address);
        forged(&[]).iter().for_each(|it| assert!(strange.send(it).is_ok()));
        assert!(tap.seen(port).iter().all(|it| it.from != port));
        let mut path =
            connect(&known, Request { direction: Direction::Down, ..Request::default() }).unwrap();
        path.send(&train(10, 500, 50.0)).unwrap();
        let client = path.seen_as().port();
        let seen = tap.seen(port);
        let requests =
            seen.iter().filter(|it| it.to == port && it.payload.starts_with(b"Etbw req"));
        let requests: Vec<_> = requests.map(|it| it.payload.clone()).collect();
        assert!(!requests.is_empty(), "the session has begun with one");
        forged(&requests).iter().for_each(|it| assert!(strange.send(it).is_ok()));
        assert_eq!(path.send(&train(10, 500, 50.0)).unwrap().arrived.len(), 10, "no harm is done");
        drop(path);
        server.told.ended();
        forged(&requests).iter().for_each(|it| assert!(strange.send(it).is_ok()));
        let seen = tap.seen(port);
        let sent: Vec<_> = seen.iter().filter(|it| it.from == port).collect();
        assert!(sent.len() >= 10 && sent.iter().all(|it| it.to == client), "{listen}: {sent:?}");
        assert!(!answered(&strange), "{listen}");
    }
}

#[test]
fn until_an_address_is_proven_no_more_goes_there_than_came() {
    let tap = Wiretap::new();
    let server = Running::new(Setup::default());
    let mut client = served(server.address);
    // Whoever gets what the client's requests are answered with, if their sender is not true.
    let victim = to(server.address);
    for _ in 0..5 {
        let _ = request(&mut client, &victim);
    }
    client.send(&Message::PathResponse { challenge: 7 }).unwrap();
    assert_eq!(failure(&mut client).code, Code::Path);
    let seen = tap.seen(server.address.port());
    let bytes = |from: bool| -> usize {
        let those = seen.iter().filter(|it| (it.from == server.address.port()) == from);
        those.map(|it| it.payload.len()).sum()
    };
    assert!(bytes(true) > 0 && bytes(true) <= bytes(false), "{} for {}", bytes(true), bytes(false));
}

#[test]
fn no_train_goes_anywhere_before_an_address_is_proven() {
    let tap = Wiretap::new();
    let server = Running::new(Setup::default());
    for direction in [Direction::Down, Direction::Up] {
        for requests in [0, 1] {
            let mut client = served(server.address);
            let victim = to(server.address);
            for _ in 0..requests {
                let _ = request(&mut client, &victim);
            }
            client
                .send(&Message::Prepare { train: train(10, 1000, 50.0), direction, number: 0 })
                .unwrap();
            assert_eq!(failure(&mut client).code, Code::Path);
        }
    }
    let seen = tap.seen(server.address.port());
    assert!(seen.iter().all(|it| it.payload.len() < 100), "a probe has gone out");
}

#[test]
fn an_address_that_changes_is_learnt_anew() {
    let server = Running::new(Setup::default());
    let mut client = served(server.address);
    for _ in 0..2 {
        let socket = to(server.address);
        assert_eq!(validate(&mut client, &socket), socket.local_addr().unwrap());
        let down =
            Message::Prepare { train: train(5, 1000, 50.0), direction: Direction::Down, number: 0 };
        client.send(&down).unwrap();
        assert!(matches!(next(&mut client), Ok(Message::Ready { number: 0 })));
        assert!(matches!(next(&mut client), Ok(Message::Sent { last: true, .. })));
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..5 {
            assert_eq!(socket.recv(&mut [0; 2000]).unwrap(), 1000 - 28);
        }
    }
}

#[test]
fn datagrams_that_are_lost_are_told_as_such() {
    let server = Running::new(Setup::default());
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_port = Some(elsewhere.local_addr().unwrap().port());
    let why = refusal(connect(&Server { udp_port, ..server.known() }, Request::default()));
    assert!(
        why.contains("UDP does not pass") && why.contains("none arrives at the server"),
        "{why}"
    );
    server.serves();
}

/// Whatever else comes to the port while a request is awaited: the one with the nonce counts.
#[test]
fn only_the_request_that_was_announced_is_answered() {
    let server = Running::new(Setup::default());
    let mut client = served(server.address);
    let strange = to(server.address);
    forged(&[path_validation::request(1).to_vec()])
        .iter()
        .for_each(|it| assert!(strange.send(it).is_ok()));
    let socket = to(server.address);
    assert_eq!(validate(&mut client, &socket), socket.local_addr().unwrap());
    assert!(!answered(&strange));
    // One that was announced and does not come.
    client.send(&Message::PathRequest { nonce: 2 }).unwrap();
    strange.send(&path_validation::request(1)).unwrap();
    assert!(matches!(next(&mut client), Ok(Message::PathChallenge { sent: false })));
    assert!(!answered(&strange));
}
