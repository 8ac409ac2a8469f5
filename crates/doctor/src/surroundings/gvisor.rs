//! gVisor: a kernel in user space, with its own clocks and timers.
//!
//! Its reported name can be changed, and is, so it is recognized by its behavior: its log begins
//! with its own name and is readable by everyone, and it lacks some calls that every Linux has.

use std::io;

use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

/// The beginning of its log (pkg/sentry/kernel/syslog.go of gVisor).
const LOG: &str = "Starting gVisor";
/// Reads the whole kernel log (syslog(2)).
const SYSLOG_ACTION_READ_ALL: i32 = 3;
/// The part of the log that is read: its first line.
const LOG_LENGTH: usize = 512;

/// Calls that every Linux since 4.5 has in any configuration, with arguments that do nothing, and
/// that gVisor lacks.
const MISSING: [(libc::c_long, &str); 3] = [
    (libc::SYS_vmsplice, "vmsplice"),
    (libc::SYS_remap_file_pages, "remap_file_pages"),
    (libc::SYS_copy_file_range, "copy_file_range"),
];

/// The evidence.
#[derive(Debug, Default)]
struct Traces {
    /// Whether the log begins as gVisor's does. An error if it may not be read.
    log: Option<Result<bool, Unknown>>,
    /// The calls that are missing.
    missing: Vec<&'static str>,
    /// Whether the version names it.
    names_itself: bool,
}

/// Checks whether this is gVisor.
pub fn gvisor(machine: &Machine, _: &Options) -> Finding {
    let version = machine.line("/proc/version").unwrap_or_default();
    let mut traces = Traces {
        names_itself: version.to_ascii_lowercase().contains("gvisor"),
        ..Traces::default()
    };
    if machine.is_real() {
        traces.log = Some(log());
        traces.missing = missing();
    }
    judge(&traces)
}

fn judge(traces: &Traces) -> Finding {
    let log = matches!(traces.log, Some(Ok(true)));
    // A sandbox's filter may remove one call, but hardly all of these.
    let is_here = log || traces.missing.len() == MISSING.len() || traces.names_itself;
    let mut finding = match is_here {
        true => Finding::note(
            "this is gVisor: clocks, timers and the vDSO are its own, and not the kernel's",
        )
        .advise("measure here, not on the host: the findings on timers are gVisor's", ""),
        false => Finding::ok("this is not gVisor"),
    };
    if let Some(log) = &traces.log {
        finding = finding.line(match log {
            Ok(true) => format!("the kernel's log begins with '{LOG}'"),
            Ok(false) => "the kernel's log does not begin as gVisor's does".into(),
            Err(why) => format!("the kernel's log does not help: {why}"),
        });
    }
    if !traces.missing.is_empty() {
        finding = finding.line(format!("calls that are not there: {}", traces.missing.join(", ")));
    }
    if traces.names_itself {
        finding = finding.line("/proc/version names it");
    }
    finding.fact("gvisor", is_here)
}

/// Whether the kernel's log begins as gVisor's does. Linux shows it to root, or to nobody.
fn log() -> Result<bool, Unknown> {
    let mut text = [0_u8; LOG_LENGTH];
    // SAFETY: the kernel writes at most `length` bytes into the buffer.
    let length = unsafe {
        libc::syscall(libc::SYS_syslog, SYSLOG_ACTION_READ_ALL, text.as_mut_ptr(), text.len())
    };
    match usize::try_from(length) {
        Ok(length) => Ok(String::from_utf8_lossy(&text[..length.min(LOG_LENGTH)]).contains(LOG)),
        Err(_) => Err(Unknown::because(format!("syslog: {}", io::Error::last_os_error()))),
    }
}

fn missing() -> Vec<&'static str> {
    let is_missing = |(number, _): &&(libc::c_long, &str)| {
        // SAFETY: neither descriptors nor lengths nor addresses are valid: the call does nothing,
        // whichever of these it is.
        let result = unsafe { libc::syscall(*number, -1, 0, -1, 0, 0, 0) };
        result == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS)
    };
    MISSING.iter().filter(is_missing).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn it_is_told_by_what_it_does() {
        let all: Vec<_> = MISSING.iter().map(|(_, name)| *name).collect();
        let closed = || Some(Err(Unknown::because("syslog: not permitted")));
        let cases = [
            (Traces::default(), false),
            (Traces { log: Some(Ok(true)), ..Traces::default() }, true),
            (
                Traces { log: Some(Ok(false)), missing: all[..1].to_vec(), names_itself: false },
                false,
            ),
            (Traces { log: closed(), missing: all, names_itself: false }, true),
        ];
        for (traces, expected) in cases {
            assert_eq!(judge(&traces).found.starts_with("this is gVisor"), expected, "{traces:?}");
        }
    }

    #[test]
    fn a_version_that_names_it_is_believed() {
        let tree = Tree::new("gvisor");
        tree.file(
            "proc/version",
            "Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016\n",
        );
        assert!(gvisor(&tree.machine(), &Options::default()).found.starts_with("this is gVisor"));
    }

    #[test]
    fn here_something_answers() {
        // Whatever kernel runs the tests, its log and its calls must not contradict each other.
        if log() == Ok(false) {
            assert!(missing().len() < MISSING.len(), "{:?}", missing());
        }
    }
}
