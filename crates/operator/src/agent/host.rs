//! Starts programs where those of the node are, and not in the agent's pod: the supervisor of a timeline goes on
//! when the agent is replaced.
//!
//! The agent runs itself for it, since a process can enter a mount namespace only while it has a single thread.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use nix::sched::{CloneFlags, setns};

/// The subcommand of the agent's own program that [`become_program`] is called for.
pub const SUBCOMMAND: &str = "on-node";

/// The namespaces of the node that its programs are in, by their files in `/proc/1/ns`; the pod has to have the
/// node's processes (hostPID).
const NAMESPACES: [(&str, CloneFlags); 5] = [
    ("cgroup", CloneFlags::CLONE_NEWCGROUP),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("net", CloneFlags::CLONE_NEWNET),
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

/// The command that runs a program where those of the node are.
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

/// The root of each hierarchy of control groups: the kubelet ends all that is left in a pod's group.
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
