//! The source that the vDSO reads clocks from: a number in its data from the kernel, the vvar
//! pages.
//!
//! Their layout is not an ABI; the value is shown beside the oracle's answer, and decides nothing.

use std::fmt;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::arch;
use crate::machine::{Machine, Unknown};

/// The source (`enum vdso_clock_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: it makes system calls.
    None,
    /// The processor's counter.
    Counter,
    /// The page of KVM or Xen.
    Pvclock,
    /// The Hyper-V page.
    Hvclock,
    /// The page that a time namespace's page refers to.
    TimeNamespace,
}

/// The possible offsets of the sequence number and the mode in a page: x86 before Linux 6.15 leaves
/// room for other data first (arch/x86/include/asm/vvar.h).
const OFFSETS: [usize; 2] = [0, 128];

/// How much of the page is read.
const LENGTH: usize = 256;

impl Mode {
    /// The one with this number.
    fn of(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            i32::MAX => Self::TimeNamespace,
            _ if arch::COUNTER_MODES.contains(&number) => Self::Counter,
            _ if arch::PVCLOCK_MODE == Some(number) => Self::Pvclock,
            _ if arch::HVCLOCK_MODE == Some(number) => Self::Hvclock,
            _ => return None,
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "none: it makes system calls",
            Self::Counter => "the processor's counter",
            Self::Pvclock => "the page of KVM or Xen",
            Self::Hvclock => "the page of Hyper-V",
            Self::TimeNamespace => "what the page of the time namespace refers to",
        })
    }
}

/// Reads the mode.
///
/// # Errors
/// [`Unknown`] if there are no such pages, or none that can be interpreted.
pub fn read(machine: &Machine) -> Result<Mode, Unknown> {
    if !machine.is_real() {
        return Err(Unknown::because("this is not the machine itself"));
    }
    let maps = machine.text("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with("[vvar]"));
    let start = line.and_then(|line| line.split_once('-'));
    let start = start.and_then(|(start, _)| usize::from_str_radix(start, 16).ok());
    let start = start.ok_or_else(|| Unknown::because("no pages named [vvar] are mapped"))?;
    let page = copy(start).map_err(|error| Unknown::because(format!("[vvar]: {error}")))?;
    understand(&page).ok_or_else(|| Unknown::because("the pages [vvar] are of another layout"))
}

/// Has the kernel copy the beginning of a page, so that an unreadable one is an error instead of a
/// signal.
fn copy(start: usize) -> rustix::io::Result<[u8; LENGTH]> {
    use std::os::fd::AsRawFd;
    let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the kernel reads there, and checks itself whether it can.
    let length = unsafe { libc::write(to.as_raw_fd(), start as *const libc::c_void, LENGTH) };
    let mut page = [0; LENGTH];
    match usize::try_from(length) {
        Ok(LENGTH) => rustix::io::read(&from, &mut page[..]).map(|_| page),
        _ => Err(rustix::io::Errno::FAULT),
    }
}

fn understand(page: &[u8; LENGTH]) -> Option<Mode> {
    OFFSETS.iter().find_map(|at| {
        let word = |at: usize| [page[at], page[at + 1], page[at + 2], page[at + 3]];
        let (sequence, mode) = (u32::from_ne_bytes(word(*at)), i32::from_ne_bytes(word(*at + 4)));
        // It grows with every tick; if it is 0, this is not a clock's data.
        Mode::of(mode).filter(|_| sequence != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(at: usize, sequence: u32, mode: i32) -> [u8; LENGTH] {
        let mut page = [0; LENGTH];
        page[at..at + 4].copy_from_slice(&sequence.to_ne_bytes());
        page[at + 4..at + 8].copy_from_slice(&mode.to_ne_bytes());
        page
    }

    #[test]
    fn both_layouts_are_understood() {
        assert_eq!(understand(&page(0, 0x1abaa, 1)), Some(Mode::Counter));
        assert_eq!(understand(&page(128, 2, 0)), Some(Mode::None));
        assert_eq!(understand(&page(0, 1, i32::MAX)), Some(Mode::TimeNamespace));
        assert_eq!(understand(&page(0, 0, 1)), None);
        assert_eq!(understand(&page(0, 7, 99)), None);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        assert_eq!(copy(8), Err(rustix::io::Errno::FAULT));
        let here = [7_u8; LENGTH];
        assert_eq!(copy(here.as_ptr() as usize), Ok(here));
    }
}
