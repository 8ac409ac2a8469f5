//! The `eigentime` command: arguments in, one call, output out.

mod args;
mod attach;
mod bandwidth;
mod bench;
mod checkpoint;
mod conformance;
mod container;
mod ctl;
mod doctor;
mod images;
mod place;
mod report;
mod run;
mod setup;
mod values;

use clap::{CommandFactory, Parser};

use args::{Arguments, Command};

/// The exit status of a failure of our own, as with `env` and `docker run`.
const FAILED: u8 = 125;

/// The definition of the command line, from which man pages and completions are generated.
pub fn definition() -> clap::Command {
    Arguments::command()
}

/// Runs what the arguments of this process request; returns the exit status.
pub fn main() -> i32 {
    let arguments = match Arguments::try_parse_from(eigentime_supervisor::arguments()) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are not failures. If even those cannot be printed, that cannot be
            // reported.
            let _ = error.print();
            return if error.use_stderr() { i32::from(FAILED) } else { 0 };
        }
    };
    match arguments.command {
        Command::Run(options) => run::run(&options),
        Command::Attach(options) => attach::attach(&options),
        Command::Detach(options) => attach::detach(&options),
        Command::Checkpoint(options) => checkpoint::checkpoint(&options),
        Command::Restore(options) => checkpoint::restore(&options),
        Command::Conformance(options) => conformance::run(&options),
        Command::Ctl(options) => ctl::run(&options),
        Command::Images(options) => images::run(&options),
        Command::Setup(options) => setup::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Bandwidth(options) => bandwidth::run(&options),
        Command::Report(_) => report::run(),
    }
}
