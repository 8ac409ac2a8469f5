//! Unnamed files for a virtual machine, which disappear with this process, however it ends.
//!
//! QEMU opens them as `/proc/PID/fd/NUMBER` of this process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::libc::{O_DIRECT, O_TMPFILE};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// The size of the disk. Unwritten parts take no space.
const DISK_BYTES: u64 = 1 << 30;

/// Without a journal: its contents need not survive a crash.
const MAKE: (&str, &[&str]) = ("mke2fs", &["-q", "-F", "-t", "ext4", "-O", "^has_journal"]);

/// Folders likely to be on a disk, the likeliest first.
const FOLDERS: [&str; 2] = ["/var/tmp", "/tmp"];

/// A file in memory.
pub fn in_memory(name: &str) -> io::Result<File> {
    let file: OwnedFd = memfd_create(name, MFdFlags::MFD_CLOEXEC)?;
    Ok(file.into())
}

/// The path by which another process of this user opens a file of this one.
pub fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// A disk for the I/O load.
pub struct Disk {
    /// Its file.
    pub file: File,
    /// Whether the underlying machine sees each access. Otherwise some are served from memory.
    pub is_direct: bool,
}

impl Disk {
    /// Creates one with an empty file system.
    ///
    /// # Errors
    /// Why none is possible.
    pub fn make() -> Result<Self, String> {
        let file = unnamed().map_err(|cause| format!("no file can be made for it: {cause}"))?;
        file.set_len(DISK_BYTES)
            .map_err(|cause| format!("it cannot be {DISK_BYTES} bytes large: {cause}"))?;
        let (make, options) = MAKE;
        let tool = eigentime_container::program::find(make)
            .ok_or_else(|| format!("{make} is not installed (e2fsprogs)"))?;
        let made =
            Command::new(tool).args(options).arg(path_of(&file)).stdin(Stdio::null()).output();
        let made = made.map_err(|cause| format!("{make} cannot be run: {cause}"))?;
        if !made.status.success() {
            return Err(format!("{make}: {}", String::from_utf8_lossy(&made.stderr).trim()));
        }
        let direct = OpenOptions::new().read(true).custom_flags(O_DIRECT).open(path_of(&file));
        Ok(Self { file, is_direct: direct.is_ok() })
    }
}

fn unnamed() -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(O_TMPFILE).mode(0o600);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for folder in FOLDERS {
        match options.open(Path::new(folder)) {
            Ok(file) => return Ok(file),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn a_file_in_memory_is_opened_by_others() {
        let mut file = in_memory("test").unwrap();
        file.write_all(b"what is in it").unwrap();
        let output = Command::new("cat").arg(path_of(&file)).output().unwrap();
        assert_eq!(output.stdout, b"what is in it");
    }

    #[test]
    fn a_disk_has_a_file_system() {
        let mut disk = match Disk::make() {
            Ok(disk) => disk,
            Err(why) => skip!("{why}"),
        };
        let mut magic = [0; 2];
        disk.file.seek(SeekFrom::Start(0x438)).unwrap();
        disk.file.read_exact(&mut magic).unwrap();
        assert_eq!(u16::from_le_bytes(magic), 0xef53, "the mark of ext4, where it is to be");
    }
}
