//! The `eigentime` command: arguments in, one call, output out.
//!
//! The process that runs `eigentime run` becomes the program. Rust's own start-up
//! would leave traces in it (SIGPIPE ignored, closed standard descriptors opened),
//! so this program starts at C's `main`.
#![cfg_attr(not(test), no_main)]

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

use clap::Parser;

use args::{Arguments, Command};

/// The exit status of a failure of our own, as with `env` and `docker run`.
const FAILED: u8 = 125;

/// What the C library calls first (but in unit tests, which have a start of their
/// own).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn main() -> i32 {
    eigentime_supervisor::hold_closed_descriptors();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no failure; nobody is left to be told if even
            // that cannot be printed.
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
