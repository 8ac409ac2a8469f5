//! `eigentime run`.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

use eigentime_supervisor::Plan;

use crate::args::RunOptions;
use crate::container;

/// Turns this process into the program, and returns an exit status only if that fails; or runs a
/// container until it ends.
pub fn run(options: &RunOptions) -> i32 {
    if let Some(system) = container::system(options) {
        return container::run(options, system);
    }
    match plan(options) {
        Ok(plan) => {
            let error = eigentime_supervisor::run(&plan);
            eprintln!("eigentime: {error}");
            error.exit_status()
        }
        Err(reason) => {
            eprintln!("eigentime: {reason}");
            i32::from(crate::FAILED)
        }
    }
}

fn plan(options: &RunOptions) -> Result<Plan, String> {
    let command = options
        .command
        .iter()
        .map(|word| CString::new(word.clone().into_vec()).expect("arguments hold no null byte"));
    let request = options.clocks.request()?;
    Ok(Plan {
        command: command.collect(),
        clocks: request.clocks(),
        consent: request.consent(),
        timeline: request.timeline,
        tracing: options.tracing(),
        rewrites: !request.no_rewrite,
        keep_running: options.keep_running,
        existing: options.existing,
    })
}
