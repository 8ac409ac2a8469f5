//! A server with a key of its own.

use std::fs;
use std::path::PathBuf;

use eigentime_bandwidth::methods::Path;
use eigentime_bandwidth::session::client::{Request, Server};
use eigentime_bandwidth::session::message::Direction;
use eigentime_bandwidth::session::token::{Fingerprint, Key};

use crate::support::{Running, Setup, connect, other_token, refusal, train};

/// A key as OpenSSL writes it.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEICB9PjJVoyF9qeOqJtKMUEVK9FKcIk76izNmTl6brGM1
-----END PRIVATE KEY-----
";

/// And what `openssl dgst -sha256` says of its public key.
const FINGERPRINT: &str = "sha256///1uxG5WSYl0BAlS4eRZXRByIcvx2EwPVgCxPzOcj3ZI=";

/// A file that goes with this.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("eigentime-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_server_with_a_key_of_its_own_is_known_by_its_fingerprint() {
    let file = File::new("key.pem", KEY);
    let key = Key::read(&file.0).unwrap();
    assert_eq!(key.fingerprint().to_string(), FINGERPRINT);
    let server = Running::new(Setup { key: Some(key), ..Setup::default() });
    let known = |fingerprint| Server { fingerprint, ..server.known() };
    let works = || {
        for direction in [Direction::Up, Direction::Down] {
            let known = known(Some(FINGERPRINT.parse().unwrap()));
            let mut path = connect(&known, Request { direction, ..Request::default() }).unwrap();
            assert_eq!(path.send(&train(20, 1000, 50.0)).unwrap().arrived.len(), 20);
        }
    };
    works();
    let other: Fingerprint = other_token().server.fingerprint();
    let why = refusal(connect(&known(Some(other)), Request::default()));
    assert!(
        why.contains(&format!("another fingerprint than {other}: it is another server")),
        "{why}"
    );
    let why = refusal(connect(&known(None), Request::default()));
    assert!(why.contains("the fingerprint (--fingerprint) of a server that has a key"), "{why}");
    // The fingerprint is no token.
    let stranger = Server { token: other_token(), ..known(Some(FINGERPRINT.parse().unwrap())) };
    let why = refusal(connect(&stranger, Request::default()));
    assert!(why.contains("refuses the key of this side: give both hosts the same token"), "{why}");
    works();
}

#[test]
fn a_server_that_has_only_the_token_is_not_one_with_a_fingerprint() {
    let server = Running::new(Setup::default());
    let known = Server { fingerprint: Some(FINGERPRINT.parse().unwrap()), ..server.known() };
    let why = refusal(connect(&known, Request::default()));
    assert!(why.contains("has another fingerprint"), "{why}");
    server.serves();
}

#[test]
fn files_that_are_no_keys_are_named() {
    let text = File::new("text.pem", "nothing of the kind");
    let cut = File::new("cut.pem", &KEY.replace("MC4CAQAw", "MC4CAQAx"));
    for path in [&text.0, &cut.0, &text.0.with_extension("missing")] {
        let why = Key::read(path).err().unwrap().to_string();
        assert!(why.contains(&path.display().to_string()), "{why}");
        assert!(why.contains("openssl genpkey"), "{why}");
    }
}
