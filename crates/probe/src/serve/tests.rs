//! Conversations in which the test is the other end; the runs are shells.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use eigentime_probe::Record;
use eigentime_probe::record::Skipped;

use super::*;

/// The timeout of an answer on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

struct Other {
    to: UnixStream,
    from: BufReader<UnixStream>,
    conversation: JoinHandle<io::Result<()>>,
}

impl Other {
    fn with_shells() -> Self {
        let (here, there) = UnixStream::pair().unwrap();
        here.set_read_timeout(Some(LIMIT)).unwrap();
        let conversation = thread::spawn(move || {
            Conversation::new(Program::other("/bin/sh"))?.hold(there.as_fd(), there.as_fd())
        });
        let mut other =
            Self { to: here.try_clone().unwrap(), from: BufReader::new(here), conversation };
        let greeting: Greeting = serde_json::from_str(&other.line()).unwrap();
        assert_eq!(greeting.protocol, VERSION);
        other
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line
    }

    fn hear(&mut self) -> Answer {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"))
    }

    fn say(&mut self, line: &str) {
        self.to.write_all(line.as_bytes()).unwrap();
        self.to.write_all(b"\n").unwrap();
    }

    fn run(&mut self, id: u64, script: &str) {
        let arguments = vec!["-c".into(), script.into()];
        self.say(&serde_json::to_string(&Request::Run { id, arguments }).unwrap());
    }

    fn stop(&mut self, id: u64) {
        self.say(&serde_json::to_string(&Request::Stop { id }).unwrap());
    }

