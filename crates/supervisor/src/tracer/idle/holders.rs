//! Who holds pipes, sockets, terminals and shared memory: members of the timeline, or others, too.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::super::notes;
use crate::maps::mappings;

/// How long what was found is believed: descriptors are handed on seldom.
const BELIEVED: Duration = Duration::from_secs(1);

/// A process that has a file mapped, by the file's number and name.
type Mapped = HashMap<(u64, String), Pid>;

/// Who holds what, by the name that `/proc/PID/fd` has for it.
#[derive(Debug, Default)]
pub struct Holders {
    /// The processes of the timeline.
    members: HashSet<Pid>,
    /// Those that ever were.
    known: HashSet<Pid>,
    outside: HashMap<String, Pid>,
    inside: HashMap<String, (Pid, i32)>,
    /// Numbers of terminals whose other side a member holds, and nobody else.
    terminals: HashSet<u32>,
    looked: Option<Instant>,
    /// Files that processes outside have mapped, to be shared.
    memory: Option<(Instant, Mapped)>,
}

impl Holders {
    /// These are the members now.
    pub fn set_members(&mut self, members: HashSet<Pid>) {
        self.known.extend(&members);
        self.members = members;
    }

    /// Is it a process of the timeline, or was it one until it ended?
    pub fn is_member(&self, process: Pid) -> bool {
        let has_ended = || !Path::new(&format!("/proc/{process}")).exists();
        self.members.contains(&process) || (self.known.contains(&process) && has_ended())
    }

    /// A process outside of the timeline that holds this, if there is one.
    pub fn outside(&mut self, link: &str) -> Option<Pid> {
        self.look(link);
        self.outside.get(link).copied()
    }

    /// A member that holds this, and its descriptor, if there is one.
    pub fn inside(&mut self, link: &str) -> Option<(Pid, i32)> {
        self.look(link);
        self.inside.get(link).copied()
    }

    /// Does a member, and nobody else, hold the other side of a terminal?
    pub fn is_terminal_of_members(&mut self, number: u32) -> bool {
        self.look(&format!("/dev/pts/{number}"));
        self.terminals.contains(&number)
    }

    /// A process outside that shares a file's memory, if there is one.
    pub fn outside_with_memory(&mut self, inode: u64, name: &str) -> Option<Pid> {
        let fresh = |at: &Instant| at.elapsed() < BELIEVED;
        if self.memory.as_ref().is_none_or(|(at, _)| !fresh(at)) {
            let mut found = Mapped::new();
            for process in processes().filter(|process| !self.is_ours(*process)) {
                let maps = notes::read_whole(process, "maps").unwrap_or_default();
                for mapping in mappings(&maps).into_iter().filter(|one| one.access.ends_with('s')) {
                    found.insert((mapping.inode, mapping.name), process);
                }
            }
            self.memory = Some((Instant::now(), found));
        }
        let (_, found) = self.memory.as_ref()?;
        found.get(&(inode, name.to_owned())).copied()
    }

    /// Is it a member, or the supervisor?
    fn is_ours(&self, process: Pid) -> bool {
        process == Pid::this() || self.members.contains(&process)
    }

    /// Looks at all processes, unless it is known already who holds this.
    fn look(&mut self, link: &str) {
        let is_fresh = self.looked.is_some_and(|at| at.elapsed() < BELIEVED);
        let is_known = self.outside.contains_key(link) || self.inside.contains_key(link);
        if is_fresh && is_known {
            return;
        }
        (self.outside, self.inside) = Default::default();
        let (mut ours, mut theirs) = (HashSet::new(), HashSet::new());
        for process in processes().filter(|process| *process != Pid::this()) {
            let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { continue };
            for entry in descriptors.flatten() {
                let Ok(target) = fs::read_link(entry.path()) else { continue };
                let Ok(number) = entry.file_name().to_string_lossy().parse() else { continue };
                let target = target.to_string_lossy().into_owned();
                let is_member = self.members.contains(&process);
                if target.ends_with("/ptmx")
                    && let Some(index) = info(process, number, "tty-index:")
                {
                    if is_member { &mut ours } else { &mut theirs }.insert(index as u32);
                }
                let name = match target.as_str() {
                    "anon_inode:[eventfd]" => match info(process, number, "eventfd-id:") {
                        Some(id) => format!("eventfd:{id}"),
                        None => continue,
                    },
                    nameless if nameless.starts_with("anon_inode:") => continue,
                    _ => target,
                };
                if is_member {
                    self.inside.insert(name, (process, number));
                } else {
                    self.outside.insert(name, process);
                }
            }
        }
        self.terminals = &ours - &theirs;
        self.looked = Some(Instant::now());
    }
}

/// A number that the kernel tells of a descriptor.
fn info(process: Pid, descriptor: i32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// All processes that can be seen.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_pipe_of_ones_own_is_held_by_nobody_outside() {
        let (_reads, writes) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writes.as_raw_fd());
        let link = fs::read_link(path).unwrap().to_string_lossy().into_owned();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("60").stdout(writes).spawn().unwrap();
        let process = Pid::from_raw(child.id() as i32);
        let mut holders = Holders::default();
        assert_eq!(holders.outside(&link), Some(process));
        let mut holders = Holders::default();
        holders.set_members([process].into());
        assert_eq!(holders.outside(&link), None);
        assert_eq!(holders.inside(&link), Some((process, 1)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
