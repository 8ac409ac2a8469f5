//! What may wake a thread that is blocked in a call, besides time.

use std::fs;

use nix::unistd::Pid;

use super::super::blocked::Blocked;
use super::super::notes;
use super::super::tracee::Tracee;
use super::holders::Holders;
use super::sockets;
use crate::maps::mappings;

/// What may wake a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// Members of the timeline only.
    Members,
    /// Anybody may call, but nobody is expected to.
    Anybody(Cause),
    /// Somebody outside of the timeline is expected to.
    Outside(Cause),
    /// A member has: it is on its way.
    OnItsWay(Cause),
}

/// What somebody outside may do it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The descriptor, if it is one.
    pub descriptor: Option<i32>,
    /// What it is.
    pub what: String,
}

impl Wakes {
    fn rank(&self) -> u8 {
        match self {
            Self::Members => 0,
            Self::Anybody(_) => 1,
            Self::Outside(_) => 2,
            Self::OnItsWay(_) => 3,
        }
    }

    /// Either of both.
    fn or(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    pub fn outside(descriptor: impl Into<Option<i32>>, what: impl Into<String>) -> Self {
        Self::Outside(Cause { descriptor: descriptor.into(), what: what.into() })
    }

    pub fn anybody(descriptor: i32, what: impl Into<String>) -> Self {
        Self::Anybody(Cause { descriptor: Some(descriptor), what: what.into() })
    }

    pub fn on_its_way(descriptor: i32, what: impl Into<String>) -> Self {
        Self::OnItsWay(Cause { descriptor: Some(descriptor), what: what.into() })
    }
}

/// By what a call is woken.
#[derive(Clone, Copy, Debug)]
enum By {
    /// Time, children, signals: whoever sends these is a member, or somebody who is not waited for.
    Members,
    /// What is behind the descriptor in an argument.
    Descriptor(usize),
    /// What is behind the descriptors in two arguments.
    Descriptors(usize, usize),
    /// The list of `struct pollfd` in argument 0, as long as argument 1 says.
    List,
    /// The sets of descriptors in arguments 1 to 3, as many as argument 0 says.
    Sets,
    /// The event poll in argument 0.
    EventPoll,
    /// A word of memory, in argument 0.
    Futex,
}

/// Calls that block, by number; of others it is not known what wakes them.
const CALLS: [(u32, By); 43] = [
    (0, By::Descriptor(0)),       // read
    (1, By::Descriptor(0)),       // write
    (7, By::List),                // poll
    (16, By::Descriptor(0)),      // ioctl
    (17, By::Descriptor(0)),      // pread64
    (18, By::Descriptor(0)),      // pwrite64
    (19, By::Descriptor(0)),      // readv
    (20, By::Descriptor(0)),      // writev
    (23, By::Sets),               // select
    (34, By::Members),            // pause
    (35, By::Members),            // nanosleep
    (40, By::Descriptors(0, 1)),  // sendfile
    (42, By::Descriptor(0)),      // connect
    (43, By::Descriptor(0)),      // accept
    (44, By::Descriptor(0)),      // sendto
    (45, By::Descriptor(0)),      // recvfrom
    (46, By::Descriptor(0)),      // sendmsg
    (47, By::Descriptor(0)),      // recvmsg
    (56, By::Members),            // clone
    (58, By::Members),            // vfork
    (61, By::Members),            // wait4
    (128, By::Members),           // rt_sigtimedwait
    (130, By::Members),           // rt_sigsuspend
    (202, By::Futex),             // futex
    (230, By::Members),           // clock_nanosleep
    (232, By::EventPoll),         // epoll_wait
    (247, By::Members),           // waitid
    (270, By::Sets),              // pselect6
    (271, By::List),              // ppoll
    (275, By::Descriptors(0, 2)), // splice
    (276, By::Descriptors(0, 1)), // tee
    (278, By::Descriptor(0)),     // vmsplice
    (281, By::EventPoll),         // epoll_pwait
    (288, By::Descriptor(0)),     // accept4
    (295, By::Descriptor(0)),     // preadv
    (296, By::Descriptor(0)),     // pwritev
    (299, By::Descriptor(0)),     // recvmmsg
    (307, By::Descriptor(0)),     // sendmmsg
    (326, By::Descriptors(0, 2)), // copy_file_range
    (327, By::Descriptor(0)),     // preadv2
    (328, By::Descriptor(0)),     // pwritev2
    (435, By::Members),           // clone3
    (441, By::EventPoll),         // epoll_pwait2
];

/// How many descriptors of one call are looked at.
const MOST_DESCRIPTORS: usize = 65_536;

/// Event polls in event polls: as deep as the kernel allows.
const DEEPEST: usize = 5;

/// What may wake a thread that is blocked in this call.
pub fn of(thread: Pid, process: Pid, call: &Blocked, holders: &mut Holders) -> Wakes {
    let by = CALLS.iter().find(|(nr, _)| *nr == call.nr).map(|(_, by)| *by);
    let fd = |argument: usize| call.args[argument] as i32;
    let mut any = Any { process, holders };
    match by {
        Some(By::Members) => Wakes::Members,
        Some(By::Descriptor(one)) => any.blocks(fd(one)),
        Some(By::Descriptors(one, other)) => any.blocks(fd(one)).or(any.blocks(fd(other))),
        Some(By::List) => any.of_each(&poll_list(thread, call)),
        Some(By::Sets) => any.of_each(&select_sets(thread, call)),
        Some(By::EventPoll) => any.in_event_poll(fd(0), 0),
        Some(By::Futex) => any.futex(call),
        None => Wakes::outside(None, "what wakes this call is not known"),
    }
}

/// Looks behind descriptors of a process.
struct Any<'a> {
    process: Pid,
    holders: &'a mut Holders,
}

