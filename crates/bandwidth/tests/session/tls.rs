//! Encryption, and who is trusted.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::session::client::{Server, Wishes};
use eigentime_bandwidth::session::frame::Frames;
use eigentime_bandwidth::session::message::{Direction, Message};
use eigentime_bandwidth::session::tls::{ClientTls, Fingerprint, Identity, ServerTls, Trust};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::raw::{failure, next};
use crate::support::{PATIENCE, Running, Setup, connect, refusal, train};

const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

fn names() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

fn serving(tls: &ServerTls) -> Running {
    Running::new(Setup { tls: Some(tls.clone()), ..Setup::default() })
}

fn trusting(server: &Running, trust: &Trust) -> Server {
    Server { tls: Some(ClientTls::new(trust).unwrap()), ..server.known() }
}

/// Both ways, over a session that is encrypted.
fn works(known: &Server) {
    for direction in [Direction::Up, Direction::Down] {
        let mut path = connect(known, Wishes { direction, ..Wishes::default() }).unwrap();
        assert_eq!(path.send(&train(20, 1000, 50.0)).unwrap().arrived.len(), 20);
    }
}

#[test]
fn a_certificate_made_now_is_known_by_its_fingerprint() {
    let tls = ServerTls::new(&Identity::New(names())).unwrap();
    let server = serving(&tls);
    works(&trusting(&server, &Trust::Pinned(tls.fingerprint)));

    let other = ServerTls::new(&Identity::New(names())).unwrap().fingerprint;
    let why = refusal(connect(&trusting(&server, &Trust::Pinned(other)), Wishes::default()));
    let said = format!("has the fingerprint {}, not {other}", tls.fingerprint);
    assert!(why.contains(&said), "{why}");

    let mut missing = Vec::new();
    match ClientTls::new(&Trust::System) {
        Ok(client) => {
            let known = Server { tls: Some(client), ..server.known() };
            let why = refusal(connect(&known, Wishes::default()));
            assert!(why.contains("is not to be trusted"), "{why}");
        }
        Err(why) => missing.push(format!("certificates of the system: {why}")),
    }
    works(&trusting(&server, &Trust::Pinned(tls.fingerprint)));
    eigentime_harness::skip_if_any(&missing);
}

/// A directory that goes with this.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("eigentime-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An authority, as the file of its certificate and what signs.
fn authority(files: &Files, name: &str) -> (PathBuf, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let path = files.write(name, &params.self_signed(&key).unwrap().pem());
    (path, Issuer::new(params, key))
}

#[test]
fn certificates_of_an_authority_are_trusted_by_its_file() {
    let files = Files::new("authorities");
    let ((ours, issuer), (other, _)) =
        (authority(&files, "ours.pem"), authority(&files, "other.pem"));
    let key = KeyPair::generate().unwrap();
    let signed = |names: Vec<String>| {
        CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap().pem()
    };
    let identity = Identity::Files {
        certificates: files.write("server.pem", &signed(names())),
        key: files.write("server.key", &key.serialize_pem()),
    };
    let server = serving(&ServerTls::new(&identity).unwrap());
    works(&trusting(&server, &Trust::Authorities(ours.clone())));
    let why = refusal(connect(&trusting(&server, &Trust::Authorities(other)), Wishes::default()));
    assert!(why.contains("is not to be trusted"), "{why}");

    let elsewhere = Identity::Files {
        certificates: files.write("elsewhere.pem", &signed(vec!["elsewhere.example".to_owned()])),
        key: files.0.join("server.key"),
    };
    let server = serving(&ServerTls::new(&elsewhere).unwrap());
    let why = refusal(connect(&trusting(&server, &Trust::Authorities(ours)), Wishes::default()));
    assert!(why.contains("is not to be trusted") && why.contains("name"), "{why}");
}

#[test]
fn encryption_on_one_side_only_is_told_as_such() {
    let tls = ServerTls::new(&Identity::New(names())).unwrap();
    let server = serving(&tls);
    let why = refusal(server.connect(Wishes::default()));
    assert!(why.contains("start both sides with TLS, or neither"), "{why}");
    assert!(server.told.refused().contains("start both sides with TLS, or neither"));
    works(&trusting(&server, &Trust::Pinned(tls.fingerprint)));

    let server = Running::new(Setup::default());
    let why =
        refusal(connect(&trusting(&server, &Trust::Pinned(tls.fingerprint)), Wishes::default()));
    assert!(why.contains("start both sides with TLS, or neither"), "{why}");
    let why = server.told.refused();
    assert!(why.contains("a greeting of TLS"), "{why}");
    server.serves();
}

/// Somebody who has been made to be trusted on one side and knows nothing but to pass messages on.
#[test]
fn somebody_between_two_encrypted_connections_is_found_out() {
    let tls = ServerTls::new(&Identity::New(names())).unwrap();
    let server = serving(&tls);
    let between = ServerTls::new(&Identity::New(names())).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let until = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        scope.spawn(|| {
            let trust = ClientTls::new(&Trust::Pinned(tls.fingerprint)).unwrap();
            let [near, far] =
                [listener.accept().unwrap().0, TcpStream::connect(server.address).unwrap()];
            let near = between.greet(near, "the client", until).unwrap();
            let far = trust.greet(far, NAMES[0], "the server", until).unwrap();
            let mut near = Frames::new(near, "the client".to_owned());
            let mut far = Frames::new(far, "the server".to_owned());
            far.send(&next(&mut near).unwrap()).unwrap();
            near.send(&next(&mut far).unwrap()).unwrap();
            far.send(&next(&mut near).unwrap()).unwrap();
            near.send(&Message::Error(failure(&mut far))).unwrap();
        });
        let known = Server { port, ..trusting(&server, &Trust::Pinned(between.fingerprint)) };
        let why = refusal(connect(&known, Wishes::default()));
        assert!(why.contains("does not know the token"), "{why}");
    });
}

#[test]
fn files_that_are_no_certificates_or_keys_are_named() {
    let files = Files::new("no-certificates");
    let key = files.write("key.pem", &KeyPair::generate().unwrap().serialize_pem());
    let text = files.write("text.pem", "nothing of the kind");
    let missing = files.0.join("missing.pem");
    for (certificates, named) in [(&text, "text.pem"), (&missing, "missing.pem"), (&key, "key.pem")]
    {
        let identity = Identity::Files { certificates: certificates.clone(), key: key.clone() };
        let why = ServerTls::new(&identity).err().unwrap().to_string();
        assert!(why.contains(named), "{why}");
        let why =
            ClientTls::new(&Trust::Authorities(certificates.clone())).err().unwrap().to_string();
        assert!(why.contains(named), "{why}");
    }
    let (certificates, _) = authority(&files, "another.pem");
    let why = ServerTls::new(&Identity::Files { certificates, key }).err().unwrap().to_string();
    assert!(why.contains("cannot set TLS up"), "{why}");
}

#[test]
fn a_fingerprint_is_read_as_tools_print_it() {
    let tls = ServerTls::new(&Identity::New(names())).unwrap();
    let text = tls.fingerprint.to_string();
    let pairs: Vec<_> =
        text.as_bytes().chunks(2).map(|it| std::str::from_utf8(it).unwrap()).collect();
    let openssl = pairs.join(":").to_uppercase();
    for text in [text.clone(), format!("sha256:{text}"), openssl] {
        assert_eq!(text.parse::<Fingerprint>(), Ok(tls.fingerprint), "{text}");
    }
    assert!(text[1..].parse::<Fingerprint>().is_err());
}
