//! `eigentime conformance`.

use std::env;

use eigentime_conformance::Options;

use crate::args::ConformanceOptions;

/// Runs the trials, or is the process that makes one, and returns the exit status.
pub fn run(options: &ConformanceOptions) -> i32 {
    if let Some((name, args)) = options.probe.split_first() {
        let name = name.to_string_lossy();
        return eigentime_conformance::probe(&name, args, &eigentime_supervisor::arguments());
    }
    let command = match env::current_exe() {
        Ok(command) => command,
        Err(error) => {
            eprintln!("eigentime: cannot find its own file: {error}");
            return i32::from(crate::FAILED);
        }
    };
    let probe = [command.clone().into(), "conformance".into(), "--probe".into()];
    eigentime_conformance::run(&Options {
        eigentime: command,
        probe: probe.into(),
        json: options.json,
        only: options.only.clone(),
    })
}