impl Any<'_> {
    fn of_each(&mut self, descriptors: &[i32]) -> Wakes {
        let each = descriptors.iter().map(|fd| self.behind(*fd, 0));
        each.fold(Wakes::Members, Wakes::or)
    }

    /// What may happen behind a descriptor whose call does not return. That of a file does, unless
    /// a program or another host keeps the files.
    fn blocks(&mut self, fd: i32) -> Wakes {
        let found = self.behind(fd, 0);
        let file = fs::metadata(format!("/proc/{}/fd/{fd}", self.process));
        match file.is_ok_and(|file| file.is_file() || file.is_dir()) {
            true => Wakes::outside(fd, "a file that somebody else keeps").or(found),
            false => found,
        }
    }

    /// What may happen behind a descriptor.
    fn behind(&mut self, fd: i32, depth: usize) -> Wakes {
        let process = self.process;
        let Ok(link) = fs::read_link(format!("/proc/{process}/fd/{fd}")) else {
            return Wakes::outside(fd, "a descriptor that cannot be looked into");
        };
        let link = link.to_string_lossy().into_owned();
        if link.starts_with("pipe:") {
            return self.held(fd, &link, "a pipe");
        }
        if link.starts_with("socket:") {
            return sockets::behind(process, fd, &link, self.holders);
        }
        if let Some(kind) = link.strip_prefix("anon_inode:") {
            return self.behind_nameless(fd, kind.trim_matches(['[', ']']), depth);
        }
        self.behind_path(fd, &link)
    }

    /// What is woken by whoever holds it, too.
    fn held(&mut self, fd: i32, link: &str, what: &str) -> Wakes {
        match self.holders.outside(link) {
            None => Wakes::Members,
            Some(holder) => {
                let name = notes::program_of(holder);
                Wakes::outside(fd, format!("{what} that process {holder} ({name}) holds, too"))
            }
        }
    }

    fn behind_nameless(&mut self, fd: i32, kind: &str, depth: usize) -> Wakes {
        match kind {
            "timerfd" | "signalfd" => Wakes::Members,
            "eventpoll" if depth < DEEPEST => self.in_event_poll(fd, depth + 1),
            "eventfd" => match self.info(fd, "eventfd-id:") {
                Some(id) => self.held(fd, &format!("eventfd:{id}"), "an eventfd"),
                None => Wakes::outside(fd, "an eventfd of which this kernel tells no number"),
            },
            "pidfd" => match self.info(fd, "Pid:").and_then(|pid| pid.parse().ok()) {
                Some(pid) if pid <= 0 || self.holders.is_member(Pid::from_raw(pid)) => {
                    Wakes::Members
                }
                _ => Wakes::outside(fd, "the end of a process outside"),
            },
            "inotify" | "fanotify" => Wakes::anybody(fd, "files that are watched"),
            other => Wakes::outside(fd, format!("{other}, of which it is not known who wakes it")),
        }
    }

    fn behind_path(&mut self, fd: i32, path: &str) -> Wakes {
        use std::os::unix::fs::FileTypeExt;
        if let Some(number) = path.strip_prefix("/dev/pts/")
            && let Ok(number) = number.parse::<u32>()
        {
            // Whoever holds the other side of it types.
            return match self.holders.is_terminal_of_members(number) {
                true => Wakes::Members,
                false => Wakes::outside(fd, "a terminal"),
            };
        }
        let Ok(file) = fs::metadata(format!("/proc/{}/fd/{fd}", self.process)) else {
            return Wakes::outside(fd, format!("{path}, which cannot be looked into"));
        };
        let kind = file.file_type();
        if kind.is_fifo() {
            return self.held(fd, path, "a named pipe");
        }
        if kind.is_char_device() && path == "/dev/ptmx" || path.ends_with("/ptmx") {
            return match self.info(fd, "tty-index:").and_then(|index| index.parse::<u32>().ok()) {
                Some(index) => {
                    self.held(fd, &format!("/dev/pts/{index}"), "the other side of a terminal")
                }
                None => Wakes::outside(fd, "the other side of a terminal"),
            };
        }
        if kind.is_char_device() && !["/dev/null", "/dev/zero", "/dev/full"].contains(&path) {
            let terminal = path.starts_with("/dev/tty") || path == "/dev/console";
            let what =
                if terminal { "a terminal".to_owned() } else { format!("the device {path}") };
            return Wakes::outside(fd, what);
        }
        // What is read from files and folders is there, or on a disk.
        Wakes::Members
    }

    fn in_event_poll(&mut self, fd: i32, depth: usize) -> Wakes {
        let path = format!("/proc/{}/fdinfo/{fd}", self.process);
        let Ok(text) = fs::read_to_string(path) else {
            return Wakes::outside(fd, "an event poll that cannot be looked into");
        };
        let targets = text.lines().filter_map(|line| {
            line.strip_prefix("tfd:")?.split_whitespace().next()?.parse::<i32>().ok()
        });
        targets.map(|target| self.behind(target, depth)).fold(Wakes::Members, Wakes::or)
    }

    /// A word of memory is written by whoever has that memory.
    fn futex(&mut self, call: &Blocked) -> Wakes {
        let [at, operation, ..] = call.args;
        if operation as i32 & libc::FUTEX_PRIVATE_FLAG != 0 {
            return Wakes::Members;
        }
        let maps = notes::read_whole(self.process, "maps").unwrap_or_default();
        let Some(mapping) = mappings(&maps).into_iter().find(|one| one.range.contains(&at)) else {
            return Wakes::outside(None, "a futex in memory that cannot be looked into");
        };
        if !mapping.access.ends_with('s') {
            return Wakes::Members;
        }
        match self.holders.outside_with_memory(mapping.inode, &mapping.name) {
            None => Wakes::Members,
            Some(holder) => {
                let name = notes::program_of(holder);
                let what =
                    format!("a futex in memory that process {holder} ({name}) has mapped, too");
                Wakes::outside(None, what)
            }
        }
    }

    /// A line of what the kernel tells of a descriptor.
    fn info(&self, fd: i32, name: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", self.process)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().to_owned())
    }
}

