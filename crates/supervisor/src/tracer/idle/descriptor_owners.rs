//! The holders of pipes, sockets, terminals and shared memory: members of the timeline only, or others
//! as well.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::SHARE;
use super::peers::{Network, Peers, inode_in, socket_link};
use crate::maps::mappings;
use crate::proc;
use crate::proc::processes;

/// How long findings are trusted at most: descriptors are rarely passed on.
const BELIEVED: Duration = Duration::from_millis(100);

/// A file, by its device and number.
type FileId = ((u32, u32), u64);

/// The holders of each object, by the name that `/proc/PID/fd` shows for it; a named pipe, which may
/// have several names, by its number.
#[derive(Debug, Default)]
pub struct DescriptorOwners {
    /// The processes of the timeline.
    members: HashSet<Pid>,
    /// Those that were ever members.
    known: HashSet<Pid>,
    outside: HashMap<String, Pid>,
    inside: HashMap<String, (Pid, i32)>,
    /// Numbers of terminals whose other side is held by members only.
    terminals: HashSet<String>,
    /// Whether a member has an io_uring.
    has_rings: bool,
    /// Whether a member can pass descriptors outside through a socket.
    hands_on: bool,
    /// The local sockets of each network that was queried.
    peers: HashMap<Network, Option<Peers>>,
    fds: Believed,
    /// Files that processes outside have mapped shared.
    mapped: HashMap<FileId, Pid>,
    maps: Believed,
    /// The number of rounds of queries begun.
    round: u64,
}

/// How long findings are trusted.
#[derive(Debug, Default)]
struct Believed {
    until: Option<Instant>,
    /// The round in which they were found.
    round: u64,
}

impl Believed {
    /// Returns the trust in findings of a search that began at `begin`, so that searching takes only a
    /// fraction of the time.
    fn from(begin: Instant, round: u64) -> Self {
        let end = Instant::now();
        Self { until: Some(end + (end.duration_since(begin) * SHARE).min(BELIEVED)), round }
    }

