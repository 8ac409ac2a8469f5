//! Information from `/proc` on processes, threads and their descriptors.

use std::ffi::CStr;
use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open, pidfd_send_signal,
};

use crate::maps::mappings;
use crate::region::REGION_FILE;

/// The name of supervisors.
pub const SUPERVISOR: &CStr = c"eigentime";

/// A pidfd.
pub struct Pidfd(pub OwnedFd);

impl Pidfd {
    /// Opens the process with this ID.
    pub fn open(process: Pid) -> nix::Result<Self> {
        let process = rustix::process::Pid::from_raw(process.as_raw()).ok_or(Errno::ESRCH)?;
        pidfd_open(process, PidfdFlags::empty()).map(Self).map_err(errno)
    }

    /// Waits until it has ended, at most for this long.
    pub fn await_end(&self, patience: Option<Duration>) {
        let mut end = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let patience = patience.map_or(PollTimeout::NONE, |patience| {
            PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX)
        });
        while poll(&mut end, patience) == Err(Errno::EINTR) {}
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        let mut end = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut end, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Kills it, if it has not ended.
    pub fn end(&self) {
        // Fails only if it has ended, or belongs to another user.
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
    }

    /// Duplicates one of its descriptors.
    pub fn borrow_descriptor(&self, descriptor: u32) -> nix::Result<OwnedFd> {
        let descriptor = descriptor.cast_signed();
        pidfd_getfd(&self.0, descriptor, PidfdGetfdFlags::empty()).map_err(errno)
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}

/// Serializes a process or thread as its ID.
pub mod number {
    use nix::unistd::Pid;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serializes it.
    pub fn serialize<S: Serializer>(pid: &Pid, serializer: S) -> Result<S::Ok, S::Error> {
        pid.as_raw().serialize(serializer)
    }

    /// Deserializes it.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pid, D::Error> {
        i32::deserialize(deserializer).map(Pid::from_raw)
    }
}

