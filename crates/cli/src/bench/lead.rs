//! `eigentime bench lead`: a command that leads to a level; nothing of it outlasts the study.
//!
//! Such a command may be a script that starts others and does not become one of them. They stay in
//! the terminal's foreground group, so that `ssh` may ask for a password; therefore no group can be
//! signalled. Instead this process adopts every orphan below it, and ends all of them when the
//! command ends, when it is told to, or when the study ends, for whatever reason. Daemons in a
//! session of their own stay: the master of `ssh`'s connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid, getsid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::args::LeadOptions;

/// How long processes may take to end when asked, before they are killed; the study allows four
/// seconds.
const GRACE: Duration = Duration::from_millis(1500);

/// How long killed processes may take to end.
const FORCED: Duration = Duration::from_secs(1);

/// How often to check whether all have ended.
const GLANCE: Duration = Duration::from_millis(10);

/// Runs the command, and returns its exit status.
pub fn run(options: &LeadOptions) -> i32 {
    lead(options).unwrap_or_else(|cause| {
        eprintln!("eigentime: {}: {cause}", options.command[0].display());
        127
    })
}

fn lead(options: &LeadOptions) -> io::Result<i32> {
    let mut signals = Signals::new([SIGCHLD, SIGTERM, SIGHUP, SIGINT])?;
    prctl::set_child_subreaper(true)?;
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    // The study may have ended before that took effect.
    if getppid().as_raw().cast_unsigned() != options.study {
        return Ok(128 + SIGTERM);
    }
    let child = Command::new(&options.command[0]).args(&options.command[1..]).spawn()?;
    for signal in signals.forever() {
        match signal {
            SIGCHLD => {
                if let Some(status) = reap(&child)? {
                    end();
                    return Ok(status);
                }
            }
            // The terminal has sent it to the command as well, which decides what it means.
            SIGINT => {}
            signal => {
                end();
                return Ok(128 + signal);
            }
        }
    }
    Ok(0)
}

/// Reaps all processes that have ended, and returns the command's status if it is among them.
fn reap(child: &Child) -> io::Result<Option<i32>> {
    let own = Pid::from_raw(child.id().cast_signed());
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) if pid == own => return Ok(Some(status)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == own => {
                let status = ExitStatus::from_raw(signal as i32);
                eprintln!("eigentime: it was ended by {status}");
                return Ok(Some(128 + signal as i32));
            }
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::ECHILD) => return Ok(None),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Ends all processes below this one: first by asking, then by force.
fn end() {
    let begun = Instant::now();
    let mut asked = BTreeSet::new();
    loop {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        let below = below(std::process::id().cast_signed());
        let took = begun.elapsed();
        if below.is_empty() || took > GRACE + FORCED {
            return;
        }
        for process in below {
            let signal = match took > GRACE {
                true => Signal::SIGKILL,
                false if asked.insert(process) => Signal::SIGTERM,
                false => continue,
            };
            // It may have ended meanwhile, or belong to another user.
            let _ = kill(Pid::from_raw(process), signal);
        }
        thread::sleep(GLANCE);
    }
}

/// The processes below one that are in its session and have not ended.
fn below(root: i32) -> Vec<i32> {
    let session = getsid(Some(Pid::from_raw(root))).map_or(0, Pid::as_raw);
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some((parent, of, has_ended)) = parsed(&stat) {
            children.entry(parent).or_default().push((process, of == session && !has_ended));
        }
    }
    let (mut all, mut next) = (Vec::new(), vec![root]);
    while let Some(parent) = next.pop() {
        for (process, counts) in children.remove(&parent).unwrap_or_default() {
            next.push(process);
            if counts {
                all.push(process);
            }
        }
    }
    all
}

/// Parses the parent, the session, and whether it has ended, from `/proc/PID/stat`
/// (proc_pid_stat(5)).
fn parsed(stat: &str) -> Option<(i32, i32, bool)> {
    // A name may contain anything, including brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    let session = words.nth(1)?.parse().ok()?;
    Some((parent, session, ["Z", "X"].contains(&state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_behind_the_name() {
        assert_eq!(parsed("7 (a) Z (b)) S 3 7 5 0"), Some((3, 5, false)));
        assert_eq!(parsed("7 (x) Z 3 7 5 0"), Some((3, 5, true)));
        assert_eq!(parsed("7"), None);
    }

    #[test]
    fn what_is_below_is_found() {
        let mut child = Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let own = child.id().cast_signed();
        let until = Instant::now() + Duration::from_secs(60);
        let found = loop {
            let found = below(own);
            if !found.is_empty() || Instant::now() > until {
                break found;
            }
            thread::sleep(GLANCE);
        };
        assert_eq!(found.len(), 1);
        assert!(below(std::process::id().cast_signed()).contains(&own));
        kill(Pid::from_raw(found[0]), Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}