/// The descriptors in a list of `struct pollfd`.
fn poll_list(thread: Pid, call: &Blocked) -> Vec<i32> {
    const SIZE: usize = 8;
    let count = (call.args[1] as usize).min(MOST_DESCRIPTORS);
    let mut bytes = vec![0; SIZE * count];
    if Tracee(thread).read(call.args[0], &mut bytes).is_err() {
        return Vec::new();
    }
    let descriptor = |one: &[u8]| i32::from_ne_bytes([one[0], one[1], one[2], one[3]]);
    bytes.chunks_exact(SIZE).map(descriptor).filter(|fd| *fd >= 0).collect()
}

/// The descriptors in the sets of `select`.
fn select_sets(thread: Pid, call: &Blocked) -> Vec<i32> {
    let count = (call.args[0] as usize).min(MOST_DESCRIPTORS);
    let mut all = Vec::new();
    for set in call.args[1..4].iter().filter(|set| **set != 0) {
        let mut bytes = vec![0; count.div_ceil(64) * 8];
        if Tracee(thread).read(*set, &mut bytes).is_ok() {
            let is_in = |fd: &usize| bytes[fd / 8] >> (fd % 8) & 1 == 1;
            all.extend((0..count).filter(is_in).map(|fd| fd as i32));
        }
    }
    all
}
