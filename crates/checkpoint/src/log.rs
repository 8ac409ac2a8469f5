//! Information from CRIU's log.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use eigentime_supervisor::Moments;
use eigentime_timeline::{HostInstant, Nanos};

/// Reads a log. The names of files in it need not be in UTF-8.
pub fn text(log: &Path) -> io::Result<String> {
    fs::read(log).map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// The times of the steps in the log of a dump, if CRIU read the clock at `looked`: no line reports
/// that, but one comes just before it.
pub fn moments(log: &str, looked: HostInstant) -> Option<Moments> {
    let (_, end) = log.rsplit_once("Dumping pstree ")?;
    let just_before = match end.lines().rfind(|line| line.contains("Dump TIME namespace ")) {
        Some(line) => when(line)?,
        // Control groups come next.
        None => end.lines().take_while(|line| !line.contains(") cg: ")).filter_map(when).last()?,
    };
    let nanos = |span: Duration| Nanos(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX));
    let at = |line: &str| Some(looked.after(nanos(when(line)?).minus(nanos(just_before))));
    let read = log.lines().filter_map(|line| {
        // The timers of a process are the last thing read before that.
        let (_, process) = line.split_once("Dumping core (pid: ")?;
        Some((process.strip_suffix(')')?.parse().ok()?, at(line)?))
    });
    let halted = log.lines().filter_map(|line| {
        let (_, process) = line.split_once(SEIZED)?;
        process.strip_suffix(", state 3")?.parse().ok()
    });
    // It logs that before it waits for the last of them, which runs until then.
    let begins = [SEIZED, SEIZING].into_iter().filter_map(|text| log.rfind(text)).max()?;
    let stopped = log[begins..].lines().skip(1).find_map(at)?;
    Some(Moments { stopped, read: read.collect(), halted: halted.collect() })
}

/// How long the first process that CRIU stopped was stopped, if CRIU resumed all of them.
pub fn stood_for(log: &str) -> Option<Duration> {
    let first = log.lines().find(|line| line.contains(SEIZED));
    let last = log.lines().rfind(|line| line.contains("Unfreezing tasks"));
    when(last?)?.checked_sub(when(first?)?)
}

/// A process, or another thread of one, is about to stop.
const SEIZED: &str = "Seized task ";
const SEIZING: &str = "Seizing ";

/// The time of a log line.
fn when(line: &str) -> Option<Duration> {
    let (seconds, _) = line.strip_prefix('(')?.split_once(')')?;
    seconds.parse().ok().map(Duration::from_secs_f64)
}

/// The relevant error in a log: that the kernel lacks something without which CRIU does nothing, or
/// else the first.
pub fn reason(log: &str) -> Option<String> {
    // CRIU continues without these.
    const HARMLESS: [&str; 8] = [
        "rlimit: Can't setup",
        "Can't keep kdat cache",
        "sockets: Diag module missing",
        "tun: Unable to create tun",
        "-95 reported by netlink",
        "net: Unable to create a veth pair",
        "Can't wait or bad status",
        "page-xfer: No parent image found",
    ];
    const UNUSABLE: &str = "failed when initializing kerndat";
    let errors = log.lines().filter_map(|line| {
        let (_, error) = line.split_once("Error (")?;
        let (_, text) = error.split_once("): ")?;
        let text = text.strip_prefix("kerndat: ").unwrap_or(text).trim();
        (!HARMLESS.iter().any(|harmless| text.starts_with(harmless))).then_some(text)
    });
    let unusable = errors.clone().find(|text| text.contains(UNUSABLE));
    unusable.or(errors.clone().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn the_log_tells_for_how_long_processes_were_stopped() {
        let log = "(00.090497) Seized task 501, state 1\n(00.090597) Seized task 502, state 1\n\
                   (01.134229) Running post-dump scripts\n(01.140497) Unfreezing tasks into 1\n";
        assert_eq!(stood_for(log), Some(Duration::from_millis(1_050)));
    }

    #[test]
    fn the_log_tells_when_processes_were_stopped_and_read() {
        let at = HostInstant::from_nanos;
        let log = "(00.090000) Seized task 501, state 1\n(00.100000) \tSeizing 501's 503 thread\n\
                   (00.150000) Seized task 502, state 3\n(00.160000) \tSeizing 502's 504 thread\n\
                   pie: 501: Daemon\n(00.200000) seccomp: Collected tid_real 504 mode 0\n\
                   (00.300000) Dumping core (pid: 501)\n(00.400000) Dumping core (pid: 502)\n\
                   (00.500000) Dumping pstree (pid: 501)\n";
        let expected = Moments {
            stopped: at(9_600_000_000),
            read: HashMap::from([(501, at(9_700_000_000)), (502, at(9_800_000_000))]),
            halted: HashSet::from([502]),
        };
        for end in [
            "(00.600000) -----\npie: 501: Daemon\n(00.700000) cg: All tasks in criu's cgroups.\n",
            "(00.600000) Dump TIME namespace 9 via 501\n(00.700000) Namespaces dump complete\n\
             (00.800000) cg: All tasks in criu's cgroups.\n",
        ] {
            let log = format!("{log}{end}(00.900000) Running post-dump scripts\n");
            assert_eq!(moments(&log, at(10_000_000_000)), Some(expected.clone()));
        }
        assert_eq!(moments(log, at(0)), None);
        assert_eq!(moments("(00.100000) Seized task 501, state 1\n", at(0)), None);
    }

    #[test]
    fn the_first_error_that_matters_is_the_reason() {
        let log = "(00.04) Error (criu/util.c:1533): rlimit: Can't setup RLIMIT_NOFILE for self: no\n\
                   (00.05)   1941: Error (criu/files-reg.c:2175): File a has bad size 2 (expect 1)\n\
                   (00.06) Error (criu/cr-restore.c:2320): Restoring FAILED.\n";
        assert_eq!(reason(log).as_deref(), Some("File a has bad size 2 (expect 1)"));
        assert_eq!(reason("(00.01) Dumping finished successfully\n"), None);
        let after_pre_dumps = "Error (criu/page-xfer.c:889): page-xfer: No parent image found, though parent is set\n\
             Error (criu/sk-unix.c:877): unix: Can't dump half of stream unix connection.\n";
        let expected = "unix: Can't dump half of stream unix connection.";
        assert_eq!(reason(after_pre_dumps).as_deref(), Some(expected));
        let lacking = "Error (criu/tun.c:85): tun: Unable to create tun: No such file or directory\n\
                       Error (criu/kerndat.c:727): Unable to connect a socket: Network is unreachable\n\
                       Error (criu/kerndat.c:1877): kerndat_tcp_repair failed when initializing kerndat.\n\
                       Error (criu/crtools.c:267): Could not initialize kernel features detection.\n";
        let expected = "kerndat_tcp_repair failed when initializing kerndat.";
        assert_eq!(reason(lacking).as_deref(), Some(expected));
    }
}
