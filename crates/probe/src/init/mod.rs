//! The probe as the only program of a virtual machine: what a system does before and after.
//!
//! The kernel starts it as `/init` of an initramfs (`eigentime_study::levels::vm` makes one). It
//! mounts what measurements look at, loads the modules that came along, converses over a port of
//! the virtual machine, and switches the machine off.
//!
//! - `place`: file systems and the loopback device.
//! - `modules`: the modules of the kernel that came along.
//! - `port`: the port of the virtual machine over which it is spoken to.

mod modules;
mod place;
mod port;

use std::env;
use std::error::Error;
use std::os::fd::AsFd;
use std::process::{self, ExitCode};

use rustix::system::{RebootCommand, reboot};

use crate::serve;

/// As what the kernel starts it. It gives this name as the program's, and arguments of its own
/// making: what it does not understand of its command line.
const NAME: &str = "/init";

/// Is this process the first of a virtual machine? A container's first process is called otherwise.
pub fn is_wanted() -> bool {
    process::id() == 1 && env::args_os().next().is_some_and(|name| name == NAME)
}

/// Serves until nobody speaks to it any more, then switches the machine off.
pub fn run() -> ExitCode {
    // Standard error is the kernel's console.
    if let Err(error) = prepare_and_serve() {
        eprintln!("eigentime-probe: {error}");
    }
    rustix::fs::sync();
    // If it comes back, the kernel panics, for want of this process, which ends the machine, too.
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
