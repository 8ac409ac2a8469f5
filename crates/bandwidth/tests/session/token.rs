//! Who does not know the token has no session, on either side.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use eigentime_bandwidth::session::client::{Request, Server};
use eigentime_bandwidth::session::error::SessionError;
use eigentime_bandwidth::session::failure::Code;
use eigentime_bandwidth::session::frame::Frames;
use eigentime_bandwidth::session::handshake::{Established, as_client, as_server};
use eigentime_bandwidth::session::message::{Message, VERSION};
use eigentime_bandwidth::session::tls;
use rustls::{ClientConfig, ServerConfig};

use crate::raw::{failure, next, plain, served};
use crate::support::{PATIENCE, Running, Setup, connect, other_token, refusal, token};

/// Two ends of a connection.
pub fn wire() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [client, listener.accept().unwrap().0]
}

type Handshake = Result<Established, SessionError>;

/// Both parts of the handshake.
fn shake_hands(ours: &Arc<ClientConfig>, theirs: &Arc<ServerConfig>) -> (Handshake, Handshake) {
    let [client, server] = wire();
    let until = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        let served = scope.spawn(|| as_server(server, theirs, "the client".to_owned(), until));
        (as_client(client, ours, "the server".to_owned(), until), served.join().unwrap())
    })
}

fn client() -> Arc<ClientConfig> {
    tls::client(&token().client, token().server.fingerprint())
}

fn server() -> Arc<ServerConfig> {
    tls::server(&token().server, token().client.fingerprint())
}

/// Two sides that know each other.
pub fn pair() -> [Frames; 2] {
    let (client, server) = shake_hands(&client(), &server());
    [client.unwrap().frames, server.unwrap().frames]
}

#[test]
fn both_sides_know_each_other_and_have_one_cookie_of_this_session() {
    let (ours, theirs) = shake_hands(&client(), &server());
    let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!(ours.cookie, theirs.cookie);
    let (later, _) = shake_hands(&client(), &server());
    assert_ne!(later.unwrap().cookie, ours.cookie);
    for _ in 0..3 {
        ours.frames.send(&Message::Ping).unwrap();
        assert_eq!(next(&mut theirs.frames).unwrap(), Message::Ping);
        theirs.frames.send(&Message::Pong).unwrap();
        assert_eq!(next(&mut ours.frames).unwrap(), Message::Pong);
    }
}

#[test]
fn a_client_with_another_token_is_refused_and_the_next_is_served() {
    let server = Running::new(Setup::default());
    let known = Server { token: other_token(), ..server.known() };
    let why = refusal(connect(&known, Request::default()));
    assert!(why.contains("does not know the token: give both hosts the same"), "{why}");
    assert!(server.told.refused().contains("refuses the key of this side"));
    server.serves();
}

/// It takes whatever key the server has, and cannot show its own; or shows the server's.
#[test]
fn a_client_that_only_knows_the_server_is_refused() {
    for key in [other_token().client, token().server] {
        let unknown = tls::client(&key, token().server.fingerprint());
        let (client, served) = shake_hands(&unknown, &server());
        assert!(matches!(served, Err(SessionError::Token { .. })));
        // The client has done its part before it hears of that.
        let said = client.and_then(|mut it| next(&mut it.frames)).unwrap_err();
        assert!(matches!(said, SessionError::OurKey { .. }), "{said}");
    }
}

/// Whoever is in between, for instance, with a key of its own or with what the client has shown.
#[test]
fn a_server_that_does_not_know_the_token_is_found_out() {
    for key in [other_token().server, token().client] {
        let unknown = tls::server(&key, token().client.fingerprint());
        let (client, served) = shake_hands(&client(), &unknown);
        let why = client.err().unwrap().to_string();
        assert!(why.contains("the server does not know the token"), "{why}");
        assert!(matches!(served, Err(SessionError::OurKey { .. })));
    }
}

