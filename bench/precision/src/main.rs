//! Measures Eigentime's clock, sleeps and events beside their peers.
//!
//! Each command prints records, one JSON object per line, with raw samples; the harness
//! (`bench/eigenbench`) evaluates them.

mod arch;
mod bounds;
mod clocks;
mod counter;
mod drift;
mod events;
mod judged;
mod kernel;
mod load;
mod pauses;
mod random;
mod reads;
mod record;
mod sleeps;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures clocks, sleeps and events, and prints records as lines of JSON.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What a reading costs, by each clock in turn.
    Reads(reads::Options),
    /// By how much clocks go too fast, and whether ours keeps the bounds that it states.
    Bounds(bounds::Options),
    /// Whether our clock keeps its bounds after a pause.
    Pauses(pauses::Options),
    /// How late sleeps end and what they cost, by each way of sleeping in turn.
    Sleeps(sleeps::Options),
    /// How even the intervals between periodic events are, by each source in turn.
    Events(events::Options),
    /// How far clocks come away from the kernel's in a long time.
    Drift(drift::Options),
    /// Keeps processors or a disk and the loopback network busy until it is ended.
    Load(load::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("precision: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Reads(options) => reads::run(&options),
        Command::Bounds(options) => bounds::run(&options),
        Command::Pauses(options) => pauses::run(&options),
        Command::Sleeps(options) => sleeps::run(&options),
        Command::Events(options) => events::run(&options),
        Command::Drift(options) => drift::run(&options),
        Command::Load(options) => load::run(&options),
    }
}
