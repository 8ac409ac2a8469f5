//! `eigentime bandwidth`.
//!
//! - `args`: the command line.
//! - `serve`, `measure`: the two ends.
//! - `tell`, `chart`, `prometheus`: output of estimates.

mod args;
mod chart;
mod measure;
mod prometheus;
mod serve;
mod tell;

pub use args::{BandwidthOptions, NOTES};

use args::{Action, TokenOptions};
use eigentime_bandwidth::session::token::Token;

use crate::FAILED;

/// The variable with the token, if no file is named.
const VARIABLE: &str = "EIGENTIME_TOKEN";

/// Runs the requested action, and returns the exit status.
pub fn run(options: &BandwidthOptions) -> i32 {
    let result = match &options.action {
        Action::Serve(options) => serve::serve(options),
        Action::Measure(options) => measure::measure(options),
    };
    result.unwrap_or_else(|why| {
        eprintln!("eigentime: bandwidth: {why}");
        i32::from(FAILED)
    })
}

/// The token that was given, if any.
fn token(options: &TokenOptions) -> Result<Option<Token>, String> {
    let (text, whence) = match &options.token_file {
        Some(file) => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(file)
                .map_err(|why| format!("cannot read the token in {name}: {why}"))?;
            (text, name)
        }
        None => match std::env::var(VARIABLE) {
            Ok(text) => (text, VARIABLE.to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(why) => return Err(format!("{VARIABLE}: {why}")),
        },
    };
    text.parse().map(Some).map_err(|why| format!("{whence}: {why}"))
}
