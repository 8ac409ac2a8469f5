//! The counts of the harness: this program runs itself, with tests that end in each way.

#[macro_use]
extern crate eigentime_harness;

use std::process::{Command, ExitCode};

/// Set for the run whose counts are looked at.
const INNER: &str = "EIGENTIME_HARNESS_INNER";

fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

mod inner {
    #[test]
    fn passes() {}

    #[test]
    fn skips_itself() {
        if super::is_inner() {
            skip!("{} processors", 1024);
        }
    }

    #[test]
    fn hangs() {
        if super::is_inner() {
            loop {
                std::thread::park();
            }
        }
    }

    #[test]
    fn fails() {
        assert!(!super::is_inner(), "on purpose");
    }
}

#[test]
fn each_end_has_its_count() {
    let itself = std::env::current_exe().unwrap();
    let run = |filter: &str| {
        let ended = Command::new(&itself)
            .arg(filter)
            .env(INNER, "1")
            .env("EIGENTIME_TEST_SECONDS", "1")
            .output()
            .unwrap();
        (ended.status.success(), String::from_utf8(ended.stdout).unwrap())
    };
    let (succeeded, output) = run("inner::");
    assert!(!succeeded, "{output}");
    assert!(output.contains("1 passed; 2 failed; 1 ignored"), "{output}");
    assert!(output.contains("needs 1024 processors"), "{output}");
    assert!(output.contains("on purpose"), "{output}");
    assert!(output.contains("not over after 1s") && output.contains("inner::hangs: "), "{output}");
    let (succeeded, output) = run("inner::skips_itself");
    assert!(succeeded, "{output}");
    assert!(output.contains("0 passed; 0 failed; 1 ignored"), "{output}");
}

fn main() -> ExitCode {
    eigentime_harness::main()
}
