//! The virtual machine's port for communication: of a virtio serial device.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The name of the port, given by eigentime_study::levels::vm.
const NAME: &str = "eigentime.probe";

/// Where the driver lists ports, once it is loaded.
const PORTS: &str = "/sys/class/virtio-ports";

/// How long it may take to appear after the modules are loaded, on an emulated machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The polling interval.
const LOOK: Duration = Duration::from_millis(2);

/// Waits for the port, and for the host to open its other end.
pub fn open() -> Result<File, String> {
    if !Path::new(PORTS).exists() {
        return Err(
            "there is no driver for the port: the kernel, or its modules, have no virtio_console"
                .into(),
        );
    }
    let until = Instant::now() + PATIENCE;
    let path = loop {
        if let Some(path) = find() {
            break path;
        }
        if Instant::now() > until {
            return Err(format!(
                "there is no port {NAME}: the kernel, or its modules, have no virtio_pci"
            ));
        }
        thread::sleep(LOOK);
    };
    let port = OpenOptions::new().read(true).write(true).open(&path);
    let port = port.map_err(|error| format!("{}: {error}", path.display()))?;
    while is_hung_up(&port).map_err(|error| format!("{}: {error}", path.display()))? {
        if Instant::now() > until {
            return Err(format!("nobody is at the other end of {}", path.display()));
        }
        thread::sleep(LOOK);
    }
    Ok(port)
}

fn find() -> Option<PathBuf> {
    let ports = fs::read_dir(PORTS).ok()?.flatten();
    let port = ports
        .map(|it| it.path())
        .find(|it| fs::read_to_string(it.join("name")).is_ok_and(|name| name.trim_end() == NAME))?;
    let device = Path::new("/dev").join(port.file_name()?);
    device.exists().then_some(device)
}

/// Whether the host has not opened the port yet: until then, reading returns the end of a file.
fn is_hung_up(port: &File) -> io::Result<bool> {
    let mut ports = [PollFd::new(port, PollFlags::OUT)];
    poll(&mut ports, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(ports[0].revents().contains(PollFlags::HUP))
}
