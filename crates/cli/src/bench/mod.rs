//! `eigentime bench`.
//!
//! - `args`: the command line.
//! - `measure`: a study, from the options to its table.
//! - `screen`: its progress display.
//! - `sense`: which options cannot matter.
//! - `enter`: namespaces without a timeline, for levels.
//! - `lead`: a command that leads to a level; nothing of it outlasts the study.

pub mod args;
mod enter;
mod lead;
mod measure;
mod screen;
mod sense;

pub use args::{BenchOptions, NOTES};

use args::Action;

/// Runs the requested action, and returns the exit status.
pub fn run(options: &BenchOptions) -> i32 {
    match &options.action {
        None => measure::run(&options.measure),
        Some(Action::Merge(options)) => merge(options),
        Some(Action::Enter(options)) => enter::run(options),
        Some(Action::Lead(options)) => lead::run(options),
    }
}

fn merge(options: &args::MergeOptions) -> i32 {
    match eigentime_study::results::folder::merge(&options.folders, &options.out) {
        Ok(runs) => {
            let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
            eprintln!("{} holds {runs}", options.out.display());
            0
        }
        Err(error) => {
            eprintln!("eigentime: {error}");
            i32::from(crate::FAILED)
        }
    }
}