    fn refusal(&mut self) -> String {
        match self.hear() {
            Answer::Refused { why } => why,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// The number that a run prints in a record, its only way to report it.
    fn said(&mut self, id: u64) -> String {
        match self.hear() {
            Answer::Record { id: of, record } if of == id => match *record {
                Record::Skipped(it) => it.what,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn expect_end(&mut self, id: u64, status: i32) -> String {
        match self.hear() {
            Answer::Ended { id: of, status: with, error } => {
                assert_eq!((of, with), (id, status), "{error}");
                error
            }
            other => panic!("{other:?}"),
        }
    }

    /// Closes the input, and reads to the end.
    fn end(mut self) -> Vec<String> {
        self.to.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        loop {
            match self.line() {
                line if line.is_empty() => break,
                line => rest.push(line),
            }
        }
        drop(self.to);
        self.conversation.join().unwrap().unwrap();
        rest
    }
}

/// A script that prints what a shell expands `$it` to.
fn saying(it: &str) -> String {
    format!(r#"echo "{{\"kind\":\"skipped\",\"what\":\"{it}\",\"why\":\"\"}}""#)
}

fn lives(process: &str) -> bool {
    std::path::Path::new("/proc").join(process).exists()
}

#[test]
fn records_come_as_they_were_printed_then_the_end() {
    let mut other = Other::with_shells();
    let record = Record::Skipped(Skipped { what: "a \"b\" ü".into(), why: String::new() });
    let line = serde_json::to_string(&record).unwrap();
    other.run(7, &format!("printf '%s\\n' '{line}'; echo of the errors >&2; exit 3"));
    let answer = Answer::Record { id: 7, record: Box::new(record) };
    assert_eq!(other.line(), format!("{}\n", serde_json::to_string(&answer).unwrap()));
    assert_eq!(other.expect_end(7, 3), "of the errors\n");
    assert!(other.end().is_empty());
}

#[test]
fn what_is_no_record_is_said_with_the_errors() {
    let mut other = Other::with_shells();
    other.run(1, r#"echo '{"kind":'; echo words; printf 'no end'"#);
    assert_eq!(other.expect_end(1, 0), "{\"kind\":\nwords\nno end");
    other.end();
}

#[test]
fn several_run_at_once() {
    let mut other = Other::with_shells();
    for id in 0..8 {
        other.run(id, &format!("{}; read line; sleep 600", saying(&id.to_string())));
    }
    let mut heard: Vec<_> = (0..8).map(|_| other.hear()).collect();
    heard.sort_by_key(|answer| match answer {
        Answer::Record { id, .. } => *id,
        other => panic!("{other:?}"),
    });
    for id in 0..8 {
        other.stop(id);
    }
    for _ in 0..8 {
        assert!(matches!(other.hear(), Answer::Ended { status: 143, .. }));
    }
    other.end();
}

#[test]
fn nonsense_is_refused_and_does_no_harm() {
    let mut other = Other::with_shells();
    for nonsense in [
        "",
        "run",
        "{}",
        "[1]",
        r#"{"run":{"id":-1,"arguments":[]}}"#,
        r#"{"run":{"id":1}}"#,
        r#"{"go":{"id":1}}"#,
        "\u{1}\u{2}",
    ] {
        other.say(nonsense);
        assert!(other.refusal().contains("no request"), "{nonsense:?}");
    }
    other.to.write_all(b"\xff\xfe\n").unwrap();
    assert!(other.refusal().contains("no request"));
    other.say(&"x".repeat(REQUEST + 1));
    assert!(other.refusal().contains("longer than"));
    other.stop(5);
    assert!(other.refusal().contains('5'));
    other.run(1, "exit 0");
    other.expect_end(1, 0);
    other.end();
}

#[test]
fn a_number_is_given_again_when_its_run_has_ended() {
    let mut other = Other::with_shells();
    other.run(1, &format!("{}; sleep 600", saying("up")));
    assert_eq!(other.said(1), "up");
    other.run(1, "exit 0");
    assert!(other.refusal().contains('1'));
    other.stop(1);
    other.expect_end(1, 143);
    other.run(1, "exit 0");
    other.expect_end(1, 0);
    other.end();
}

#[test]
fn who_ignores_sigterm_is_ended_all_the_same_with_what_it_started() {
    let mut other = Other::with_shells();
    let child = "sleep 600 & trap '' TERM; ";
    other.run(1, &format!("{child}{}; while :; do wait; sleep 1; done", saying("$!")));
    let grandchild = other.said(1);
    assert!(lives(&grandchild));
    let before = Instant::now();
    other.stop(1);
    other.expect_end(1, 137);
    assert!(before.elapsed() >= GRACE);
    // It was sent the signal before the end was reported; its new parent waits for it.
    let state = || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
    let limit = Instant::now() + LIMIT;
    while lives(&grandchild) && !state().contains(") Z") {
        assert!(Instant::now() < limit, "{}", state());
        thread::yield_now();
    }
    other.end();
}

#[test]
fn the_end_of_the_input_ends_all_runs() {
    let mut other = Other::with_shells();
    for id in [1, 2] {
        other.run(id, &format!("{}; exec sleep 600", saying("$$")));
    }
    let processes: Vec<String> = (0..2)
        .map(|_| match other.hear() {
            Answer::Record { record, .. } => match *record {
                Record::Skipped(it) => it.what,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(processes.iter().all(|it| lives(it)));
    let rest = other.end();
    assert_eq!(rest.len(), 2, "both ends are told: {rest:?}");
    assert!(!processes.iter().any(|it| lives(it)), "they were waited for");
}

#[test]
fn who_says_more_than_anybody_reads_waits() {
    let mut other = Other::with_shells();
    let record = saying(&"x".repeat(1000));
    other.run(1, &format!("while :; do {record}; done"));
    other.run(2, &saying("heard"));
    // Meanwhile the other end reads nothing.
    let limit = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < limit);
        match other.hear() {
            Answer::Record { id: 2, .. } => break,
            Answer::Record { id: 1, .. } => {}
            other => panic!("{other:?}"),
        }
    }
    other.end();
}

#[test]
fn nobody_who_listens_ends_it() {
    let mut other = Other::with_shells();
    other.run(1, &format!("{}; exec sleep 600", saying("$$")));
    let process = other.said(1);
    drop((other.to, other.from));
    other.conversation.join().unwrap().unwrap();
    assert!(!lives(&process));
}

#[test]
fn what_cannot_be_started_has_ended() {
    let (here, there) = UnixStream::pair().unwrap();
    here.set_read_timeout(Some(LIMIT)).unwrap();
    let conversation = thread::spawn(move || {
        Conversation::new(Program::other("/nonexistent"))?.hold(there.as_fd(), there.as_fd())
    });
    let mut other =
        Other { to: here.try_clone().unwrap(), from: BufReader::new(here), conversation };
    other.line();
    other.run(1, "");
    assert!(other.expect_end(1, NOT_STARTED).contains("cannot be started"));
    other.end();
}

#[test]
fn this_program_is_found() {
    assert!(
        matches!(Program::myself(), program if format!("{program:?}").contains("/proc/self/exe"))
    );
}
