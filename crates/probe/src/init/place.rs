//! File systems and the loopback device.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

/// What is mounted: type, place, options.
const MOUNTS: [(&str, &str, Option<&CStr>); 6] = [
    ("proc", "/proc", None),
    ("sysfs", "/sys", None),
    ("devtmpfs", "/dev", None),
    ("tmpfs", "/dev/shm", Some(c"mode=1777")),
    ("tmpfs", "/tmp", Some(c"mode=1777")),
    ("cgroup2", "/sys/fs/cgroup", None),
];

/// The virtual machine's disk, if it has one, and where loads write to it.
const DISK: (&str, &str) = ("/dev/vda", "/scratch");

/// Mounts what measurements look at.
pub fn mount_all() -> Result<(), String> {
    for (kind, place, options) in MOUNTS {
        make_folder(place)?;
        mount(kind, place, kind, MountFlags::empty(), options)
            .map_err(|error| format!("{kind} cannot be mounted at {place}: {error}"))?;
    }
    Ok(())
}

/// Mounts the disk; without one, its place is in memory.
pub fn mount_disk() -> Result<(), String> {
    let (disk, place) = DISK;
    make_folder(place)?;
    if !Path::new(disk).exists() {
        return Ok(());
    }
    mount(disk, place, "ext4", MountFlags::NOATIME, None)
        .map_err(|error| format!("{disk} cannot be mounted at {place}: {error}"))
}

/// A folder may be there from the initramfs.
fn make_folder(place: &str) -> Result<(), String> {
    fs::create_dir_all(place).map_err(|error| format!("{place} cannot be made: {error}"))
}

/// Makes 127.0.0.1 reachable, as the load of the network needs it.
pub fn raise_loopback() -> Result<(), String> {
    raise(c"lo").map_err(|error| format!("the loopback device cannot be set up: {error}"))
}

fn raise(name: &CStr) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: a structure of numbers, of which all zeros is one.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes_with_nul()) {
        *to = from.cast_signed();
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
