//! What a peer that knows the token may say, and is not believed.

use std::thread;
use std::time::Instant;

use eigentime_bandwidth::session::coded::{Arrivals, Deltas};
use eigentime_bandwidth::session::error::SessionError;
use eigentime_bandwidth::session::exchange::{hear_arrived, hear_sent, tell_arrived, tell_sent};
use eigentime_bandwidth::session::frame::Frames;
use eigentime_bandwidth::session::message::Message;
use eigentime_bandwidth::session::probes::{ReceivedReport, SentReport};
use eigentime_bandwidth::train::Arrival;

use crate::support::{PATIENCE, train};
use crate::token::pair;

fn report(arrived: &[(u32, i64)], last: bool) -> Message {
    let arrived: Vec<_> =
        arrived.iter().map(|&(packet, at_ns)| Arrival { packet, at_ns }).collect();
    Message::Report { arrived: Arrivals::of(&arrived), overflowed: 0, clock_trouble: false, last }
}

fn sent(times: &[i64], last: bool) -> Message {
    let sent = Deltas::of(times.iter().copied());
    Message::Sent { sent, unsent: 0, clock_trouble: false, last }
}

/// What is made of these, of a train of three packets.
fn hear<T: Send>(
    said: &[Message],
    hear: impl FnOnce(&mut Frames) -> Result<T, SessionError> + Send,
) -> Result<T, String> {
    let [mut client, mut server] = pair();
    thread::scope(|scope| {
        let heard = scope.spawn(move || hear(&mut client).map_err(|why| why.to_string()));
        // Who has heard enough does not listen any more.
        let _ = said.iter().try_for_each(|message| server.send(message));
        drop(server);
        heard.join().unwrap()
    })
}

#[test]
fn a_report_of_many_packets_comes_in_parts() {
    let many = train(45_000, 1000, 1.0);
    let until = Instant::now() + PATIENCE;
    let sent = SentReport { sent_ns: (0..45_000).collect(), unsent: 3, clock_trouble: true };
    let at = |packet: u32| Arrival { packet, at_ns: -i64::from(packet) };
    let arrived = (0..45_000).rev().map(at).collect();
    let arrived = ReceivedReport { arrived, overflowed: 4, clock_trouble: true };
    let [mut client, mut server] = pair();
    thread::scope(|scope| {
        scope.spawn(|| {
            tell_sent(&mut server, &sent).unwrap();
            tell_arrived(&mut server, &arrived).unwrap();
        });
        assert_eq!(hear_sent(&mut client, &many, until).unwrap(), sent);
        assert_eq!(hear_arrived(&mut client, &many, until).unwrap(), arrived);
    });
}

#[test]
fn reports_that_cannot_be_are_refused() {
    let until = Instant::now() + PATIENCE;
    let arrived = |said: &[Message]| hear(said, |it| hear_arrived(it, &train(3, 1000, 1.0), until));
    let whole = arrived(&[report(&[(2, 5), (0, 6)], false), report(&[(1, 9)], true)]).unwrap();
    assert!(whole.arrived.iter().map(|it| (it.packet, it.at_ns)).eq([(2, 5), (0, 6), (1, 9)]));
    assert!(arrived(&[report(&[], true)]).unwrap().arrived.is_empty());
    for (said, why) in [
        (vec![report(&[(3, 0)], true)], "packet 3 of 3"),
        (vec![report(&[(1, 0), (1, 1)], true)], "packet 1 of 3, or that one twice"),
        (vec![report(&[(0, 0), (1, 0), (2, 0), (3, 0)], true)], "4 arrivals of 3"),
        (vec![report(&[(0, i64::MIN)], true)], "a time of -9223372036854775808 ns"),
        (vec![report(&[], false); 3], "0 arrivals of 3"),
        (vec![report(&[(0, 0)], false)], "closed the connection"),
        (vec![sent(&[0], true)], "sent, while a report of what arrived was awaited"),
    ] {
        let said = arrived(&said).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn what_cannot_have_been_sent_is_refused() {
    let until = Instant::now() + PATIENCE;
    let heard = |said: &[Message]| hear(said, |it| hear_sent(it, &train(3, 1000, 1.0), until));
    assert_eq!(heard(&[sent(&[5, 6], false), sent(&[9], true)]).unwrap().sent_ns, [5, 6, 9]);
    for (said, why) in [
        (vec![sent(&[1, 2, 3, 4], true)], "4 packets sent of 3"),
        (vec![sent(&[i64::MAX], true)], "a time of 9223372036854775807 ns"),
        (vec![sent(&[], false); 3], "0 packets sent of 3"),
        (vec![report(&[], true)], "report, while what was sent of a train was awaited"),
    ] {
        let said = heard(&said).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}
