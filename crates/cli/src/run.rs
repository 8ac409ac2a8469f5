//! `eigentime run`.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use eigentime_supervisor::{
    AtLimit, Clocks, Limit, Motion, Plan, Policy, Saved, Skip, Start, Unreadable, Wall,
};
use eigentime_timeline::{Nanos, Rate};

use crate::args::{AtLimitName, ClockOptions, PolicyName, RunOptions};
use crate::container;

/// Turns this process into the program, and returns, with an exit status, only if that
/// failed; or runs a container to its end.
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
    Ok(Plan {
        command: command.collect(),
        clocks: clocks(&options.clocks)?,
        timeline: options.clocks.timeline.clone(),
        debuggable: options.debuggable,
        rewrites: !options.clocks.no_rewrite,
    })
}

/// The clocks that options ask for, if they do.
pub fn clocks(options: &ClockOptions) -> Result<Option<Clocks>, String> {
    if !options.ask_for_clocks() {
        return Ok(None);
    }
    let rate = options.rate.or(options.busy_rate);
    let mut motion = Motion { rate: rate.unwrap_or(Rate::ONE), frozen: options.freeze };
    let start = if let Some(file) = &options.resume {
        let saved = read_saved(file)
            .map_err(|reason| format!("cannot continue {}: {reason}", file.display()))?;
        motion.rate = rate.unwrap_or(saved.motion().rate);
        // A rate asked for lets it run.
        motion.frozen |= saved.motion().frozen && rate.is_none();
        let policy = match options.policy {
            PolicyName::Continue => Policy::Continue,
            PolicyName::CatchUp => Policy::CatchUp,
        };
        Start::Saved(Box::new(saved), policy)
    } else {
        let wall = match (options.date, options.anchor) {
            (Some(date), _) => Wall::Date(date),
            (None, Some((host, virt))) => Wall::Anchored { host, virt },
            (None, None) => Wall::Offset(options.offset.unwrap_or(Nanos::ZERO)),
        };
        let [monotonic, boottime] =
            [options.monotonic, options.boottime].map(|offset| offset.unwrap_or(Nanos::ZERO));
        Start::Host { monotonic, boottime, wall }
    };
    Ok(Some(Clocks { start, motion, skip: skip(options) }))
}

/// How the time that nobody uses is skipped, if it is.
fn skip(options: &ClockOptions) -> Option<Skip> {
    let until = options.until.map(Limit::Date);
    options.skip_idle.then(|| Skip {
        grace: options.idle_grace,
        limit: until.or(options.span.map(Limit::After)),
        at_limit: match options.at_limit {
            Some(AtLimitName::Freeze) => AtLimit::Freeze,
            Some(AtLimitName::End) | None => AtLimit::End,
        },
    })
}

fn read_saved(file: &Path) -> Result<Saved, String> {
    let text = match file.to_str() {
        Some("-") => io::read_to_string(io::stdin()),
        _ => fs::read_to_string(file),
    };
    text.map_err(|error| error.to_string())?.parse().map_err(|error: Unreadable| error.to_string())
}
