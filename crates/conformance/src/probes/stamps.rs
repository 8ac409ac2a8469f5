//! Timestamps that the kernel records itself.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::interface::{Epoch, Grain, Interface, Reading};
use crate::sys::{self, NULL, call, descriptor, micros, nanos, timespec, timeval};
use crate::timelines::{NS_PER_S, Under};

use super::clocks;

const SECOND: Grain = Grain::Cut(NS_PER_S);
const FILE_TIMES: &str = "file times (mtime, ctime, atime)";
const PACKETS: &str = "SO_TIMESTAMP and its kin";
const IPC: &str = "IPC times (shmctl, msgctl, semctl)";
const UPTIME: &str = "/proc/uptime, /proc/stat";
const START: &str = "process start times (/proc/PID/stat)";

const fn stamp(
    name: &'static str,
    listed: &'static str,
    read: fn() -> Option<i64>,
    grain: Grain,
) -> Interface {
    Interface::reading(name, Reading { read, like: Some(clocks::WALL), epoch: Epoch::Wall, grain })
        .host(listed)
        .under(Under::WALL)
}

const fn since_boot(
    name: &'static str,
    listed: &'static str,
    read: fn() -> Option<i64>,
    grain: Grain,
) -> Interface {
    Interface::reading(name, Reading { read, like: Some(clocks::BOOT), epoch: Epoch::Boot, grain })
        .host(listed)
}

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    stamp("file times: mtime", FILE_TIMES, mtime, Grain::Tick),
    stamp("file times: ctime", FILE_TIMES, ctime, Grain::Tick),
    stamp("file times: atime", FILE_TIMES, atime, Grain::Tick),
    stamp("utimensat, UTIME_NOW", FILE_TIMES, touched, Grain::Tick),
    since_boot("/proc/uptime", UPTIME, uptime, Grain::Cut(NS_PER_S / 100)),
    Interface::reading("/proc/stat: btime", BOOT_DATE).host_because(
        "follows --boottime, by the kernel; otherwise it is the host's date of the machine's start",
    ),
    since_boot("/proc/self/stat: start time", START, start_time, Grain::Cut(NS_PER_S / 20)),
    stamp("SO_TIMESTAMP", PACKETS, so_timestamp, Grain::Fine),
    stamp("SO_TIMESTAMPNS", PACKETS, so_timestampns, Grain::Fine),
    stamp("IPC times: shmctl", IPC, shmctl, SECOND),
    stamp("IPC times: msgctl", IPC, msgctl, SECOND),
    stamp("IPC times: semctl", IPC, semctl, SECOND),
    Interface::untested(
        "kernel log, audit, tracing",
        "kernel log, audit, tracing",
        "no test: it would write to the host's logs",
    ),
];

/// The date of the machine's boot.
pub const BOOT_DATE: Reading =
    Reading { read: btime, like: None, epoch: Epoch::BootDate, grain: Grain::Cut(2 * NS_PER_S) };

/// A new file in memory that contains one byte.
fn new_file() -> Option<File> {
    // SAFETY: the kernel reads a name.
    let file = descriptor(unsafe { call!(libc::SYS_memfd_create, c"conformance", 0) }).ok()?;
    // SAFETY: the kernel reads one byte.
    unsafe { call!(libc::SYS_write, file.as_raw_fd(), &0u8, 1) }.ok()?;
    Some(File::from(file))
}

fn stat(file: &File) -> Option<libc::stat> {
    // SAFETY: all fields of a stat may be zero.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: one stat is written.
    sys::checked(unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) }).ok()?;
    Some(stat)
}

fn instant(seconds: i64, nanoseconds: i64) -> i64 {
    seconds * NS_PER_S + nanoseconds
}

fn mtime() -> Option<i64> {
    stat(&new_file()?).map(|stat| instant(stat.st_mtime, stat.st_mtime_nsec))
}

fn ctime() -> Option<i64> {
    stat(&new_file()?).map(|stat| instant(stat.st_ctime, stat.st_ctime_nsec))
}

fn atime() -> Option<i64> {
    stat(&new_file()?).map(|stat| instant(stat.st_atime, stat.st_atime_nsec))
}

