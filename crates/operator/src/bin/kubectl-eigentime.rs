//! `kubectl eigentime`: arguments in, one call, output out.

use clap::Parser;
use eigentime_operator::plugin::{Arguments, run};

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match run(Arguments::parse()).await {
        Ok(text) => {
            print!("{text}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("kubectl eigentime: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
