//! What is not of this protocol does no harm, on either side.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use eigentime_bandwidth::session::client::{Request, Server};
use eigentime_bandwidth::session::event::Event;
use eigentime_bandwidth::session::frame::PLAIN_LIMIT;
use eigentime_bandwidth::session::handshake::as_server;
use eigentime_bandwidth::session::message::Message;
use eigentime_bandwidth::session::server::ConnectionLimits;
use eigentime_bandwidth::session::tls;
use proptest::prelude::*;
use rustls::ClientConnection;

use crate::raw::{next, plain};
use crate::support::{PATIENCE, Running, Setup, connect, refusal, token};
use crate::token::wire;

/// A message of so many bytes.
fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[..], payload].concat()
}

#[test]
fn what_speaks_something_else_is_told_so_and_the_next_is_served() {
    let nested = [vec![b'['; 2000], vec![b']'; 2000]].concat();
    for (bytes, said) in [
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(), "an HTTP request"),
        (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), "a greeting of SSH"),
        (b"\x16\x03\x01\x00\x05hello".to_vec(), "no TLS with the client"),
        (b"\x15\x03\x03\x00\x02\x02\x32".to_vec(), "no TLS with the client"),
        (vec![0xff; 64], "4294967295 bytes"),
        (framed(&[b'x'; PLAIN_LIMIT + 1]), "4097 bytes, where 4096 are the most"),
        (framed(b""), "no message"),
        (framed(b"{}"), "no message"),
        (framed(&nested), "no message"),
        (framed(br#"{"is":"ping"}"#), "ping, while a TLS handshake was awaited"),
        (framed(br#"{"is":"prepare","train":{"packets":9,"bytes":1500,"rate":1e9},"direction":"down","number":0}"#), "prepare"),
    ] {
        let server = Running::new(Setup::default());
        let mut connection = TcpStream::connect(server.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.write_all(&bytes).unwrap();
        // The end, or a reset since it has sent more than was read.
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        let why = server.told.refused();
        assert!(why.contains(said), "{why}");
        let text = String::from_utf8_lossy(&answer);
        let is_alert = answer.first() == Some(&0x15);
        assert!(is_alert || text.is_empty() || text.contains(r#""is":"error""#), "{text}");
        server.serves();
    }
}

#[test]
fn a_scan_is_refused() {
    let server = Running::new(Setup::default());
    for _ in 0..20 {
        let connection = TcpStream::connect(server.address).unwrap();
        connection.shutdown(Shutdown::Both).unwrap();
    }
    server.told.wait(|event| match event {
        Event::Refused { why, .. } => why.contains("closed the connection").then_some(()),
        _ => None,
    });
    serves_soon(&server);
}

/// Each connection that goes makes room, which the server sees when it comes to it.
fn serves_soon(server: &Running) {
    let begin = Instant::now();
    while let Err(why) = server.connect(Request::default()) {
        assert!(begin.elapsed() < PATIENCE, "{why}");
    }
}

fn impatient() -> Setup {
    let handshake = Duration::from_millis(300);
    Setup { connections: ConnectionLimits { handshake, ..Default::default() }, ..Setup::default() }
}

#[test]
fn silence_ends_a_connection() {
    let server = Running::new(impatient());
    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.read_to_end(&mut Vec::new()).unwrap();
    let why = server.told.refused();
    assert!(why.contains("is silent") && why.contains("a TLS handshake"), "{why}");
    server.serves();
}

#[test]
fn who_sends_a_byte_now_and_then_is_not_waited_for() {
    let server = Running::new(impatient());
    let mut connection = TcpStream::connect(server.address).unwrap();
    let config = tls::client(&token().client, token().server.fingerprint());
    let mut tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).unwrap();
    let begin = Instant::now();
    // A byte each 50 ms would take 10 s for all.
    let sent = hello.iter().take_while(|byte| {
        thread::sleep(Duration::from_millis(50));
        connection.write_all(&[**byte]).is_ok()
    });
    assert!(sent.count() < hello.len(), "all was taken, in {:?}", begin.elapsed());
    assert!(server.told.refused().contains("is silent"));
    server.serves();
}

#[test]
fn connections_that_say_nothing_are_few() {
    let server = Running::new(Setup::default());
    let idle: Vec<_> = (0..4).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let mut fifth = TcpStream::connect(server.address).unwrap();
    fifth.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = Vec::new();
    fifth.read_to_end(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("4 from one address"), "{said:?}");
    assert!(server.told.refused().contains("too many pending handshakes"));
    drop(idle);
    serves_soon(&server);
}

/// A server of something else, and what a client says of it.
fn beside(serve: impl FnOnce(TcpStream) + Send) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| serve(listener.accept().unwrap().0));
        let (host, port) = (address.ip().to_string(), address.port());
        let server = Server { host, port, udp_port: None, token: token(), fingerprint: None };
        refusal(connect(&server, Request { wait: Duration::ZERO, ..Request::default() }))
    })
}

