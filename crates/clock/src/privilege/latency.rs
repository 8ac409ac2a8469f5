use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};

const DEVICE: &str = "/dev/cpu_dma_latency";

/// No wake-up latency allowed, in microseconds.
const AT_ONCE: i32 = 0;
/// The kernel's limit if no process requests a lower one, in microseconds:
/// PM_QOS_CPU_LATENCY_DEFAULT_VALUE of linux/pm_qos.h.
const WHATEVER: i32 = 2_000_000_000;

/// Keeps all processors out of idle states with a high exit latency for as long as the file is open
/// (Documentation/power/pm_qos_interface.rst in the kernel). A forked child that inherits the file
/// holds it too, until it drops it, executes another program or ends.
#[derive(Debug)]
pub struct LatencyHold {
    file: File,
    held: bool,
}

impl LatencyHold {
    /// Makes the request, effective immediately.
    ///
    /// # Errors
    /// If the device cannot be written to: the reason, and a remedy.
    pub fn take() -> Result<Self, String> {
        let file = OpenOptions::new().write(true).open(DEVICE).map_err(|error| {
            let help = match error.kind() {
                ErrorKind::NotFound => "this kernel or container has none; give it the device",
                ErrorKind::PermissionDenied => "run as root, or let the user write to it",
                _ => "it has to be opened for writing",
            };
            format!("{DEVICE}: {error}: {help}")
        })?;
        let mut hold = Self { file, held: false };
        hold.hold().map_err(|error| format!("{DEVICE}: {error}"))?;
        Ok(hold)
    }

    /// Renews the request after [`LatencyHold::relax`].
    ///
    /// # Errors
    /// If the kernel does not accept it.
    pub fn hold(&mut self) -> std::io::Result<()> {
        self.ask(AT_ONCE, true)
    }

    /// Suspends the request without closing the device.
    ///
    /// # Errors
    /// If the kernel does not accept it.
    pub fn relax(&mut self) -> std::io::Result<()> {
        self.ask(WHATEVER, false)
    }

    fn ask(&mut self, microseconds: i32, held: bool) -> std::io::Result<()> {
        if self.held != held {
            self.file.write_all(&microseconds.to_ne_bytes())?;
            self.held = held;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The kernel's current limit: other processes may request a lower one at the same time, never
    /// a higher one.
    fn allowed() -> i32 {
        let mut bytes = [0; 4];
        File::open(DEVICE).unwrap().read_exact(&mut bytes).unwrap();
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn it_is_held_until_it_is_dropped() {
        let mut hold = match LatencyHold::take() {
            Ok(hold) => hold,
            Err(why) => skip!("{DEVICE}: {why}"),
        };
        assert_eq!(allowed(), AT_ONCE);
        hold.relax().unwrap();
        hold.hold().unwrap();
        assert_eq!(allowed(), AT_ONCE);
    }
}
