use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};

const DEVICE: &str = "/dev/cpu_dma_latency";

/// No wait at all for a processor that wakes, in microseconds.
const AT_ONCE: i32 = 0;
/// What the kernel allows where nobody asks for less, in microseconds:
/// PM_QOS_CPU_LATENCY_DEFAULT_VALUE of linux/pm_qos.h.
const WHATEVER: i32 = 2_000_000_000;

/// Keeps all processors out of idle states from which they wake late: for as long as the file is
/// open, which the kernel's Documentation/power/pm_qos_interface.rst describes. It is held also
/// while a forked child has the file, until that drops it, executes another program or ends.
#[derive(Debug)]
pub struct LatencyHold {
    file: File,
    held: bool,
}

impl LatencyHold {
    /// Asks for it, from now on.
    ///
    /// # Errors
    /// If the device cannot be written to: why, and what would help.
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

    /// Asks for it again after [`LatencyHold::relax`].
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub fn hold(&mut self) -> std::io::Result<()> {
        self.ask(AT_ONCE, true)
    }

    /// Asks for nothing for a while, without closing the device.
    ///
    /// # Errors
    /// If the kernel does not take it.
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

    /// What the kernel allows at present: others may ask for less at the same time, never more.
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
