use super::*;
use crate::levels::Channel;
use crate::levels::process::{Group, start};
use std::process::Command;

/// A level whose probe is a shell script.
struct Script(&'static str);

impl Level for Script {
    fn name(&self) -> &str {
        "made-up"
    }

    fn open(&self, _: &Stop) -> Result<Channel, Unavailable> {
        let mut command = Command::new("sh");
        command.args(["-c", self.0]);
        start(command, Group::Own)
    }
}

const GREET: &str = r#"greet() { echo '{"probe":"0","protocol":1}'; }
    skip() { echo "{\"record\":{\"id\":$1,\"record\":{\"kind\":\"skipped\",\"what\":\"$2\",\"why\":\"y\"}}}"; }
    end() { echo "{\"ended\":{\"id\":$1,\"status\":$2,\"error\":\"oh\"}}"; }
    "#;

fn script(body: &str) -> Script {
    Script(Box::leak(format!("{GREET}{body}").into_boxed_str()))
}

fn failure(body: &str) -> String {
    let session = Session::open(&script(body), &Stop::default(), |_| {});
    let ended = session
        .and_then(|mut session| session.run(&["calls".into()], Duration::from_millis(300), |_| {}));
    ended.expect_err("it must not go well").to_string()
}

#[test]
fn records_come_until_the_end() {
    let body =
        "echo 'Welcome!'; printf '$ '; greet; read a; skip 1 one; skip 1 two; end 1 0; read b";
    let mut session = Session::open(&script(body), &Stop::default(), |_| {}).unwrap();
    assert_eq!(session.notes["probe"], "0");
    let mut seen = Vec::new();
    let long = Duration::from_secs(60);
    session.run(&["calls".into()], long, |record| seen.push(record)).unwrap();
    let names = seen.iter().map(|record| match record {
        Record::Skipped(skipped) => skipped.what.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(names.collect::<Vec<_>>(), ["one", "two"]);
}

#[test]
fn what_runs_beside_is_kept_apart() {
    let body = "greet; read a; skip 1 load; read b; skip 1 more; skip 2 it; end 2 0
        read c; skip 1 last; end 1 143; read d";
    let mut session = Session::open(&script(body), &Stop::default(), |_| {}).unwrap();
    let long = Duration::from_secs(60);
    let load = session.run_beside(&["load".into()], long, |_| true).unwrap();
    let mut seen = 0;
    session.run(&["calls".into()], long, |_| seen += 1).unwrap();
    assert_eq!(seen, 1);
    assert_eq!(session.stop(load).unwrap().len(), 3);
}

#[test]
fn whatever_goes_wrong_is_an_error_with_its_level() {
    for (body, said) in [
        (
            "echo no such host >&2; exit 255",
            "the probe has ended, exit status: 255: no such host\nhelp: ",
        ),
        ("echo '{\"probe\":\"9\",\"protocol\":99}'", "speaks protocol 99"),
        ("greet; read a; echo ouch >&2; exit 3", "the probe has ended, exit status: 3: ouch"),
        ("greet; read a; read b", "took longer than 0 s"),
        ("greet; read a; end 1 2; read b", "'calls' ended with status 2: oh"),
        ("greet; read a; echo hello; read b", "the probe's answer is none"),
        ("greet; read a; echo '{\"refused\":{\"why\":\"no\"}}'; read b", "refused: no"),
        ("yes", "no probe; it said 'y | y"),
        ("echo Welcome; printf '$ '; exit 1", "exit status: 1; it said 'Welcome | $'"),
        ("head -c 20000000 /dev/zero", "a line of more than 16 MiB"),
    ] {
        let message = failure(body);
        assert!(message.starts_with("level made-up: "), "{message}");
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn whoever_waits_is_woken_to_stop() {
    let stop = Stop::default();
    let mut session =
        Session::open(&script("greet; read a; read b; read never"), &stop, |_| {}).unwrap();
    let asker = stop.clone();
    let begun = session.start(&["calls".into()]).unwrap();
    assert_eq!(begun, 1);
    thread::spawn(move || asker.ask());
    let ended = session.run(&["calls".into()], Duration::from_secs(600), |_| {});
    assert!(matches!(ended, Err(Failure::Stopped)));
    assert!(matches!(Session::open(&script("greet"), &stop, |_| {}), Err(Failure::Stopped)));
}

#[test]
fn a_load_that_ends_by_itself_is_missed() {
    let body = "greet; read a; skip 1 load; read b; end 1 1; read c";
    let mut session = Session::open(&script(body), &Stop::default(), |_| {}).unwrap();
    let long = Duration::from_secs(60);
    session.run_beside(&["load".into()], long, |_| true).unwrap();
    let ended = session.run(&["calls".into()], long, |_| {}).unwrap_err().to_string();
    assert!(ended.contains("the load ended by itself with status 1: oh"), "{ended}");
}
