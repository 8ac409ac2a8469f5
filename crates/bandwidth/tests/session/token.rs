//! Who does not know the token has no session, on either side.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

use eigentime_bandwidth::session::client::{Server, Wishes};
use eigentime_bandwidth::session::error::{Code, SessionError};
use eigentime_bandwidth::session::frame::{Frames, Side};
use eigentime_bandwidth::session::handshake::{Met, as_client, as_server};
use eigentime_bandwidth::session::hex::Hex;
use eigentime_bandwidth::session::line::Timed;
use eigentime_bandwidth::session::message::{Message, PROTOCOL, VERSION};
use eigentime_bandwidth::session::token::{Keys, Meeting, Purpose, Token, random};

use crate::raw::{failure, next, stranger};
use crate::support::{PATIENCE, Running, Setup, connect, refusal, token};

/// Two ends of a pipe.
pub fn pipe() -> [Frames; 2] {
    let (client, server) = UnixStream::pair().unwrap();
    let line = |end| Box::new(Timed::new(end, Instant::now() + PATIENCE));
    [
        Frames::new(line(client), "the server".to_owned()),
        Frames::new(line(server), "the client".to_owned()),
    ]
}

type Greeting = Result<Met, SessionError>;

/// Both parts of the greeting over a pipe.
fn greet(ours: &Token, theirs: &Token) -> ([Frames; 2], Greeting, Greeting) {
    let [mut client, mut server] = pipe();
    let until = Instant::now() + PATIENCE;
    let (met, served) = thread::scope(|scope| {
        let served = scope.spawn(|| {
            let served = as_server(&mut server, theirs, until);
            if let Err(why) = &served {
                server.send(&Message::Error(why.failure().unwrap())).unwrap();
            }
            served
        });
        (as_client(&mut client, ours, until), served.join().unwrap())
    });
    ([client, server], met, served)
}

#[test]
fn both_sides_know_each_other_over_a_pipe() {
    let ([mut client, mut server], met, served) = greet(&token(), &token());
    assert_eq!(met.unwrap().keys.cookie(), served.unwrap().keys.cookie());
    for _ in 0..3 {
        client.send(&Message::Ping).unwrap();
        assert_eq!(next(&mut server).unwrap(), Message::Ping);
        server.send(&Message::Pong).unwrap();
        assert_eq!(next(&mut client).unwrap(), Message::Pong);
    }
}

#[test]
fn another_token_is_told_as_such_over_a_pipe() {
    let (_, met, served) = greet(&token(), &Token::generate().parse().unwrap());
    assert!(matches!(served, Err(SessionError::Token { .. })));
    let Err(SessionError::Refused { failure, .. }) = met else { panic!("a session") };
    assert_eq!(failure.code, Code::Token);
}

#[test]
fn a_client_with_another_token_is_refused_and_the_next_is_served() {
    let server = Running::new(Setup::default());
    let known = Server { token: Token::generate().parse().unwrap(), ..server.known() };
    let why = refusal(connect(&known, Wishes::default()));
    assert!(why.contains("does not know the token: give both hosts the same"), "{why}");
    assert!(server.told.refused().contains("does not know the token"));
    server.serves();
}

#[test]
fn a_server_that_does_not_know_the_token_is_found_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let line = Timed::new(listener.accept().unwrap().0, Instant::now() + PATIENCE);
            let mut frames = Frames::new(Box::new(line), "the client".to_owned());
            assert!(matches!(next(&mut frames), Ok(Message::Hello { .. })));
            frames.send(&Message::Challenge { version: VERSION, nonce: Hex(random()) }).unwrap();
            // The client's own proof, sent back, is none of the server's.
            let Ok(Message::Proof { proof }) = next(&mut frames) else { panic!("no proof") };
            frames.send(&Message::Accepted { proof }).unwrap();
        });
        let server = Server {
            host: address.ip().to_string(),
            port: address.port(),
            udp_port: None,
            token: token(),
            tls: None,
        };
        let why = refusal(connect(&server, Wishes::default()));
        assert!(why.contains(&format!("the server at {address} does not know the token")), "{why}");
    });
}

