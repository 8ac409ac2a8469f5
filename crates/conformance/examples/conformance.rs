//! Runs the conformance test with the given `eigentime` executable, to work on this crate alone:
//! `cargo run --example conformance -- PATH [--json] [TEXT]`.

use std::ffi::OsString;

use eigentime_conformance::{Options, probe, run};

fn main() {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let first = arguments.next().unwrap_or_else(|| {
        eprintln!("usage: conformance PATH_OF_EIGENTIME [--json] [TEXT]");
        std::process::exit(2);
    });
    if first == "--probe" {
        let name = arguments.next().unwrap_or_default();
        let rest: Vec<OsString> = arguments.collect();
        let words: Vec<OsString> = std::env::args_os().collect();
        std::process::exit(probe(&name.to_string_lossy(), &rest, &words));
    }
    let json = arguments.next_if(|word| word == "--json").is_some();
    let only = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let myself = std::env::current_exe().expect("/proc is mounted").into_os_string();
    let options =
        Options { eigentime: first.into(), probe: vec![myself, "--probe".into()], json, only };
    std::process::exit(run(&options));
}