/// The time of a file after setting it explicitly to the present.
fn touched() -> Option<i64> {
    let file = new_file()?;
    let now = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW };
    let times = [now; 2];
    // SAFETY: the kernel reads two timespecs.
    unsafe { call!(libc::SYS_utimensat, file.as_raw_fd(), NULL, &times, 0) }.ok()?;
    stat(&file).map(|stat| instant(stat.st_mtime, stat.st_mtime_nsec))
}

/// The uptime in `/proc/uptime`.
pub fn uptime() -> Option<i64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let (seconds, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    let hundredths: i64 = hundredths.parse().ok()?;
    Some(instant(seconds.parse().ok()?, hundredths * NS_PER_S / 100))
}

fn btime() -> Option<i64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(line.trim().parse::<i64>().ok()? * NS_PER_S)
}

/// Field 22 of `/proc/self/stat`: the start time of this process, which is new.
fn start_time() -> Option<i64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: i64 = text.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    // SAFETY: only a number is passed.
    Some(ticks * (NS_PER_S / unsafe { libc::sysconf(libc::_SC_CLK_TCK) }))
}

fn so_timestamp() -> Option<i64> {
    packet(libc::SO_TIMESTAMP).map(|bytes| {
        let word = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        micros(libc::timeval { tv_usec: word(8), ..timeval(word(0) * NS_PER_S) })
    })
}

fn so_timestampns() -> Option<i64> {
    packet(libc::SO_TIMESTAMPNS).map(|bytes| {
        let word = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        nanos(libc::timespec { tv_nsec: word(8), ..timespec(word(0) * NS_PER_S) })
    })
}

/// Sends a datagram to itself, and returns the timestamp with which it was received.
fn packet(option: i32) -> Option<[u8; 16]> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    let (fd, on) = (socket.as_raw_fd(), 1i32);
    // SAFETY: the kernel reads one number.
    unsafe { call!(libc::SYS_setsockopt, fd, libc::SOL_SOCKET, option, &on, 4) }.ok()?;
    socket.send_to(b"x", socket.local_addr().ok()?).ok()?;
    let mut byte = 0u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // A control message of 16 bytes after its header of 16.
    let mut control = [0u64; 8];
    // SAFETY: all fields of a msghdr may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the kernel writes one byte and as much of the control message as fits.
    unsafe { call!(libc::SYS_recvmsg, fd, &mut message, 0) }.ok()?;
    if message.msg_controllen < 32 {
        return None;
    }
    let mut stamp = [0; 16];
    stamp[..8].copy_from_slice(&control[2].to_ne_bytes());
    stamp[8..].copy_from_slice(&control[3].to_ne_bytes());
    Some(stamp)
}

fn shmctl() -> Option<i64> {
    // SAFETY: only numbers are passed.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 1, 0o600) };
    sys::checked(id).ok()?;
    // SAFETY: all fields of a shmid_ds may be zero.
    let mut state: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: one shmid_ds is written.
    let asked = sys::checked(unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut state) });
    // SAFETY: the segment is this function's own.
    unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    asked.ok().map(|_| state.shm_ctime * NS_PER_S)
}

fn msgctl() -> Option<i64> {
    // SAFETY: only numbers are passed.
    let id = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    sys::checked(id).ok()?;
    // SAFETY: all fields of a msqid_ds may be zero.
    let mut state: libc::msqid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: one msqid_ds is written.
    let asked = sys::checked(unsafe { libc::msgctl(id, libc::IPC_STAT, &raw mut state) });
    // SAFETY: the queue is this function's own.
    unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    asked.ok().map(|_| state.msg_ctime * NS_PER_S)
}

/// `struct semid64_ds` (arch/x86/include/uapi/asm/sembuf.h), which libc lacks for musl.
#[repr(C)]
struct Semaphores {
    permissions: libc::ipc_perm,
    last_use: [u64; 2],
    last_change: [i64; 2],
    number: [u64; 3],
}

fn semctl() -> Option<i64> {
    // SAFETY: only numbers are passed.
    let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
    sys::checked(id).ok()?;
    // SAFETY: all its fields may be zero.
    let mut state: Semaphores = unsafe { std::mem::zeroed() };
    // SAFETY: one of them is written.
    let asked = sys::checked(unsafe { libc::semctl(id, 0, libc::IPC_STAT, &raw mut state) });
    // SAFETY: the set is this function's own.
    unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
    asked.ok().map(|_| state.last_change[0] * NS_PER_S)
}
