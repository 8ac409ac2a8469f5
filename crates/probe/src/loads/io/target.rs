//! The file or device that is read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl, fstatfs, fstatvfs};

use super::super::load::Unable;

/// The bytes of a read: each is a request to the disk, and an interrupt.
pub const BLOCK: u64 = 4_096;
/// The size of a file: larger than disk caches, and written in a second.
const SIZE: u64 = 64 << 20;
/// The largest part of the free space to use, as a divisor.
const SHARE: u64 = 4;
/// The smallest useful file.
const LEAST: u64 = 1 << 20;
/// File systems in memory: see statfs(2).
const IN_MEMORY: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// What is read.
#[derive(Debug)]
pub struct Target {
    file: File,
    /// Its size in bytes, in whole blocks.
    pub size: u64,
    /// The number of the disk or of the file system.
    pub device: u64,
    /// Whether reads bypass the page cache.
    pub is_direct: bool,
    /// A short description.
    pub what: String,
}

/// Room for a block, aligned as direct reads require.
pub struct Block([u8; 2 * BLOCK as usize]);

impl Block {
    /// An empty block.
    pub fn new() -> Box<Self> {
        Box::new(Self([0; 2 * BLOCK as usize]))
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(BLOCK as usize);
        &mut self.0[start..][..BLOCK as usize]
    }
}

impl Target {
    /// A block device, which is only read.
    pub fn device(path: &Path) -> Result<Self, Unable> {
        let named = |error| format!("{}: {error}", path.display());
        let open = |flags: OFlags| {
            let flags = flags.bits().cast_signed();
            OpenOptions::new().read(true).custom_flags(flags).open(path)
        };
        let opened = match open(OFlags::DIRECT) {
            // It does not support direct reads.
            Err(error) if error.kind() == ErrorKind::InvalidInput => open(OFlags::empty()),
            opened => opened,
        };
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let needs = "root, and a container that lets the device be read";
                return Err(Unable::Needs(format!("{needs}: {}", named(error))));
            }
            Err(error) => return Err(named(error).into()),
        };
        let metadata = file.metadata().map_err(named)?;
        if !metadata.file_type().is_block_device() {
            return Err(format!("{}: it is no block device", path.display()).into());
        }
        let size = file.seek(SeekFrom::End(0)).map_err(named)? / BLOCK * BLOCK;
        if size == 0 {
            return Err(Unable::Needs(format!("{} is empty: a disk", path.display())));
        }
        let what = path.display().to_string();
        Self { file, size, device: metadata.rdev(), is_direct: true, what }.tried()
    }

    /// A file without a name, so that nothing is left of it however this process ends.
    pub fn file_in(folder: &Path) -> Result<Self, Unable> {
        let named = |error: io::Error| format!("{}: {error}", folder.display());
        let needs = |why: String| Err(Unable::Needs(why));
        let mut file = match nameless(folder) {
            Ok(file) => file,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return needs(format!("{}: a folder that can be written to", named(error)));
            }
            Err(error) => return Err(named(error).into()),
        };
        let system = fstatfs(&file).map_err(io::Error::from).map_err(named)?.f_type;
        if let Some((_, name)) = IN_MEMORY.iter().find(|(magic, _)| *magic == system) {
            let folder = folder.display();
            return needs(format!("{folder} is in memory ({name}): a folder on a disk, or a disk"));
        }
        let room = fstatvfs(&file).map_err(io::Error::from).map_err(named)?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        let size = SIZE.min(free / SHARE) / BLOCK * BLOCK;
        if size < LEAST {
            let (least, free) = ((LEAST * SHARE) >> 20, free >> 10);
            return needs(format!("{least} MiB on {}: {free} KiB are free", folder.display()));
        }
        match fill(&mut file, size) {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                return needs(format!("{}: more room", named(error)));
            }
            filled => filled.map_err(named)?,
        }
        let device = file.metadata().map_err(named)?.dev();
        let is_direct = set_direct(&file, true);
        let what = format!("a file of {} MiB", size >> 20);
        Self { file, size, device, is_direct, what }.tried()
    }

    /// Tests with one read whether direct reads really work.
    fn tried(mut self) -> Result<Self, Unable> {
        let mut block = Block::new();
        if let Err(error) = self.read(&mut block, 0) {
            if error.kind() != ErrorKind::InvalidInput {
                return Err(error.into());
            }
            self.is_direct = false;
            set_direct(&self.file, false);
            self.read(&mut block, 0)?;
        }
        let how = if self.is_direct {
            "read directly"
        } else {
            // Prevents readahead.
            let _ = fadvise(&self.file, 0, None, Advice::Random);
            "read through the caches, which are emptied at each round (there is no O_DIRECT)"
        };
        self.what = format!("{}, {how}", self.what);
        Ok(self)
    }

    /// Reads a block.
    ///
    /// # Errors
    /// The kernel's error; an unchanged target has no end within its size.
    pub fn read(&self, block: &mut Block, at: u64) -> io::Result<()> {
        self.file.read_exact_at(block.bytes(), at)
    }

    /// Drops it from the page cache, if reads go through that.
    pub fn forget(&self) {
        if !self.is_direct {
            // This is only advice: whether reads reach the disk is counted.
            let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        }
    }

    /// Drops the page cache of all files, as in the paper, or of this one; returns a short
    /// description.
    pub fn drop_caches(&self) -> &'static str {
        let all = OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches");
        if all.and_then(|mut all| all.write_all(b"1\n")).is_ok() {
            return "all caches dropped before";
        }
        match fadvise(&self.file, 0, None, Advice::DontNeed) {
            Ok(()) => "its cache dropped before",
            Err(_) => "caches as they were",
        }
    }
}

fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let unnamed = OFlags::TMPFILE.bits().cast_signed();
    match options.clone().custom_flags(unnamed).open(folder) {
        Ok(file) => return Ok(file),
        // Not all file systems support it.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {}
        Err(error) => return Err(error),
    }
    let path = folder.join(format!(".eigentime-load-{}", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Writes incompressible data, and waits until it is on the disk.
fn fill(file: &mut File, size: u64) -> io::Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut chunk = vec![0_u8; LEAST as usize];
    let mut left = size;
    while left > 0 {
        for word in chunk.chunks_exact_mut(8) {
            // xorshift64: Marsaglia 2003.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_ne_bytes());
        }
        let now = left.min(LEAST);
        file.write_all(&chunk[..now as usize])?;
        left -= now;
    }
    file.sync_all()
}

/// Whether it could be set.
fn set_direct(file: &File, direct: bool) -> bool {
    let set = fcntl_getfl(file).and_then(|mut flags| {
        flags.set(OFlags::DIRECT, direct);
        fcntl_setfl(file, flags)
    });
    set.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_leaves_no_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let before = fs::read_dir(folder).unwrap().count();
        let target = match Target::file_in(folder) {
            Ok(target) => target,
            Err(Unable::Needs(why)) => skip!("{why}"),
            Err(Unable::Failed(error)) => panic!("{error}"),
        };
        assert_eq!(fs::read_dir(folder).unwrap().count(), before);
        assert!(target.size >= LEAST && target.size.is_multiple_of(BLOCK));
        let (mut first, mut last) = (Block::new(), Block::new());
        target.read(&mut first, 0).unwrap();
        target.read(&mut last, target.size - BLOCK).unwrap();
        assert_ne!(first.bytes(), last.bytes());
        assert!(target.read(&mut last, target.size).is_err());
    }

    #[test]
    fn memory_is_no_disk() {
        let folder = Path::new("/dev/shm");
        match Target::file_in(folder) {
            Err(Unable::Needs(why)) => assert!(why.contains("memory") || why.contains("written")),
            Ok(_) => skip!("a /dev/shm in memory"),
            Err(Unable::Failed(error)) => skip!("/dev/shm: {error}"),
        }
    }

    #[test]
    fn what_is_no_device_is_not_read() {
        let Err(Unable::Failed(error)) = Target::device(Path::new("/dev/null")) else {
            panic!("it is no block device")
        };
        assert!(error.to_string().contains("/dev/null"), "{error}");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(matches!(Target::device(&file), Err(Unable::Failed(_))));
    }
}
