//! What may wake a thread that is blocked in a call, besides time.

use std::mem::size_of;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use eigentime_calls::{Call, WokenBy};
use nix::unistd::Pid;

use super::super::blocked::Blocked;
use super::super::tracee::Tracee;
use super::descriptor_owners::{DescriptorOwners, named_pipe};
use super::sockets;
use super::wake_source::WakeSource;
use crate::maps::mappings;
use crate::proc;

/// The maximum number of descriptors of one call that are examined.
const MOST_DESCRIPTORS: usize = 65_536;

/// The depth of nested event polls: as deep as the kernel allows.
const DEEPEST: usize = 5;

/// What may wake a thread that is blocked in this call.
pub fn wake_source(
    thread: Pid,
    process: Pid,
    call: &Blocked,
    owners: &mut DescriptorOwners,
) -> WakeSource {
    let by = Call::find(call.nr).map_or(WokenBy::Unknown, |call| call.woken_by);
    let fd = |argument: u8| call.args[usize::from(argument)] as i32;
    let mut any = Any { thread, process, owners };
    match by {
        // Signals come from a member, or from a process that is not waited for.
        WokenBy::Nothing | WokenBy::Signal | WokenBy::NewChild => WakeSource::Members,
        WokenBy::Descriptor(one) => any.blocks(fd(one)),
        WokenBy::Descriptors(one, other) => any.blocks(fd(one)).or(any.blocks(fd(other))),
        WokenBy::PollList => match poll_list(thread, call) {
            Some(list) => any.of_each(&list),
            None => WakeSource::outside(None, "a list of descriptors that cannot be read"),
        },
        WokenBy::Sets => match select_sets(thread, call) {
            Some(list) => any.of_each(&list),
            None => WakeSource::outside(None, "sets of descriptors that cannot be read"),
        },
        WokenBy::EventPoll => any.in_event_poll(fd(0), 0),
        WokenBy::Futex(flags) => any.futex(call.args[0], call.args[usize::from(flags)]),
        WokenBy::Child => any.child(),
        WokenBy::Listener => any.listener(fd(0), call.args[1], call.args[2]),
        WokenBy::Unknown => WakeSource::outside(None, "what wakes this call is not known"),
    }
}

/// The descriptors of a thread, which may differ from those of its process.
struct Any<'a> {
    thread: Pid,
    process: Pid,
    owners: &'a mut DescriptorOwners,
}

