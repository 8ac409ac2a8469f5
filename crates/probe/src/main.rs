//! `eigentime-probe`: arguments in, one measurement, records out.
//!
//! - `calls`: equal calls, timed together.
//! - `reads`: single readings of clocks, hot and cold.
//! - `sleeps`: how late sleeps end.
//! - `events`: the regularity of timer events.
//! - `warps`: clocks compared between processors.
//! - `facts`: the doctor's facts about this place.
//! - `loads`: loads that keep the machine busy meanwhile.
//! - `serve`: many measurements, on request.
//! - `init`: serving as the only program of a virtual machine.
//! - `setting`: processor, policy, slack: the setting of every measurement.
//! - `ticks`: time from the processor's counter.
//! - `output`: records to standard output.

#[cfg(test)]
#[macro_use]
extern crate eigentime_harness;

mod arch;
mod calls;
mod events;
mod facts;
mod init;
mod loads;
mod output;
mod reads;
mod serve;
mod setting;
mod sleeps;
mod ticks;
mod warps;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::Output;
use setting::Setting;

/// Measures clocks, sleeps and timer events, and prints JSON records, one per line
#[derive(Debug, Parser)]
#[command(name = "eigentime-probe", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The cost of clock and timer calls: many equal ones, timed together
    Calls(Measured<calls::Options>),
    /// The cost of single clock readings, as a distribution
    Read(Measured<reads::Options>),
    /// How late sleeps end
    Sleep(Measured<sleeps::Options>),
    /// The regularity of timer events
    Events(Measured<events::Options>),
    /// Whether clocks go backwards, within a thread and between processors
    Warp(warps::Options),
    /// What distorts time here: the findings of `eigentime doctor`
    Facts(facts::Options),
    /// Keep the machine busy, and report how much
    Load(loads::Options),
    /// Make the measurements that standard input requests, until it ends
    Serve,
}

/// A measurement and its setting.
#[derive(Debug, clap::Args)]
struct Measured<Options: clap::Args> {
    #[command(flatten)]
    setting: Setting,
    #[command(flatten)]
    options: Options,
}

impl<Options: clap::Args> Measured<Options> {
    /// Measures, if its setting can be applied.
    fn measure(
        &self,
        run: impl FnOnce(&Options, &mut Output) -> Result<(), Box<dyn Error>>,
        output: &mut Output,
    ) -> Result<(), Box<dyn Error>> {
        match self.setting.apply(output)? {
            true => run(&self.options, output),
            false => Ok(()),
        }
    }
}

#[cfg(not(test))]
fn main() -> ExitCode {
    start()
}

#[cfg(test)]
fn main() -> ExitCode {
    eigentime_harness::main()
}

#[cfg_attr(test, allow(dead_code))]
fn start() -> ExitCode {
    if init::is_wanted() {
        return init::run();
    }
    let arguments = Arguments::parse();
    match run(arguments.what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eigentime-probe: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: What) -> Result<(), Box<dyn Error>> {
    let mut output = Output::new();
    match what {
        What::Calls(it) if it.options.is_list() => it.options.list(),
        What::Calls(it) => it.measure(calls::run, &mut output),
        What::Read(it) => it.measure(reads::run, &mut output),
        What::Sleep(it) => it.measure(sleeps::run, &mut output),
        What::Events(it) => it.measure(events::run, &mut output),
        What::Warp(options) => warps::run(&options, &mut output),
        What::Facts(options) => facts::run(&options, &mut output),
        What::Load(options) => loads::run(&options, &mut output),
        What::Serve => serve::run(),
    }
}
