//! A peer that is missing, or is not the expected one, is reported soon.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use rustix::process::Signal;

use super::lab::{self, LIMIT, Lab};
use crate::command::{run, start};
use crate::needs::Need;
use crate::processes;
use crate::suite::{Outcome, Suite};
use crate::workspace;

pub fn add(suite: &mut Suite) {
    let needs = [Need::Root, Need::Tool("ip")];
    suite.test("bandwidth::refused::token", &needs, wrong_token);
    suite.test("bandwidth::refused::no_token", &[], no_token);
    suite.test("bandwidth::refused::nobody_there", &needs, nobody_there);
    suite.test("bandwidth::refused::another_service", &[], another_service);
    suite.test("bandwidth::refused::server_killed", &needs, server_killed);
    suite.test("bandwidth::refused::another_key", &needs, another_key);
}

/// A client on this host alone.
fn local(address: &str) -> Command {
    let mut command = Command::new(workspace::binary());
    command.args(["bandwidth", "measure", address]);
    command
}

/// A client trusts a server with a key of its own only with the fingerprint that the server prints.
fn another_key() -> Outcome {
    let lab = Lab::wired()?;
    let (_server, fingerprint) = lab.serve_with_key()?;
    let measure = |options: &[&str]| lab.measure(&[&["--max-rate", "20M"], options].concat());
    let trusted = measure(&["--fingerprint", &fingerprint])?;
    // Only the allowed rate limits the path: no number.
    trusted.expect_code(1)?;
    trusted.ensure(trusted.output().contains("at least"), "another estimate")?;
    let other = format!("sha256//{}=", "A".repeat(43));
    for (options, why) in [
        (&["--fingerprint", &other][..], "it is another server"),
        (&[], "the fingerprint (--fingerprint) of a server that has a key of its own"),
    ] {
        let ended = measure(options)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains(why), format_args!("it does not say '{why}'"))?;
    }
    Ok(())
}

/// A service that speaks first, as mail servers do.
fn another_service() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let greeting = thread::spawn(move || {
        let (mut connection, _) = listener.accept()?;
        connection.write_all(b"220 mail.example ESMTP\r\n")
    });
    let mut command = local(&address);
    let ended = run(command.env("EIGENTIME_TOKEN", lab::TOKEN), LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(
        ended.errors.contains("does not speak eigentime's protocol"),
        "it does not say what is there",
    )?;
    drop(greeting.join());
    Ok(())
}

fn wrong_token() -> Outcome {
    let lab = Lab::wired()?;
    let server = lab.serve(&[])?;
    let mut command = lab.client(lab::RIGHT);
    command.env("EIGENTIME_TOKEN", "another token of 16 bytes and more");
    let ended = run(&mut command, LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("token"), "it does not say why")?;
    drop(server);
    Ok(())
}

fn no_token() -> Outcome {
    let ended = run(local("127.0.0.1:9").env_remove("EIGENTIME_TOKEN"), LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("--token-file"), "it does not say what to do")
}

fn nobody_there() -> Outcome {
    let lab = Lab::wired()?;
    let ended = lab.measure(&[])?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("eigentime bandwidth serve"), "it does not say what to do")
}

/// The client ends by itself, and reports which side is gone.
fn server_killed() -> Outcome {
    let lab = Lab::wired()?;
    let server = lab.serve(&[])?;
    let mut command = lab.client(lab::RIGHT);
    command.args(["--count", "1000", "--json", "--interval", "10ms", "--max-rate", "50M"]);
    let mut client = start(&mut command)?;
    client.next_line(LIMIT)?;
    processes::send(server.id(), Signal::KILL)?;
    let ended = client.finish(LIMIT)?;
    ended.expect_code(125)?;
    ended.ensure(ended.errors.contains("server"), "it does not say who is gone")
}