/// A listener that passes on, as records of TLS, what one client says, and all that the server
/// answers. What the client has said.
fn between(
    server: SocketAddr,
    mut pass: impl FnMut(usize, Vec<u8>) -> Vec<u8> + Send + 'static,
) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let passing = thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(server).unwrap();
        let (mut back, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let answers = thread::spawn(move || {
            // Until either is gone.
            let _ = std::io::copy(&mut back, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        let mut said = Vec::new();
        for number in 0.. {
            let mut record = vec![0; 5];
            if near.read_exact(&mut record).is_err() {
                break;
            }
            let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
            record.resize(5 + length, 0);
            if near.read_exact(&mut record[5..]).is_err() {
                break;
            }
            said.extend(&record);
            if far.write_all(&pass(number, record)).is_err() {
                break;
            }
        }
        let _ = far.shutdown(Shutdown::Both);
        answers.join().unwrap();
        said
    });
    (address, passing)
}

/// A client of that address, whose server it is.
fn through(address: SocketAddr, server: &Running) -> Result<(), String> {
    let known =
        Server { port: address.port(), udp_port: Some(server.address.port()), ..server.known() };
    connect(&known, Request::default()).map(drop).map_err(|why| why.to_string())
}

#[test]
fn a_session_that_was_overheard_is_of_no_use() {
    let server = Running::new(Setup::default());
    let (address, passing) = between(server.address, |_, record| record);
    through(address, &server).unwrap();
    let said = passing.join().unwrap();
    server.told.ended();
    let mut again = TcpStream::connect(server.address).unwrap();
    // It may be refused before it has said all.
    let _ = again.write_all(&said);
    let why = server.told.refused();
    assert!(why.contains("no TLS with the client"), "{why}");
    server.serves();
}

/// Changed, or sent again: in the handshake and after it.
#[test]
fn what_somebody_in_between_does_is_noticed() {
    let server = Running::new(Setup::default());
    // The hello, a record without meaning (RFC 8446, appendix D.4), key and proof, the first message.
    for changed in [0, 2, 3] {
        let (address, passing) = between(server.address, move |number, mut record| {
            if number == changed {
                *record.last_mut().unwrap() ^= 1;
            }
            record
        });
        let why = through(address, &server).unwrap_err();
        assert!(why.contains("TLS") || why.contains("closed the connection"), "{changed}: {why}");
        passing.join().unwrap();
    }
    let (address, passing) = between(server.address, |number, record| {
        if number == 3 { [record.clone(), record].concat() } else { record }
    });
    let why = through(address, &server).unwrap_err();
    assert!(why.contains("TLS") || why.contains("closed the connection"), "{why}");
    passing.join().unwrap();
    server.serves();
}

#[test]
fn version_1_is_told_as_such_on_both_sides() {
    let server = Running::new(Setup::default());
    let mut stream = TcpStream::connect(server.address).unwrap();
    let hello = br#"{"is":"hello","protocol":"eigentime bandwidth","version":1,"nonce":"00"}"#;
    stream.write_all(&[&(hello.len() as u32).to_be_bytes()[..], hello].concat()).unwrap();
    let why = failure(&mut plain(stream));
    assert_eq!(why.code, Code::Version);
    let said = "speaks version 1 of the protocol, this is version 2: install the same version";
    assert!(why.message.contains(said), "{}", why.message);
    assert!(server.told.refused().contains(said));
    server.serves();

    let [client_end, server_end] = wire();
    let until = Instant::now() + PATIENCE;
    let mut old = plain(server_end.try_clone().unwrap());
    old.send(&Message::Error(eigentime_bandwidth::session::failure::Failure::new(
        Code::NotOurs,
        "a greeting of TLS",
    )))
    .unwrap();
    let why = as_client(client_end, &client(), "the server".to_owned(), until).err().unwrap();
    assert!(why.to_string().contains(&format!("the server {said}")), "{why}");
}

#[test]
fn a_later_version_is_told_as_such_on_both_sides() {
    for protocols in [vec![format!("eigentime-bandwidth/{}", VERSION + 1).into_bytes()], vec![]] {
        let mut later = ClientConfig::clone(&client());
        later.alpn_protocols = protocols.clone();
        let (ours, theirs) = shake_hands(&Arc::new(later), &server());
        assert!(matches!(theirs, Err(SessionError::Version { .. })));
        // Who asks for no protocol has no reason to complain, and sees the end.
        assert!(protocols.is_empty() || matches!(ours, Err(SessionError::Version { .. })));

        let mut later = ServerConfig::clone(&server());
        later.alpn_protocols = protocols.clone();
        let (ours, _) = shake_hands(&client(), &Arc::new(later));
        let why = ours.err().unwrap().to_string();
        assert!(why.contains("the server speaks") && why.contains("this is version 2"), "{why}");
    }
}

/// Nothing is kept that a later session could go on with.
#[test]
fn each_session_proves_itself_anew() {
    let server = Running::new(Setup::default());
    let config = client();
    for _ in 0..2 {
        let stream = TcpStream::connect(server.address).unwrap();
        let until = Instant::now() + PATIENCE;
        drop(as_client(stream, &config, "the server".to_owned(), until).unwrap());
    }
    drop(served(server.address));
}
