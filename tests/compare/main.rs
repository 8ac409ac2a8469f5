//! Compares each translated call with the host.
//!
//! `compare rows` runs the cases of every row of the table of calls on the host and on timelines;
//! what a case records must be the same. `compare changes` changes the clocks in the midst of cases.
//! `compare permitted` sets the clocks of timelines. `compare random` makes sequences of calls that follow from a seed.
//! Outside is the driver, which goes by the host's clocks and by
//! what `/proc` shows of the threads; inside, on the host or on a timeline, are servers that make a
//! process for each case.

mod case;
mod compare;
mod driver;
mod known;
mod member;
mod modes;
mod options;
mod random;
mod reads;
mod rows;
mod settings;
mod shared;
mod site;
mod situations;
mod span;
mod spec;
mod timeline;
mod timers;
mod waits;
mod watched;
mod world;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: compare list
       compare rows [TIMELINE/SITES...] [--only TEXT]
       compare changes [SITES] [--only TEXT]
       compare permitted
       compare random [TIMELINE/SITES...] [--seed N] [--calls N | --seconds N] [--only CALL,...]
TIMELINE: identity, offset, rate_0.5, rate_10, rate_1000, frozen; SITES: trapped, rewritten
EIGENTIME_BIN names the command under test";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", directory, servers, "warm"] => {
            let servers = servers.parse().expect("the driver writes a number");
            member::serve(Path::new(directory), servers, true)
                .map(|()| true)
                .map_err(|error| error.to_string())
        }
        ["list"] => {
            rows::all().iter().for_each(|case| println!("{}", case.name));
            Ok(true)
        }
        ["rows", ref rest @ ..] => modes::rows(rest),
        ["changes", ref rest @ ..] => modes::changes(rest),
        ["permitted"] => modes::permitted(),
        ["random", ref rest @ ..] => random::compare(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("compare: {why}");
            ExitCode::from(2)
        }
    }
}
