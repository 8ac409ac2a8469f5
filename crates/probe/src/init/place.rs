//! File systems and the loopback device.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

/// The mounts: type, mount point, options.
const MOUNTS: [(&str, &str, Option<&CStr>); 6] = [
    ("proc", "/proc", None),
    ("sysfs", "/sys", None),
    ("devtmpfs", "/dev", None),
    ("tmpfs", "/dev/shm", Some(c"mode=1777")),
    ("tmpfs", "/tmp", Some(c"mode=1777")),
    ("cgroup2", "/sys/fs/cgroup", None),
];

/// The virtual machine's disk, if it has one, and its mount point for loads.
const DISK: (&str, &str) = ("/dev/vda", "/scratch");

/// Mounts the file systems that measurements need.
pub fn mount_all() -> Result<(), String> {
    for (kind, place, options) in MOUNTS {
        make_folder(place)?;
        mount(kind, place, kind, MountFlags::empty(), options)
            .map_err(|error| format!("{kind} cannot be mounted at {place}: {error}"))?;
    }
    Ok(())
}

/// Mounts the disk; without one, its mount point is in memory.
pub fn mount_disk() -> Result<(), String> {
    let (disk, place) = DISK;
    make_folder(place)?;
    if !Path::new(disk).exists() {
        return Ok(());
    }
    mount(disk, place, "ext4", MountFlags::NOATIME, None)
        .map_err(|error| format!("{disk} cannot be mounted at {place}: {error}"))
}

/// Creates a folder, which may exist in the initramfs.
fn make_folder(place: &str) -> Result<(), String> {
    fs::create_dir_all(place).map_err(|error| format!("{place} cannot be made: {error}"))
}

/// Brings up 127.0.0.1, which the network load needs.
pub fn raise_loopback() -> Result<(), String> {
    raise(c"lo").map_err(|error| format!("the loopback device cannot be set up: {error}"))
}

fn raise(name: &CStr) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: a structure of numbers, for which all zeros is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes_with_nul()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    ioctl(&socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the call above has filled in the flags, and any other field is numbers as well.
    unsafe { request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short };
    ioctl(&socket, libc::SIOCSIFFLAGS, &mut request)
}

/// A call of netdevice(7).
fn ioctl(socket: &UdpSocket, call: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: both calls read and write a structure of this type, which outlives them.
    match unsafe { libc::ioctl(socket.as_raw_fd(), call as _, request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
