//! Inspection of a container's file system from outside. Its symbolic links may lead anywhere, but
//! no lookup leaves it.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::unistd::{AccessFlags, faccessat};

/// The maximum length of a text that is read: tables of users are far shorter, and a device is
/// endless.
const LONGEST: u64 = 16 << 20;

/// A file system as the container sees it.
#[derive(Debug)]
pub struct Root {
    directory: File,
    /// The volumes mounted over it, with their paths; the longest path first.
    volumes: Vec<(PathBuf, Volume)>,
}

#[derive(Debug)]
enum Volume {
    Directory(File),
    File(PathBuf),
}

/// The status of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// It can be executed.
    There,
    /// It is not an executable file.
    NotExecutable,
    /// It does not exist.
    Missing,
}

impl Root {
    /// Opens the file system, with sources mounted over destinations.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn open(path: &Path, volumes: &[(PathBuf, PathBuf)]) -> io::Result<Self> {
        let mut mounted = Vec::new();
        for (source, destination) in volumes {
            let volume = match source.is_dir() {
                true => Volume::Directory(File::open(source)?),
                false => Volume::File(source.clone()),
            };
            mounted.push((destination.clone(), volume));
        }
        mounted.sort_by_key(|(destination, _)| std::cmp::Reverse(destination.as_os_str().len()));
        Ok(Self { directory: File::open(path)?, volumes: mounted })
    }

    /// Looks up a file.
    fn look(&self, path: &Path) -> io::Result<Metadata> {
        let look = |directory, path| open(directory, path, OFlag::O_PATH)?.metadata();
        let mounted = self
            .volumes
            .iter()
            .find_map(|(destination, volume)| Some((volume, path.strip_prefix(destination).ok()?)));
        match mounted {
            None => look(&self.directory, path),
            Some((Volume::Directory(directory), rest)) => look(directory, rest),
            Some((Volume::File(source), _)) => fs::metadata(source),
        }
    }

    /// The text of a regular file, if it exists.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        // A pipe would block the open.
        let file = open(&self.directory, Path::new(path), OFlag::O_RDONLY | OFlag::O_NONBLOCK);
        let file = file.ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Whether a file exists or can be created.
    #[must_use]
    pub fn can_have(&self, path: &Path) -> bool {
        let mut above = path.ancestors().skip(1);
        self.look(path).is_ok()
            || above
                .find_map(|folder| open(&self.directory, folder, OFlag::O_PATH).ok())
                .is_some_and(|folder| {
                    let flags = AtFlags::AT_EACCESS | AtFlags::AT_EMPTY_PATH;
                    faccessat(folder, "", AccessFlags::W_OK, flags).is_ok()
                })
    }

    /// The status of a program as executed by a process with this directory and PATH (`execvp(3)`).
    #[must_use]
    pub fn program(&self, name: &str, folder: &str, path: &str) -> Program {
        let in_folder = |name: &str| Path::new("/").join(folder).join(name);
        let candidates: Vec<_> = match name.contains('/') {
            true => vec![in_folder(name)],
            false if name.is_empty() => Vec::new(),
            false => path.split(':').map(|entry| in_folder(entry).join(name)).collect(),
        };
        let found: Vec<_> = candidates.iter().map(|candidate| self.judge(candidate)).collect();
        [Program::There, Program::NotExecutable]
            .into_iter()
            .find(|judged| found.contains(judged))
            .unwrap_or(Program::Missing)
    }

    fn judge(&self, path: &Path) -> Program {
        match self.look(path) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => {
                Program::There
            }
            Ok(_) => Program::NotExecutable,
            Err(_) => Program::Missing,
        }
    }
}

/// Opens a file below a directory, which absolute links and `..` do not leave.
fn open(directory: &File, path: &Path, how: OFlag) -> io::Result<File> {
    let inside = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(how | OFlag::O_CLOEXEC).resolve(inside);
    // An empty path is not a file.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Ok(openat2(directory, path, how)?.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let id = std::process::id();
            let path = std::env::temp_dir().join(format!("eigentime-{name}-{id}"));
            for folder in ["root/etc", "root/bin", "volume"] {
                fs::create_dir_all(path.join(folder)).unwrap();
            }
            fs::write(path.join("outside"), "outside").unwrap();
            Self(path)
        }

        fn executable(&self, path: &str, mode: u32) {
            let path = self.0.join(path);
            fs::write(&path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn links_do_not_lead_out() {
        let scratch = Scratch::new("links");
        let root = scratch.0.join("root");
        fs::write(root.join("etc/real"), "inside").unwrap();
        symlink("/etc/real", root.join("etc/absolute")).unwrap();
        symlink("../../../etc/real", root.join("etc/dots")).unwrap();
        symlink(scratch.0.join("outside"), root.join("etc/out")).unwrap();
        symlink("../../outside", root.join("etc/up")).unwrap();
        nix::unistd::mkfifo(&root.join("etc/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let root = Root::open(&root, &[]).unwrap();
        for path in ["/etc/real", "etc/absolute", "/etc/dots"] {
            assert_eq!(root.text(path).as_deref(), Some("inside"), "{path}");
        }
        for path in ["/etc/out", "/etc/up", "/../outside", "/etc", "/etc/pipe", "/none"] {
            assert_eq!(root.text(path), None, "{path}");
        }
    }

    #[test]
    fn programs_are_found_as_the_container_finds_them() {
        let scratch = Scratch::new("programs");
        scratch.executable("root/bin/good", 0o755);
        scratch.executable("root/bin/plain", 0o644);
        scratch.executable("volume/tool", 0o755);
        symlink("/bin/good", scratch.0.join("root/link")).unwrap();
        let volumes = [(scratch.0.join("volume"), PathBuf::from("/opt"))];
        let root = Root::open(&scratch.0.join("root"), &volumes).unwrap();
        let judge = |name| root.program(name, "/", "/sbin:/bin:/opt");
        for name in ["good", "/bin/good", "bin/good", "/link", "tool", "/opt/tool"] {
            assert_eq!(judge(name), Program::There, "{name}");
        }
        for name in ["plain", "/bin/plain", "/bin", "/opt"] {
            assert_eq!(judge(name), Program::NotExecutable, "{name}");
        }
        for name in ["none", "/none", "", "/opt/none", "/../outside"] {
            assert_eq!(judge(name), Program::Missing, "{name}");
        }
        assert_eq!(root.program("./good", "bin", ""), Program::There);
    }
}
