//! The command line.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};
use eigentime_timeline::text::{parse_date, parse_offset, parse_rate};
use eigentime_timeline::{Nanos, Rate, VirtualInstant};

/// Gives programs clocks of their own: another date, another start, another rate.
#[derive(Debug, Parser)]
#[command(name = "eigentime", version, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program in a timeline of its own
    #[command(after_help = RUN_EXAMPLES, override_usage = RUN_USAGE)]
    Run(RunOptions),
}

const RUN_USAGE: &str = "eigentime run [OPTIONS] [--] COMMAND [ARG]...";

const RUN_EXAMPLES: &str = "\
Formats:
  OFF   a time with its unit, or seconds: +10d, -3h, 1d2h30m, 1.5s, 90
  DATE  2038-01-19T03:14:07Z, \"2038-01-19 03:14:07\" (local time), 2038-01-19, @2147483647
  R     0.001 to 1000000, or a quotient as 1/3; 10x and x10 are 10

Examples:
  eigentime run --date 2038-01-19T03:14:00Z --rate 10 -- sh -c 'date; sleep 10; date'
  eigentime run --offset +30d -- openssl verify cert.pem
  eigentime run --monotonic +100d --boottime +100d -- uptime
  eigentime run --freeze -- ./test-that-must-not-see-time-pass

The program, and all that it starts, reads and waits by these clocks; setting the date
inside (date -s) moves this timeline's wall clock, never the host's.

Exit status: the program's; 125 if eigentime itself fails, 126 if the program cannot be
run, 127 if it is not found.";

/// Options of `eigentime run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Move CLOCK_MONOTONIC by this much
    #[arg(long, value_name = "OFF", value_parser = parse_offset, allow_hyphen_values = true)]
    pub monotonic: Option<Nanos>,

    /// Move CLOCK_BOOTTIME, and with it the uptime, by this much
    #[arg(long, value_name = "OFF", value_parser = parse_offset, allow_hyphen_values = true)]
    pub boottime: Option<Nanos>,

    /// Start the wall clock at this date
    #[arg(long, value_parser = parse_date, conflicts_with = "offset", allow_hyphen_values = true)]
    pub date: Option<VirtualInstant>,

    /// Move the wall clock by this much
    #[arg(long, value_name = "OFF", value_parser = parse_offset, allow_hyphen_values = true)]
    pub offset: Option<Nanos>,

    /// Let this many seconds pass in one second of the host
    #[arg(long, value_name = "R", value_parser = parse_rate, conflicts_with = "freeze", allow_hyphen_values = true)]
    pub rate: Option<Rate>,

    /// Let no time pass at all
    #[arg(long)]
    pub freeze: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run(arguments: &[&str]) -> Result<RunOptions, clap::Error> {
        let arguments = ["eigentime", "run"].iter().chain(arguments);
        Arguments::try_parse_from(arguments).map(|arguments| match arguments.command {
            Command::Run(options) => options,
        })
    }

    #[test]
    fn definitions_are_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_program_keeps_its_own_options() {
        let options = run(&["--rate", "10", "date", "--date", "@0", "--", "-u"]).unwrap();
        assert_eq!(options.command, ["date", "--date", "@0", "--", "-u"]);
        assert_eq!(options.date, None);
        let options = run(&["--monotonic", "-3h", "--", "sleep", "1"]).unwrap();
        assert_eq!(options.monotonic, Some(Nanos::from_secs(-3 * 3600)));
        assert_eq!(options.command, ["sleep", "1"]);
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(run(&["--date", "@1", "--offset", "1s", "true"]).is_err());
        assert!(run(&["--rate", "2", "--freeze", "true"]).is_err());
        assert!(run(&["--rate", "2"]).is_err());
    }

    #[test]
    fn a_mistyped_option_is_no_program() {
        assert!(run(&["--bogus", "true"]).is_err());
        assert!(run(&["--rate", "2", "-x", "true"]).is_err());
        assert_eq!(run(&["--", "-x"]).unwrap().command, ["-x"]);
    }
}