/// Reads a file of `/proc/PID` that fits into a page in one call.
pub fn read(process: impl Display, file: &str) -> io::Result<String> {
    let mut bytes = [0; 4096];
    let length = File::open(format!("/proc/{process}/{file}"))?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// Reads a file of `/proc/PID` of any length.
pub fn read_whole(process: impl Display, file: &str) -> io::Result<String> {
    // The kernel reports no length, and reading in pieces that grow from a few bytes takes longer.
    let mut bytes = Vec::with_capacity(32 << 10);
    File::open(format!("/proc/{process}/{file}"))?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of a field in a text of `/proc`, whose name begins a line.
fn field(text: &str, name: &str) -> Option<String> {
    Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
}

/// The value of a field of `/proc/PID/status`.
pub fn status_field(thread: impl Display, name: &str) -> Option<String> {
    field(&read(thread, "status").ok()?, name)
}

/// The value of a field of `/proc/PID/status` that is a set of signals or capabilities.
pub fn status_set(thread: impl Display, name: &str) -> Option<u64> {
    u64::from_str_radix(&status_field(thread, name)?, 16).ok()
}

/// Whether a signal is in such a set.
pub fn has_signal(thread: impl Display, name: &str, signal: i32) -> bool {
    status_set(thread, name).is_some_and(|set| set >> (signal - 1) & 1 == 1)
}

/// The IDs of a process or thread, from the outermost to the innermost process namespace.
pub fn numbers_of(thread: impl Display) -> Vec<i32> {
    let numbers = status_field(thread, "NSpid:").unwrap_or_default();
    numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Whether a thread has this capability (include/uapi/linux/capability.h) in its user namespace.
pub fn has_capability(thread: impl Display, capability: u32) -> bool {
    status_set(thread, "CapEff:").is_some_and(|set| set >> capability & 1 == 1)
}

/// The process whose ID is in a field of `/proc/PID/status`, unless it is zero.
fn process_in_status(thread: impl Display, name: &str) -> Option<Pid> {
    status_field(thread, name)?.parse().ok().filter(|pid| *pid != 0).map(Pid::from_raw)
}

/// The process that traces a thread.
pub fn tracer_of(thread: impl Display) -> Option<Pid> {
    process_in_status(thread, "TracerPid:")
}

/// The parent of the process of a thread.
pub fn parent_of(thread: Pid) -> Option<Pid> {
    process_in_status(thread, "PPid:")
}

/// Whether it is the first thread of a process, whose ID it has.
pub fn is_first(thread: Pid) -> bool {
    let number = thread.as_raw();
    // SAFETY: tgkill has no preconditions, and sends nothing.
    let found = unsafe { libc::syscall(libc::SYS_tgkill, number, number, 0) };
    // EPERM means that it exists and may not be signalled.
    found == 0 || Errno::last() == Errno::EPERM
}

/// The process of a thread.
pub fn process_of(thread: Pid) -> Option<Pid> {
    // This is called while the thread waits, and its status takes long to read.
    if is_first(thread) { Some(thread) } else { process_in_status(thread, "Tgid:") }
}

/// Whether a process is accessible to its own user. In `/proc`, processes that are not dumpable
/// belong to root.
pub fn is_own(process: Pid) -> bool {
    let owner = fs::metadata(format!("/proc/{process}")).map(|it| it.uid());
    owner.is_ok_and(|owner| owner == nix::unistd::geteuid().as_raw())
}

/// Whether a thread has ended, even if it has not been reaped.
pub fn has_ended(thread: Pid) -> bool {
    status_field(thread, "State:").is_none_or(|state| state.starts_with(['Z', 'X']))
}

/// Whether a thread is in an interruptible sleep.
pub fn is_sleeping(thread: Pid) -> bool {
    status_field(thread, "State:").is_some_and(|state| state.starts_with('S'))
}

/// How long a thread has been on a processor, from its `schedstat`.
pub fn run_time(schedstat: &str) -> Duration {
    let nanoseconds = schedstat.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Whether this process traces a thread.
pub fn is_followed(thread: Pid) -> bool {
    tracer_of(thread) == Some(Pid::this())
}

/// A namespace of a process, as a text that is unique to the namespace.
pub fn namespace(process: impl Display, kind: &str) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/{kind}"))
}

/// Whether a process has the memory of a timeline.
///
/// # Errors
///
/// If it has ended, or is inaccessible to this user.
pub fn is_in_timeline(process: impl Display) -> io::Result<bool> {
    read_whole(process, "maps").map(|maps| maps_timeline(&maps))
}

/// Whether the memory of a timeline is among these mappings of a process.
pub fn maps_timeline(maps: &str) -> bool {
    maps.contains(REGION_FILE)
}

/// The supervisors of this user that handle a signal and belong to the timeline of a process: those
/// that map the same memory.
pub fn supervisors_of(process: Pid, signal: i32) -> Vec<Pid> {
    let regions = |process: Pid| -> Vec<u64> {
        let maps = read_whole(process, "maps").unwrap_or_default();
        let ours = mappings(&maps).into_iter().filter(|it| it.name == REGION_FILE);
        ours.map(|it| it.inode).collect()
    };
    let of_process = regions(process);
    let is_its = |it: &Pid| {
        name_of(*it).is_ok_and(|name| name.as_bytes() == SUPERVISOR.to_bytes())
            && is_own(*it)
            && has_signal(it, "SigCgt:", signal)
            && regions(*it).iter().any(|region| of_process.contains(region))
    };
    processes().filter(is_its).collect()
}

/// Whether this process and another are in the same namespace.
pub fn shares_namespace(process: Pid, kind: &str) -> bool {
    namespace(process, kind).ok() == namespace("self", kind).ok()
}

/// The path of the program that a thread runs.
pub fn program_of(thread: Pid) -> String {
    match fs::read_link(format!("/proc/{thread}/exe")) {
        Ok(path) => path.display().to_string(),
        // A process whose link may not be read has a name all the same.
        Err(_) => name_of(thread).unwrap_or_else(|_| format!("process {thread}")),
    }
}

/// A process as text: its ID and program.
pub fn described(process: Pid) -> String {
    format!("process {process} ({})", program_of(process))
}

/// The name of a thread.
pub fn name_of(thread: Pid) -> io::Result<String> {
    read(thread, "comm").map(|name| name.trim_end().to_owned())
}

/// The arguments with which a process was started; its program if there are none.
pub fn command_of(process: Pid) -> String {
    let words = read_whole(process, "cmdline").unwrap_or_default();
    let words: Vec<_> = words.split('\0').filter(|word| !word.is_empty()).collect();
    if words.is_empty() { program_of(process) } else { words.join(" ") }
}

/// The children of a process.
pub fn children_of(process: Pid) -> Vec<Pid> {
    let of_thread = |thread| read_whole(process, &format!("task/{thread}/children")).ok();
    let lists: Option<Vec<_>> = threads_of(process).into_iter().flatten().map(of_thread).collect();
    match lists {
        Some(lists) => {
            let words = lists.iter().flat_map(|list| list.split_whitespace());
            words.filter_map(|word| word.parse().ok().map(Pid::from_raw)).collect()
        }
        // A kernel without such lists (CONFIG_PROC_CHILDREN), or a thread that has just ended.
        None => processes().filter(|other| parent_of(*other) == Some(process)).collect(),
    }
}

/// All visible processes.
pub fn processes() -> impl Iterator<Item = Pid> {
    numbers_in("/proc").into_iter().flatten().map(Pid::from_raw)
}

/// The threads of a process.
pub fn threads_of(process: Pid) -> io::Result<impl Iterator<Item = Pid>> {
    let folder = format!("/proc/{process}/task");
    // The directory has two links of its own and one per thread; most processes have a single
    // thread.
    let is_alone = fs::metadata(&folder)?.nlink() == 3;
    let (first, several) = match is_alone {
        true => (Some(process), None),
        false => (None, Some(numbers_in(&folder)?)),
    };
    Ok(first.into_iter().chain(several.into_iter().flatten().map(Pid::from_raw)))
}

/// A thread of a process other than the first, if there is one. Memory and descriptors can be
/// reached through it once the first has ended.
pub fn later_thread_of(process: Pid) -> Option<Pid> {
    threads_of(process).ok()?.find(|thread| *thread != process)
}

/// The numbers of a thread's descriptors.
pub fn descriptors(thread: Pid) -> impl Iterator<Item = i32> {
    numbers_in(&format!("/proc/{thread}/fd")).into_iter().flatten()
}

/// The entries of a directory that are numbers.
fn numbers_in(folder: &str) -> io::Result<impl Iterator<Item = i32> + use<>> {
    let entries = fs::read_dir(folder)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// The kernel's name for the target of a thread's descriptor.
pub fn descriptor_link(thread: impl Display, descriptor: i32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// The file to which a thread's descriptor refers.
pub fn descriptor_file(thread: impl Display, descriptor: i32) -> io::Result<Metadata> {
    fs::metadata(format!("/proc/{thread}/fd/{descriptor}"))
}

/// The value of a field of `/proc/PID/fdinfo/FD`.
pub fn descriptor_field(thread: Pid, descriptor: i32, name: &str) -> Option<String> {
    field(&read_whole(thread, &format!("fdinfo/{descriptor}")).ok()?, name)
}

/// The start of the heap of a process, even if it has none yet.
pub fn start_of_heap(process: Pid) -> Option<u64> {
    /// Its index in `/proc/PID/stat`, counted after the name.
    const START_OF_HEAP: usize = 44;
    let stat = read(process, "stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(START_OF_HEAP)?.parse().ok()
}
