//! `eigentime run`.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStringExt;

use eigentime_supervisor::{Error, Plan, Wall};
use eigentime_timeline::{Nanos, Rate};

use crate::args::RunOptions;

/// Opens those of the three standard descriptors that the caller closed, so that no
/// file of ours gets their numbers; they are closed again when the program starts.
pub fn hold_closed_descriptors() {
    loop {
        // The lowest free number, closed on exec as all that Rust opens.
        let Ok(file) = OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
        if file.as_raw_fd() > 2 {
            return;
        }
        let _held_until_exec = file.into_raw_fd();
    }
}

/// Turns this process into the program. Returns only if that failed.
pub fn run(options: &RunOptions) -> Error {
    let wall = match (options.date, options.offset) {
        (Some(date), _) => Wall::Date(date),
        (None, offset) => Wall::Offset(offset.unwrap_or(Nanos::ZERO)),
    };
    let rate = if options.freeze { Rate::FROZEN } else { options.rate.unwrap_or(Rate::ONE) };
    let command = options
        .command
        .iter()
        .map(|word| CString::new(word.clone().into_vec()).expect("arguments hold no null byte"));
    eigentime_supervisor::run(&Plan {
        command: command.collect(),
        monotonic: options.monotonic.unwrap_or(Nanos::ZERO),
        boottime: options.boottime.unwrap_or(Nanos::ZERO),
        wall,
        rate,
    })
}
