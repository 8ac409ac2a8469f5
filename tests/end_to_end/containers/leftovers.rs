//! Leftovers of engines that have ended: processes and mounts in the folders of this run only.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::command::run;
use crate::processes::{Watch, status_field};
use crate::suite::Broken;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(30);

/// Kills and unmounts them.
pub fn remove() -> Result<(), Broken> {
    // Each is checked again once its process ID can no longer be reused.
    let watched = processes().into_iter().filter_map(|pid| Some((pid, Watch::new(pid).ok()?)));
    for (_, watch) in watched.filter(|(pid, _)| is_left(*pid)).collect::<Vec<_>>() {
        // It may end by itself at this moment.
        if watch.kill().is_ok() {
            watch.ends_within(LIMIT)?;
        }
    }
    for point in mount_points()? {
        run(Command::new("umount").arg(&point), LIMIT)?.expect_code(0)?;
    }
    Ok(())
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| is_left(*pid)).collect()
}

/// Whether another process names one of this run's folders in its command line or its environment.
fn is_left(pid: u32) -> bool {
    let mark = format!("{}/", workspace::scratch_root().display());
    let names = |file: &str| {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    let lives = || status_field(pid, "State").is_some_and(|state| !state.starts_with('Z'));
    pid != std::process::id() && (names("cmdline") || names("environ")) && lives()
}

/// The mount points, innermost first.
fn mount_points() -> Result<Vec<String>, Broken> {
    let root = workspace::scratch_root();
    let text = fs::read_to_string("/proc/self/mountinfo")?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<String> = points
        .filter(|point| point.starts_with(&*root.to_string_lossy()))
        .map(Into::into)
        .collect();
    points.reverse();
    Ok(points)
}
