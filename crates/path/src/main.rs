//! `eigentime-path`: a path with a known truth between two interfaces.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use eigentime_path::arguments::Arguments;
use eigentime_path::emulator::Path;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eigentime-path: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let (is_json, ready_fd) = (arguments.json, arguments.ready_fd);
    let settings = arguments.settings();
    if settings.ends[0] == settings.ends[1] {
        return Err(format!("both ends are {}: a path is between two", settings.ends[0]).into());
    }
    // Before anything is disabled that must be restored.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut ready = ready_to(ready_fd)?;
    let path = Path::open(settings)?;
    let mut told = Ok(());
    let summary = path.run(&stop, |since_ns| {
        let line = match is_json {
            true => json!({"event": "ready", "since_ns": since_ns}).to_string(),
            false => "ready".to_owned(),
        };
        told = writeln!(ready, "{line}").and_then(|()| ready.flush());
    })?;
    // A failed report does not end the path, but it is not a success either.
    told.map_err(|error| format!("cannot say that it is ready: {error}"))?;
    let mut output = io::stdout().lock();
    if is_json {
        writeln!(output, "{}", json!({"event": "end", "summary": summary}))?;
    } else {
        write!(output, "{summary}")?;
    }
    Ok(())
}

/// Where readiness is reported.
fn ready_to(fd: Option<u32>) -> Result<Box<dyn Write>, String> {
    let Some(fd) = fd else { return Ok(Box::new(io::stdout())) };
    let path = format!("/proc/self/fd/{fd}");
    let open = OpenOptions::new().write(true).open(&path);
    let file = open.map_err(|error| format!("--ready-fd {fd} cannot be written to: {error}"))?;
    Ok(Box::new(file))
}
