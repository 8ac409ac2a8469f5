//! The probe as the only program of a virtual machine: setup and shutdown of the system.
//!
//! The kernel starts it as `/init` of an initramfs (created by `eigentime_study::levels::vm`). It
//! mounts the file systems that measurements need, loads the bundled modules, communicates over a
//! port of the virtual machine, and switches the machine off.
//!
//! - `place`: file systems and the loopback device.
//! - `modules`: the bundled kernel modules.
//! - `port`: the port of the virtual machine for communication.

mod modules;
mod place;
mod port;

use std::env;
use std::error::Error;
use std::os::fd::AsFd;
use std::process::{self, ExitCode};

use rustix::system::{RebootCommand, reboot};

use crate::serve;

/// The program name with which the kernel starts it, along with arguments: the unrecognized part of
/// its command line.
const NAME: &str = "/init";

/// Whether this process is the first of a virtual machine. A container's first process has another
/// name.
pub fn is_wanted() -> bool {
    process::id() == 1 && env::args_os().next().is_some_and(|name| name == NAME)
}

/// Serves until the connection ends, then switches the machine off.
pub fn run() -> ExitCode {
    // Standard error is the kernel's console.
    if let Err(error) = prepare_and_serve() {
        eprintln!("eigentime-probe: {error}");
    }
    rustix::fs::sync();
    // If that fails, the kernel panics without this process, which also ends the machine.
    let refused = reboot(RebootCommand::PowerOff);
    eprintln!("eigentime-probe: the machine cannot be switched off: {refused:?}");
    ExitCode::FAILURE
}

fn prepare_and_serve() -> Result<(), Box<dyn Error>> {
    place::mount_all()?;
    place::raise_loopback()?;
    modules::load_all()?;
    place::mount_disk()?;
    let port = port::open()?;
    Ok(serve::converse(port.as_fd(), port.as_fd())?)
}