impl Any<'_> {
    fn of_each(&mut self, descriptors: &[i32]) -> WakeSource {
        let each = descriptors.iter().map(|fd| self.behind(*fd, 0));
        each.fold(WakeSource::Members, WakeSource::or)
    }

    /// What may wake a call that is blocked on a descriptor. A call on a file returns, unless a program
    /// or another host provides the files.
    fn blocks(&mut self, fd: i32) -> WakeSource {
        let found = self.behind(fd, 0);
        match proc::descriptor_file(self.thread, fd)
            .is_ok_and(|file| file.is_file() || file.is_dir())
        {
            true => WakeSource::outside(fd, "a file that somebody else keeps").or(found),
            false => found,
        }
    }

    /// What may cause events on a descriptor.
    fn behind(&mut self, fd: i32, depth: usize) -> WakeSource {
        let Some(link) = proc::descriptor_link(self.thread, fd) else {
            return WakeSource::outside(fd, "a descriptor that cannot be looked into");
        };
        if link.starts_with("pipe:") {
            return self.held(fd, &link, "a pipe");
        }
        if link.starts_with("socket:") {
            return sockets::behind((self.thread, self.process), fd, &link, self.owners);
        }
        if let Some(kind) = link.strip_prefix("anon_inode:") {
            return self.behind_nameless(fd, kind.trim_matches(['[', ']']), depth);
        }
        self.behind_path(fd, &link)
    }

    /// An object whose other holders may wake the thread.
    fn held(&mut self, fd: i32, link: &str, what: &str) -> WakeSource {
        match self.owners.outside(link) {
            None => WakeSource::Members,
            Some(owner) => WakeSource::outside(
                fd,
                format!("{what} that {} also holds", proc::described(owner)),
            ),
        }
    }

    fn behind_nameless(&mut self, fd: i32, kind: &str, depth: usize) -> WakeSource {
        match kind {
            "timerfd" | "signalfd" => WakeSource::Members,
            "eventpoll" if depth < DEEPEST => self.in_event_poll(fd, depth + 1),
            "eventfd" if self.owners.has_rings() => WakeSource::outside(
                fd,
                "an eventfd, by which io_uring may tell of what comes from outside",
            ),
            "eventfd" => match self.info(fd, "eventfd-id:") {
                Some(id) => self.held(fd, &format!("eventfd:{id}"), "an eventfd"),
                None => WakeSource::outside(fd, "an eventfd of which this kernel tells no number"),
            },
            "pidfd" => match self.info(fd, "Pid:").and_then(|pid| pid.parse().ok()) {
                Some(pid) if pid <= 0 || self.owners.is_member(Pid::from_raw(pid)) => {
                    WakeSource::Members
                }
                _ => WakeSource::outside(fd, "the end of a process outside"),
            },
            "inotify" | "fanotify" => WakeSource::anybody(fd, "files that are watched"),
            other => {
                WakeSource::outside(fd, format!("{other}, of which it is not known who wakes it"))
            }
        }
    }

    fn behind_path(&mut self, fd: i32, path: &str) -> WakeSource {
        if let Some(number) = path.strip_prefix("/dev/pts/").filter(|name| *name != "ptmx") {
            // The holder of its other side types.
            return match self.owners.is_terminal_of_members(number) {
                true => WakeSource::Members,
                false => WakeSource::outside(fd, "a terminal"),
            };
        }
        let Ok(file) = proc::descriptor_file(self.thread, fd) else {
            return WakeSource::outside(fd, format!("{path}, which cannot be looked into"));
        };
        let kind = file.file_type();
        if kind.is_fifo() {
            return self.held(fd, &named_pipe(&file), "a named pipe");
        }
        if kind.is_char_device() && path == "/dev/ptmx" || path.ends_with("/ptmx") {
            return match self.info(fd, "tty-index:") {
                Some(index) => {
                    self.held(fd, &format!("/dev/pts/{index}"), "the other side of a terminal")
                }
                None => WakeSource::outside(fd, "the other side of a terminal"),
            };
        }
        if kind.is_char_device() && !["/dev/null", "/dev/zero", "/dev/full"].contains(&path) {
            let terminal = path.starts_with("/dev/tty") || path == "/dev/console";
            let what =
                if terminal { "a terminal".to_owned() } else { format!("the device {path}") };
            return WakeSource::outside(fd, what);
        }
        // The contents of files and directories are in memory or on a disk.
        WakeSource::Members
    }

    fn in_event_poll(&mut self, fd: i32, depth: usize) -> WakeSource {
        let Ok(text) = proc::read_whole(self.thread, &format!("fdinfo/{fd}")) else {
            return WakeSource::outside(fd, "an event poll that cannot be looked into");
        };
        let watched = text.lines().filter_map(Watched::parse);
        watched
            .map(|watched| self.watched(&watched, depth))
            .fold(WakeSource::Members, WakeSource::or)
    }

    /// What an event poll watches, through any descriptor that is still open for it.
    fn watched(&mut self, watched: &Watched, depth: usize) -> WakeSource {
        if watched.is(self.thread, watched.fd) {
            return self.behind(watched.fd, depth);
        }
        let elsewhere = self.owners.members().find_map(|process| {
            let fd = proc::descriptors(process).find(|fd| watched.is(process, *fd))?;
            Some((process, fd))
        });
        match elsewhere {
            None => {
                WakeSource::outside(watched.fd, "what is watched, and no member has open any more")
            }
            Some((process, fd)) => {
                Any { thread: process, process, owners: self.owners }.behind(fd, depth)
            }
        }
    }

    /// Children that are not members end by the host's time.
    fn child(&mut self) -> WakeSource {
        let found = proc::children_of(self.process);
        match found.into_iter().find(|child| !self.owners.is_member(*child)) {
            None => WakeSource::Members,
            Some(child) => WakeSource::outside(
                None,
                format!("{} is outside of the timeline", proc::described(child)),
            ),
        }
    }

    /// A listener accepts a connection whenever it likes.
    fn listener(&mut self, fd: i32, address: u64, length: u64) -> WakeSource {
        let mut bytes = [0; size_of::<libc::sockaddr_un>()];
        let length = (length as usize).min(bytes.len());
        let is_read = Tracee(self.thread).read(address, &mut bytes[..length]).is_ok();
        match bytes.first_chunk().map(|family| u16::from_ne_bytes(*family)) {
            Some(family) if is_read && i32::from(family) == libc::AF_UNIX => {
                let name = &bytes[2..length.max(2)];
                sockets::listening(self.thread, fd, name, self.owners)
            }
            _ => self.behind(fd, 0),
        }
    }

    /// A word of memory can be written by whoever has mapped it.
    fn futex(&mut self, at: u64, flags: u64) -> WakeSource {
        if flags as i32 & libc::FUTEX_PRIVATE_FLAG != 0 {
            return WakeSource::Members;
        }
        let maps = proc::read_whole(self.process, "maps").unwrap_or_default();
        let Some(mapping) = mappings(&maps).into_iter().find(|one| one.range.contains(&at)) else {
            return WakeSource::outside(None, "a futex in memory that cannot be looked into");
        };
        if !mapping.access.ends_with('s') {
            return WakeSource::Members;
        }
        match self.owners.outside_with_memory((mapping.device, mapping.inode)) {
            None => WakeSource::Members,
            Some(owner) => {
                let owner = proc::described(owner);
                WakeSource::outside(None, format!("a futex in memory that {owner} has also mapped"))
            }
        }
    }

    /// A line of the kernel's information on a descriptor.
    fn info(&self, fd: i32, name: &str) -> Option<String> {
        proc::descriptor_field(self.thread, fd, name)
    }
}