#[test]
fn a_client_says_what_a_server_of_something_else_is() {
    for (bytes, said) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "an HTTP answer"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "a greeting of SSH"),
        (b"\x15\x03\x03\x00\x02\x02\x32", "no TLS with the server"),
        (b"\x16\x03\x03\x00\x05hello", "no TLS with the server"),
        (b"\xff\xff\xff\xff", "4294967295 bytes"),
        (b"", "closed the connection"),
        (b"\x00\x00\x00\x02{}", "no message"),
    ] {
        let why = beside(|mut connection| {
            // The hello first, so that the answer is not lost with a reset.
            let mut head = [0; 5];
            connection.read_exact(&mut head).unwrap();
            let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
            connection.read_exact(&mut hello).unwrap();
            connection.write_all(bytes).unwrap();
        });
        assert!(why.contains(said), "{why}");
        assert!(why.contains("the server at 127.0.0.1:"), "{why}");
    }
}

#[test]
fn a_client_does_not_wait_for_a_silent_server() {
    let begin = Instant::now();
    let why = beside(|mut connection| {
        // Until the client has given up.
        let _ = connection.read_to_end(&mut Vec::new());
    });
    assert!(why.contains("is silent") && why.contains("a TLS handshake"), "{why}");
    assert!(begin.elapsed() < PATIENCE);
}

#[test]
fn what_a_server_says_is_fit_for_a_terminal() {
    let why = beside(|mut connection| {
        let text = format!(
            r#"{{"is":"error","code":"busy","message":"\u001b[2Jno{}"}}"#,
            "o".repeat(3000)
        );
        connection.write_all(&framed(text.as_bytes())).unwrap();
        let _ = connection.read_to_end(&mut Vec::new());
    });
    assert!(why.contains("says: [2Jnooo") && !why.contains('\u{1b}') && why.len() < 1000, "{why}");
}

/// What a reader makes of these bytes.
fn read(bytes: &[u8]) {
    let [mut sender, receiver] = wire();
    let mut frames = plain(receiver);
    sender.write_all(bytes).unwrap();
    drop(sender);
    // Each frame is a message or an error; the end is an error, too.
    assert!((0..=bytes.len()).any(|_| next(&mut frames).is_err()));
}

/// What a server makes of these bytes before anything is known of a client.
fn shake_hands(bytes: &[u8]) {
    let [mut client, server] = wire();
    client.write_all(bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let config = tls::server(&token().server, token().client.fingerprint());
    let until = Instant::now() + PATIENCE;
    assert!(as_server(server, &config, "the client".to_owned(), until).is_err());
}

/// Messages as they should be, to be damaged.
fn messages() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        r#"{"is":"hello","protocol":"eigentime bandwidth","version":1,"nonce":"00"}"#,
        r#"{"is":"prepare","train":{"packets":50,"bytes":1500,"rate":3e8},"direction":"up","number":7}"#,
        r#"{"is":"report","arrived":{"runs":[[0,3]],"at":[1,2,3]},"overflowed":0,"clock_trouble":false,"last":true}"#,
        r#"{"is":"sent","sent":[1,2,3],"unsent":0,"clock_trouble":false,"last":true}"#,
        r#"{"is":"error","code":"rate","message":"no"}"#,
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_confuse_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    #[test]
    fn no_bytes_confuse_the_handshake(bytes in prop::collection::vec(any::<u8>(), 0..300), tls: bool) {
        let record = [&[0x16, 3, 1][..], &(bytes.len() as u16).to_be_bytes(), &bytes].concat();
        shake_hands(if tls { &record } else { &bytes });
    }

    #[test]
    fn no_payload_confuses_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&framed(&bytes));
    }

    #[test]
    fn damaged_messages_are_messages_or_refused(text in messages(), at: prop::sample::Index, byte: u8) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        read(&framed(&bytes));
        if let Ok(Message::Report { arrived, .. }) = serde_json::from_slice(&bytes) {
            // Few times, whatever the runs say.
            prop_assert!(arrived.arrivals().is_ok_and(|it| it.len() <= 3) || arrived.arrivals().is_err());
        }
    }
}
