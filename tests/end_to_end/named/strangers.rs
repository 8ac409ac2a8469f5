//! A timeline answers only its own user, and not even root. The directory's mode keeps others out;
//! these tests bypass it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::place::Place;
use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::STUCK;

const REQUESTS: [&str; 8] = [
    r#""Containers""#,
    r#"{"method":"show"}"#,
    r#"{"method":"freeze"}"#,
    r#"{"method":"remove","params":{"force":true}}"#,
    r#"{"Dance":1}"#,
    r#"{"Join":{"clocks":null,"named_by":"User","image":0}}"#,
    r#"{"Adopt":{"interface":1}}"#,
    r#"{"method":"dance"}"#,
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Root, Need::Tool("setpriv"), Need::Program(Build::Dynamic)];
    suite.test("named::strangers::root", &needs, root_is_refused);
    suite.test("named::strangers::nobody", &needs, nobody_is_refused);
    suite.test("named::strangers::nobody_is_kept_out", &needs, nobody_is_kept_out);
    suite.test("named::strangers::nonsense_harms_nobody", &[], nonsense);
}

/// The answer of a timeline on its socket.
pub fn ask_directly(socket: &Path, request: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request.as_bytes())?;
    stream.write_all(b"\n")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}

/// The answer that a user gets.
fn ask_as(user: User, socket: &Path, request: &str) -> Result<String, Broken> {
    let mut command = user.wrap(user.program(Program::Ask, Build::Dynamic)?);
    let ended = run(command.arg(socket).arg(request), STUCK)?;
    ended.expect_code(0)?;
    Ok(ended.output())
}

/// It is refused, or the connection is closed.
fn expect_refusal(answer: &str, request: &str) -> Outcome {
    let refused = answer.contains("belongs to another user") || answer.starts_with("refused=");
    ensure!(refused, "{request} of a stranger was answered {answer:?}");
    Ok(())
}

/// The timeline runs as before, without foreign members.
fn expect_unharmed(place: &Place) -> Outcome {
    let shown = place.show("x")?;
    ensure!(shown.state == "running" && shown.members.is_empty(), "it stands like this: {shown:?}");
    place.remove("x")
}

fn root_is_refused() -> Outcome {
    let place = Place::of(User::Nobody)?;
    place.make("x", &[])?;
    for request in REQUESTS {
        let answer = ask_as(User::Myself, &place.sockets().join("x"), request)?;
        expect_refusal(&answer, request)?;
    }
    expect_unharmed(&place)
}

fn nobody_is_refused() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let socket = place.sockets().join("x");
    for path in [place.directory(), &place.sockets(), &socket] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    }
    for request in REQUESTS {
        expect_refusal(&ask_as(User::Nobody, &socket, request)?, request)?;
    }
    fs::set_permissions(place.sockets(), fs::Permissions::from_mode(0o700))?;
    expect_unharmed(&place)
}

fn nobody_is_kept_out() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    fs::set_permissions(place.directory(), fs::Permissions::from_mode(0o755))?;
    let answer = ask_as(User::Nobody, &place.sockets().join("x"), REQUESTS[0])?;
    ensure!(answer.starts_with("refused=connect"), "it came as far as the socket: {answer:?}");
    expect_unharmed(&place)
}

/// Whatever arrives on the socket, the next request is answered.
fn nonsense() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    let socket = place.sockets().join("x");
    for request in ["", "{", r#""Dance""#, r#"{"Change":["Dance"]}"#, "\u{0}\u{1}"] {
        let answer = ask_directly(&socket, request)?;
        let is_refused = answer.contains("Refused") || answer.contains("invalid_request");
        ensure!(is_refused, "{request:?} was answered {answer:?}");
    }
    let long = "x".repeat(1 << 20);
    // The supervisor may hang up before it has read all of it.
    let _ = ask_directly(&socket, &long);
    // A client that sends nothing, and one that does not read.
    let silent = UnixStream::connect(&socket)?;
    let mut deaf = UnixStream::connect(&socket)?;
    deaf.write_all(b"\"Containers\"\n")?;
    drop(deaf);
    let shown = place.show("x")?;
    drop(silent);
    ensure!(shown.state == "running", "{shown:?}");
    place.remove("x")
}