/// What an event poll watches: the file that the descriptor referred to when it was added.
struct Watched {
    fd: i32,
    inode: u64,
    /// In the kernel's internal numbering.
    device: u64,
}

impl Watched {
    /// Parses a line of `/proc/PID/fdinfo/FD`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let fd = words.next()?.parse().ok()?;
        let mut number = |name| {
            let word = words.by_ref().find_map(|word| word.strip_prefix(name))?;
            u64::from_str_radix(word, 16).ok()
        };
        Some(Self { fd, inode: number("ino:")?, device: number("sdev:")? })
    }

    /// Whether it is this descriptor of a process.
    fn is(&self, process: Pid, fd: i32) -> bool {
        proc::descriptor_file(process, fd).is_ok_and(|file| {
            let device = file.dev();
            let device = libc::major(device) << 20 | libc::minor(device);
            (file.ino(), u64::from(device)) == (self.inode, self.device)
        })
    }
}

/// The descriptors in a list of `struct pollfd`, if it can be read.
fn poll_list(thread: Pid, call: &Blocked) -> Option<Vec<i32>> {
    const SIZE: usize = 8;
    let count = (call.args[1] as usize).min(MOST_DESCRIPTORS);
    let mut bytes = vec![0; SIZE * count];
    Tracee(thread).read(call.args[0], &mut bytes).ok()?;
    let descriptor = |one: &[u8]| i32::from_ne_bytes([one[0], one[1], one[2], one[3]]);
    Some(bytes.chunks_exact(SIZE).map(descriptor).filter(|fd| *fd >= 0).collect())
}

/// The descriptors in the sets of `select`, if they can be read.
fn select_sets(thread: Pid, call: &Blocked) -> Option<Vec<i32>> {
    let count = (call.args[0] as usize).min(MOST_DESCRIPTORS);
    let mut all = Vec::new();
    for set in call.args[1..4].iter().filter(|set| **set != 0) {
        let mut bytes = vec![0; count.div_ceil(64) * 8];
        Tracee(thread).read(*set, &mut bytes).ok()?;
        let is_in = |fd: &usize| bytes[fd / 8] >> (fd % 8) & 1 == 1;
        all.extend((0..count).filter(is_in).map(|fd| fd as i32));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eigentime_calls::Nr;

    #[test]
    fn lists_that_cannot_be_read_are_not_taken_for_empty() {
        let call = |args| Blocked { nr: Nr(0), args, stack: 0, ip: 0 };
        let list = [5_i32, 0, -1, 0];
        let at = list.as_ptr() as u64;
        assert_eq!(poll_list(Pid::this(), &call([at, 2, 0, 0, 0, 0])), Some(vec![5]));
        assert_eq!(poll_list(Pid::this(), &call([8, 2, 0, 0, 0, 0])), None);
        let set = [0b1001_u64];
        let at = set.as_ptr() as u64;
        assert_eq!(select_sets(Pid::this(), &call([64, 0, at, 0, 0, 0])), Some(vec![0, 3]));
        assert_eq!(select_sets(Pid::this(), &call([64, 8, 0, 0, 0, 0])), None);
    }

    #[test]
    fn what_an_event_poll_watches_is_read() {
        let line = "tfd:        5 events:       19 data:  7ffc00000005  pos:0 ino:1f2e sdev:e";
        let watched = Watched::parse(line).unwrap();
        assert_eq!((watched.fd, watched.inode, watched.device), (5, 0x1f2e, 0xe));
        assert!(Watched::parse("flags:  02").is_none());
        let (reads, _writes) = std::io::pipe().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&reads);
        let file = proc::descriptor_file("self", fd).unwrap();
        let watched = Watched { fd, inode: file.ino(), device: libc::minor(file.dev()).into() };
        assert!(watched.is(Pid::this(), fd));
        assert!(!watched.is(Pid::this(), 1));
    }
}