    fn is_fresh(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

impl DescriptorOwners {
    /// Sets the current members.
    pub fn set_members(&mut self, members: HashSet<Pid>) {
        self.known.extend(&members);
        self.members = members;
    }

    /// Begins a round of queries about the state at one moment.
    pub fn begin(&mut self) {
        self.round += 1;
        self.peers.clear();
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = Pid> + use<> {
        self.members.clone().into_iter()
    }

    /// Whether it is a process of the timeline, or was one until it ended.
    pub fn is_member(&self, process: Pid) -> bool {
        let has_ended = || !Path::new(&format!("/proc/{process}")).exists();
        self.members.contains(&process) || (self.known.contains(&process) && has_ended())
    }

    /// A process outside the timeline that holds this, if there is one.
    pub fn outside(&mut self, link: &str) -> Option<Pid> {
        self.look(link);
        self.outside.get(link).copied()
    }

    /// A member that holds this, and its descriptor, if there is one.
    pub fn inside(&mut self, link: &str) -> Option<(Pid, i32)> {
        self.look(link);
        self.inside.get(link).copied()
    }

    /// Whether the other side of a terminal is held by members only.
    pub fn is_terminal_of_members(&mut self, number: &str) -> bool {
        self.look(&format!("/dev/pts/{number}"));
        self.terminals.contains(number)
    }

    /// Whether any member has an io_uring.
    pub fn has_rings(&mut self) -> bool {
        self.look("");
        self.has_rings
    }

    /// The local sockets in the network of a thread, if it can be entered.
    pub fn peers(&mut self, thread: Pid) -> Option<&Peers> {
        let network = Network::of(thread)?;
        self.peers.entry(network).or_insert_with(|| Peers::of(thread)).as_ref()
    }

    /// A process outside that shares the memory of a file, if there is one.
    pub fn outside_with_memory(&mut self, file: FileId) -> Option<Pid> {
        if !self.maps.is_fresh() {
            let begin = Instant::now();
            let mut mapped = HashMap::new();
            for process in processes().filter(|process| !self.is_ours(*process)) {
                let maps = proc::read_whole(process, "maps").unwrap_or_default();
                let shared = mappings(&maps).into_iter().filter(|one| one.access.ends_with('s'));
                mapped.extend(shared.map(|one| ((one.device, one.inode), process)));
            }
            self.mapped = mapped;
            self.maps = Believed::from(begin, self.round);
        }
        self.mapped.get(&file).copied()
    }

    /// Whether it is a member or the supervisor.
    fn is_ours(&self, process: Pid) -> bool {
        process == Pid::this() || self.members.contains(&process)
    }

    /// Scans all processes, unless the holders of this are known already.
    fn look(&mut self, link: &str) {
        let is_known =
            link.is_empty() || self.outside.contains_key(link) || self.inside.contains_key(link);
        let may_have_changed = self.hands_on && self.fds.round != self.round;
        if is_known && self.fds.is_fresh() && !may_have_changed {
            return;
        }
        let begin = Instant::now();
        (self.outside, self.inside) = Default::default();
        self.peers.clear();
        self.has_rings = false;
        let (mut ours, mut theirs) = (HashSet::new(), HashSet::new());
        for process in processes().filter(|process| *process != Pid::this()) {
            let is_member = self.members.contains(&process);
            for (thread, fd) in all_descriptors(process) {
                let Some(target) = proc::descriptor_link(thread, fd) else { continue };
                if target.ends_with("/ptmx") {
                    let index = proc::descriptor_field(thread, fd, "tty-index:");
                    if is_member { &mut ours } else { &mut theirs }.extend(index);
                }
                self.has_rings |= is_member && target == "anon_inode:[io_uring]";
                let Some(name) = name(thread, fd, target) else { continue };
                if is_member {
                    self.inside.insert(name, (thread, fd));
                } else {
                    self.outside.insert(name, process);
                }
            }
        }
        self.terminals = &ours - &theirs;
        self.hands_on = self.has_outside_peer();
        self.fds = Believed::from(begin, self.round);
    }

    /// Whether a member holds a local socket that is connected to a process outside.
    fn has_outside_peer(&mut self) -> bool {
        let sockets: Vec<_> = self
            .inside
            .iter()
            .filter_map(|(name, (thread, _))| Some((*thread, inode_in(name)?)))
            .collect();
        sockets.into_iter().any(|(thread, inode)| {
            let peer = self.peers(thread).and_then(|peers| peers.of_socket(inode));
            // It is not known which process will accept it.
            let is_outside = |peer| peer == 0 || self.outside.contains_key(&socket_link(peer));
            peer.is_some_and(is_outside)
        })
    }
}

/// The name of that descriptor here; none for a file without a name of its own.
fn name(thread: Pid, fd: i32, target: String) -> Option<String> {
    if target == "anon_inode:[eventfd]" {
        return Some(format!("eventfd:{}", proc::descriptor_field(thread, fd, "eventfd-id:")?));
    }
    if target.starts_with("anon_inode:") {
        return None;
    }
    // Terminals have one name, and most other files are irrelevant.
    if target.starts_with('/') && !target.starts_with("/dev/pts/") {
        let file = proc::descriptor_file(thread, fd).ok()?;
        return file.file_type().is_fifo().then(|| named_pipe(&file));
    }
    Some(target)
}

/// The name of a named pipe here, whatever name it was opened by.
pub fn named_pipe(file: &fs::Metadata) -> String {
    format!("fifo:{}:{}", file.dev(), file.ino())
}

/// The descriptors of a process, each with the thread that has it: the first thread no longer has any
/// once it has ended, although others live on.
fn all_descriptors(process: Pid) -> Vec<(Pid, i32)> {
    let of =
        |thread: Pid| proc::descriptors(thread).map(move |fd| (thread, fd)).collect::<Vec<_>>();
    let first = of(process);
    if !first.is_empty() {
        return first;
    }
    let threads = proc::threads_of(process).into_iter().flatten();
    threads.map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use eigentime_harness::eventually;

    use super::*;

    #[test]
    fn a_pipe_of_ones_own_is_held_by_nobody_outside() {
        let (_reads, writes) = std::io::pipe().unwrap();
        let link = proc::descriptor_link("self", writes.as_raw_fd()).unwrap();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("60").stdout(writes).spawn().unwrap();
        let process = Pid::from_raw(child.id() as i32);
        let owners = |members: &[Pid]| {
            let mut owners = DescriptorOwners::default();
            owners.set_members(members.iter().copied().collect());
            owners
        };
        // Until processes started by other tests in the meantime have closed their copies.
        eventually("it is the child's alone", || owners(&[process]).outside(&link).is_none());
        eventually("of no member", || owners(&[]).outside(&link) == Some(process));
        assert_eq!(owners(&[process]).inside(&link), Some((process, 1)));
        assert!(proc::children_of(Pid::this()).contains(&process));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
