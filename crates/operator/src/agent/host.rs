//! Starts programs in the node's namespaces instead of the agent's pod: the supervisor of a
//! timeline survives the replacement of the agent.
//!
//! The agent runs itself for this, since a process can enter a mount namespace only while it is
//! single-threaded.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use nix::sched::{CloneFlags, setns};

/// The subcommand of the agent's own program for which [`become_program`] is called.
pub const SUBCOMMAND: &str = "on-node";

/// The namespaces of the node's programs, by their files in `/proc/1/ns`; the pod needs the node's
/// PID namespace (hostPID).
const NAMESPACES: [(&str, CloneFlags); 5] = [
    ("cgroup", CloneFlags::CLONE_NEWCGROUP),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("net", CloneFlags::CLONE_NEWNET),
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

/// The command that runs a program in the node's namespaces.
///
/// # Errors
///
/// If this program cannot be found.
pub fn command(program: PathBuf) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([SUBCOMMAND, "--"]).arg(program);
    Ok(command)
}

/// Turns this process into a program of the node. Returns only if that failed.
pub fn become_program(command: &[String]) -> anyhow::Error {
    match enter() {
        Err(error) => error,
        Ok(()) => {
            let error = Command::new(&command[0]).args(&command[1..]).exec();
            anyhow::Error::new(error).context(command[0].clone())
        }
    }
}

fn enter() -> anyhow::Result<()> {
    let open = |(name, kind): (&str, CloneFlags)| {
        let path = format!("/proc/1/ns/{name}");
        File::open(&path).map(|file| (file, kind, path.clone())).context(path)
    };
    // The files of the last cannot be seen from the first ones.
    let all = NAMESPACES.into_iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    for (file, kind, path) in all {
        setns(file, kind).with_context(|| format!("cannot enter {path}"))?;
    }
    for procs in root_groups()? {
        // "0" is the writing process (cgroups(7)).
        fs::write(&procs, "0").with_context(|| procs.display().to_string())?;
    }
    Ok(())
}

/// The root of each cgroup hierarchy: the kubelet kills everything left in a pod's group.
fn root_groups() -> anyhow::Result<Vec<PathBuf>> {
    let root = PathBuf::from("/sys/fs/cgroup");
    let unified = root.join("cgroup.procs");
    if unified.exists() {
        return Ok(vec![unified]);
    }
    let mut groups = Vec::new();
    for entry in fs::read_dir(&root).with_context(|| root.display().to_string())? {
        let procs = entry?.path().join("cgroup.procs");
        if procs.exists() {
            groups.push(procs);
        }
    }
    Ok(groups)
}
