//! The initramfs: a cpio archive in `newc` format
//! (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).

use std::io::{self, Write};

/// The magic of every member.
const MAGIC: &str = "070701";

/// The name of the last member.
const LAST: &str = "TRAILER!!!";

/// The alignment of members and their contents.
const ALIGNMENT: usize = 4;

/// The types and modes of members, as in stat(2).
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const TERMINAL: u32 = 0o020_600;

/// An archive being written. Everything belongs to root and has time zero: equal contents make
/// equal archives.
pub struct Archive<W: Write> {
    to: W,
    written: usize,
    members: u32,
}

impl<W: Write> Archive<W> {
    /// An empty archive.
    pub fn new(to: W) -> Self {
        Self { to, written: 0, members: 0 }
    }

    /// Adds a folder: before its contents.
    pub fn folder(&mut self, name: &str) -> io::Result<()> {
        self.member(name, FOLDER, [0, 0], &[])
    }

    /// Adds a file.
    pub fn file(&mut self, name: &str, contents: &[u8]) -> io::Result<()> {
        self.member(name, FILE, [0, 0], contents)
    }

    /// Adds an executable file.
    pub fn program(&mut self, name: &str, contents: &[u8]) -> io::Result<()> {
        self.member(name, PROGRAM, [0, 0], contents)
    }

    /// Adds a character device with these numbers.
    pub fn terminal(&mut self, name: &str, device: [u32; 2]) -> io::Result<()> {
        self.member(name, TERMINAL, device, &[])
    }

    /// Writes the end.
    pub fn finish(mut self) -> io::Result<W> {
        self.member(LAST, 0, [0, 0], &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn member(
        &mut self,
        name: &str,
        mode: u32,
        device: [u32; 2],
        contents: &[u8],
    ) -> io::Result<()> {
        let too_long = |_| {
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{name} is too large for an archive"),
            )
        };
        let length = u32::try_from(contents.len()).map_err(too_long)?;
        let named = u32::try_from(name.len() + 1).map_err(too_long)?;
        self.members += 1;
        let [major, minor] = device;
        // Inode, mode, owner, group, links, time, length, the device it is on (2), its own device
        // number (2), length of the name, checksum.
        let fields = [self.members, mode, 0, 0, 1, 0, length, 0, 0, major, minor, named, 0];
        let head: String = fields.iter().map(|it| format!("{it:08x}")).collect();
        self.put(MAGIC.as_bytes())?;
        self.put(head.as_bytes())?;
        self.put(name.as_bytes())?;
        self.put(&[0])?;
        self.align()?;
        self.put(contents)?;
        self.align()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        self.to.write_all(bytes)
    }

    fn align(&mut self) -> io::Result<()> {
        let over = self.written % ALIGNMENT;
        self.put(&[0; ALIGNMENT][..(ALIGNMENT - over) % ALIGNMENT])
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn example() -> Vec<u8> {
        let mut archive = Archive::new(Vec::new());
        archive.folder("dev").unwrap();
        archive.terminal("dev/console", [5, 1]).unwrap();
        archive.program("init", b"seventeen bytes..").unwrap();
        archive.file("empty", b"").unwrap();
        archive.finish().unwrap()
    }

    #[test]
    fn members_are_as_the_kernel_reads_them() {
        let bytes = example();
        assert_eq!(bytes.len() % ALIGNMENT, 0);
        let at = bytes.windows(5).position(|it| it == b"init\0").unwrap();
        let head = std::str::from_utf8(&bytes[at - 110..at]).unwrap();
        assert_eq!(&head[..6], MAGIC);
        assert_eq!(&head[14..22], "000081ed", "a program");
        assert_eq!(&head[54..62], "00000011", "of 17 bytes");
        assert_eq!(&head[94..102], "00000005", "with a name of 5");
        assert_eq!(&bytes[at + 6..][..17], b"seventeen bytes..", "which begin at a multiple of 4");
        assert_eq!((at + 6) % ALIGNMENT, 0);
    }

    #[test]
    fn another_program_reads_it() {
        let cpio = Command::new("busybox")
            .args(["cpio", "-t"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut cpio) = cpio else {
            skip!("busybox");
        };
        cpio.stdin.take().unwrap().write_all(&example()).unwrap();
        let output = cpio.wait_with_output().unwrap();
        let names = String::from_utf8_lossy(&output.stdout);
        assert_eq!(names.lines().collect::<Vec<_>>(), ["dev", "dev/console", "init", "empty"]);
    }
}