#[test]
fn a_proof_that_was_overheard_is_of_no_use() {
    let server = Running::new(Setup::default());
    let nonce = Hex([7; 32]);
    let hello = Message::Hello { protocol: PROTOCOL.to_owned(), version: VERSION, nonce };
    let mut first = stranger(server.address);
    first.send(&hello).unwrap();
    let Ok(Message::Challenge { nonce: theirs, .. }) = next(&mut first) else { panic!("none") };
    let keys = Keys::of(&token(), &Meeting { client: nonce, server: theirs, binding: None });
    let proof = Message::Proof { proof: keys.proof(Purpose::ClientProof) };
    first.send(&proof).unwrap();
    assert!(matches!(next(&mut first), Ok(Message::Accepted { .. })), "the proof is good once");
    let mut second = stranger(server.address);
    second.send(&hello).unwrap();
    assert!(matches!(next(&mut second), Ok(Message::Challenge { .. })));
    second.send(&proof).unwrap();
    assert_eq!(failure(&mut second).code, Code::Token);
}

#[test]
fn another_version_is_told_as_such_on_both_sides() {
    let server = Running::new(Setup::default());
    let mut later = stranger(server.address);
    let version = VERSION + 1;
    later
        .send(&Message::Hello { protocol: PROTOCOL.to_owned(), version, nonce: Hex([0; 32]) })
        .unwrap();
    let why = failure(&mut later);
    assert_eq!(why.code, Code::Version);
    assert!(why.message.contains("speaks version 2 of the protocol, this is 1"), "{}", why.message);
    server.serves();

    let [mut client, mut server] = pipe();
    thread::scope(|scope| {
        scope.spawn(move || {
            next(&mut server).unwrap();
            server.send(&Message::Challenge { version, nonce: Hex([0; 32]) }).unwrap();
        });
        let met = as_client(&mut client, &token(), Instant::now() + PATIENCE);
        assert!(matches!(met, Err(SessionError::Version { ours: 1, theirs: 2, .. })));
    });
}

/// Sealed frames of one side that knows the keys, and one that has others, or none.
#[test]
fn a_message_of_somebody_in_between_is_noticed() {
    let keys = |client| {
        Keys::of(
            &token(),
            &Meeting { client: Hex([client; 32]), server: Hex([2; 32]), binding: None },
        )
    };
    let forged = |send: &dyn Fn(&mut Frames)| {
        let [mut client, mut server] = pipe();
        server.seal(&keys(1), Side::Server);
        send(&mut client);
        drop(client);
        next(&mut server)
    };
    let honest = forged(&|client| {
        client.seal(&keys(1), Side::Client);
        client.send(&Message::Ping).unwrap();
    });
    assert!(matches!(honest, Ok(Message::Ping)));
    let another = forged(&|client| {
        client.seal(&keys(3), Side::Client);
        client.send(&Message::Ping).unwrap();
    });
    assert!(matches!(another, Err(SessionError::Forged { .. })));
    let reflected = forged(&|client| {
        client.seal(&keys(1), Side::Server);
        client.send(&Message::Ping).unwrap();
    });
    assert!(matches!(reflected, Err(SessionError::Forged { .. })));
    let unsealed = forged(&|client| {
        client.send(&Message::Ping).unwrap();
        client.send(&Message::Pong).unwrap();
    });
    assert!(matches!(unsealed, Err(SessionError::Forged { .. } | SessionError::Gone { .. })));
}

#[test]
fn a_sealed_message_holds_once() {
    use std::io::{Read, Write};
    let keys =
        Keys::of(&token(), &Meeting { client: Hex([1; 32]), server: Hex([2; 32]), binding: None });
    let (client, mut overheard) = UnixStream::pair().unwrap();
    let line = Timed::new(client, Instant::now() + PATIENCE);
    let mut client = Frames::new(Box::new(line), "the server".to_owned());
    client.seal(&keys, Side::Client);
    client.send(&Message::Ping).unwrap();
    drop(client);
    let mut frame = Vec::new();
    overheard.read_to_end(&mut frame).unwrap();
    let (mut wire, end) = UnixStream::pair().unwrap();
    let line = Timed::new(end, Instant::now() + PATIENCE);
    let mut server = Frames::new(Box::new(line), "the client".to_owned());
    server.seal(&keys, Side::Server);
    wire.write_all(&[frame.clone(), frame].concat()).unwrap();
    assert!(matches!(next(&mut server), Ok(Message::Ping)));
    assert!(matches!(next(&mut server), Err(SessionError::Forged { .. })), "sent again");
}
