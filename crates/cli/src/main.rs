//! The `eigentime` command.
//!
//! The process that runs `eigentime run` becomes the program.
#![no_main]

eigentime_supervisor::c_main!(eigentime_cli::main);
