//! POSIX timers, as listed in `/proc/PID/timers`.

use std::thread;
use std::time::{Duration, Instant};

use eigentime_timeline::ClockId;
use nix::errno::Errno;
use nix::unistd::Pid;

use super::super::tracee::Tracee;
use super::super::wait_restart::is_pending;
use crate::proc;

/// How long a thread that was asked to stop may take before its signals are inspected.
const STOPPING: Duration = Duration::from_millis(10);

/// A POSIX timer, as listed in `/proc/PID/timers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PosixTimer {
    pub id: i32,
    pub clock: ClockId,
    signal: i32,
    /// The thread that receives the signal; none if any thread of the process may.
    thread: Option<Pid>,
}

impl PosixTimer {
    /// Whether its signal is queued. All threads of the process have been asked to stop, and `visitor`
    /// has stopped.
    pub fn is_queued(&self, visitor: Tracee) -> bool {
        let taker = self.thread.map_or(visitor, Tracee);
        let deadline = Instant::now() + STOPPING;
        loop {
            match taker.has_queued_timer(self.id) {
                Err(Errno::ESRCH)
                    if is_pending(taker, self.signal) && Instant::now() < deadline =>
                {
                    thread::yield_now();
                }
                queued => return queued.unwrap_or(false),
            }
        }
    }
}

/// The POSIX timers of a process.
pub fn posix_timers(process: Pid) -> Vec<PosixTimer> {
    let text = proc::read_whole(process, "timers").unwrap_or_default();
    parse_timers(&text)
}

/// Whether a process has POSIX timers.
pub fn has_posix_timers(process: Pid) -> bool {
    !posix_timers(process).is_empty()
}

/// The clock of a POSIX timer, `None` inside if there is no such timer; `None` if the process is
/// inaccessible to the user.
pub fn timer_clock(process: Pid, timer: i32) -> Option<Option<ClockId>> {
    let text = proc::read_whole(process, "timers").ok()?;
    let timers = parse_timers(&text);
    Some(timers.into_iter().find(|found| found.id == timer).map(|found| found.clock))
}

fn parse_timers(text: &str) -> Vec<PosixTimer> {
    let lines: Vec<_> = text.lines().collect();
    lines.chunk_by(|_, next| !next.starts_with("ID:")).filter_map(parse_timer).collect()
}

fn parse_timer(lines: &[&str]) -> Option<PosixTimer> {
    let field = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (signal, _) = field("signal:")?.split_once('/')?;
    let thread = field("notify:")?.split_once("/tid.").map(|(_, thread)| thread.parse());
    Some(PosixTimer {
        id: field("ID:")?.parse().ok()?,
        clock: ClockId(field("ClockID:")?.parse().ok()?),
        signal: signal.parse().ok()?,
        thread: thread.transpose().ok()?.map(Pid::from_raw),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_clocks_of_timers() {
        let text = "ID: 1\nsignal: 14/0\nnotify: signal/pid.9\nClockID: 0\n\
                    ID: 12\nsignal: 14/0\nnotify: signal/tid.9\nClockID: -6\n";
        let timer = |id, clock| PosixTimer { id, clock: ClockId(clock), signal: 14, thread: None };
        let of_thread = PosixTimer { thread: Some(Pid::from_raw(9)), ..timer(12, -6) };
        assert_eq!(parse_timers(text), [timer(1, 0), of_thread]);
        assert_eq!(parse_timers(""), []);
    }
}
