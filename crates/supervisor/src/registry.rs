//! The directory of named timelines: sockets in a directory that belongs to the user.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;

use crate::container_id::Container;
use crate::fingerprint::fingerprint;

/// The name of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

/// The maximum length of a name.
const LONGEST: usize = 64;

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let is_name = text.len() <= LONGEST
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.chars().all(fits);
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| {
            "a name has 1 to 64 letters, digits, '.', '_' and '-', and starts with a letter or a digit"
                .to_owned()
        })
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The directory of this user's timelines.
#[derive(Debug)]
pub struct Registry {
    path: PathBuf,
    /// Held open, so that it remains the same directory.
    directory: OwnedFd,
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what it is")]
pub enum Unusable {
    #[error("{}: {cause}", .path.display())]
    Step { path: PathBuf, cause: io::Error },
    #[error(
        "cannot keep timelines in {}: {cause}\n\
         help: set {} or XDG_RUNTIME_DIR to a directory of your own that you may write to",
        .path.display(), ONLY
    )]
    Directory { path: PathBuf, cause: io::Error },
    #[error(
        "{} belongs to another user or can be entered by others\n\
         help: remove it, or set XDG_RUNTIME_DIR to a directory of your own", .0.display()
    )]
    NotOurs(PathBuf),
    #[error(
        "{}={}: {reason}\n\
         help: give it the absolute path of a directory of your own, or unset it", ONLY, .path.display()
    )]
    Only { path: PathBuf, reason: String },
}

impl Unusable {
    fn step(path: &Path) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Step { path: path.to_owned(), cause }
    }

    fn directory(path: &Path) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Directory { path: path.to_owned(), cause }
    }
}

/// The lock for creating and removing timelines.
pub struct Lock {
    _lock: Flock<File>,
}

/// The file that is locked for a [`Lock`]. No timeline can have this name.
const LOCK: &str = ".lock";

impl Registry {
    /// Opens the directory in which this user's timelines are created, and creates it if necessary.
    pub fn open() -> Result<Self, Unusable> {
        Self::at(&paths()?[0])
    }

    /// Opens that of the timelines in a runtime directory, and creates it if necessary.
    ///
    /// # Errors
    ///
    /// If it cannot be created, or belongs to another user.
    pub fn within(directory: &Path) -> Result<Self, Unusable> {
        Self::at(&directory.join(DIRECTORY))
    }

    /// The same, if it exists.
    pub fn existing() -> Result<Option<Self>, Unusable> {
        let path = &paths()?[0];
        if path.exists() { Self::at(path).map(Some) } else { Ok(None) }
    }

    /// All directories that may contain timelines of this user; the one in which they are created
    /// comes first. XDG_RUNTIME_DIR may have been different when they were created.
    pub fn all() -> Result<Vec<Self>, Unusable> {
        let mut all = vec![Self::open()?];
        let mut known = vec![all[0].identity()?];
        // Directories of other users are of no use.
        for registry in
            paths()?[1..].iter().filter(|path| path.exists()).flat_map(|path| Self::at(path))
        {
            let identity = registry.identity()?;
            if !known.contains(&identity) {
                known.push(identity);
                all.push(registry);
            }
        }
        Ok(all)
    }

    /// The device and inode that identify it.
    fn identity(&self) -> Result<(u64, u64), Unusable> {
        let metadata = fs::metadata(self.file(".")).map_err(Unusable::step(&self.path))?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn at(path: &Path) -> Result<Self, Unusable> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Unusable::directory(path)(error));
            }
            _ => {}
        }
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let directory = directory.map_err(Unusable::directory(path))?;
        let metadata = directory.metadata().map_err(Unusable::step(path))?;
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
            return Err(Unusable::NotOurs(path.to_owned()));
        }
        Ok(Self { path: path.to_owned(), directory: directory.into() })
    }

    /// The path of a file in the directory: short, and immune to redirection.
    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd()))
    }

    /// The path of a timeline's socket for the user.
    #[must_use]
    pub fn socket(&self, name: &Name) -> PathBuf {
        self.path.join(&name.0)
    }

    /// Waits for the lock for creating and removing timelines.
    pub fn lock(&self) -> Result<Lock, Unusable> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.file(LOCK))
            .map_err(Unusable::directory(&self.path))?;
        let mut tried = Flock::lock(file, FlockArg::LockExclusive);
        // Signals wake the supervisor.
        while let Err((file, Errno::EINTR)) = tried {
            tried = Flock::lock(file, FlockArg::LockExclusive);
        }
        let lock = tried.map_err(|(_, error)| Unusable::directory(&self.path)(error.into()))?;
        Ok(Lock { _lock: lock })
    }

    /// Connects to a timeline; `None` if there is none of that name.
    pub fn connect(&self, name: &Name) -> Result<Option<UnixStream>, Unusable> {
        match UnixStream::connect(self.file(&name.0)) {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.clean(name);
                Ok(None)
            }
            Err(error) => Err(Unusable::step(&self.socket(name))(error)),
        }
    }

    /// Removes a socket on which nothing listens, left by a supervisor that was killed. A process
    /// that is creating or removing a timeline does so itself.
    fn clean(&self, name: &Name) {
        let Ok(file) = OpenOptions::new().write(true).open(self.file(LOCK)) else { return };
        let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { return };
        let again = UnixStream::connect(self.file(&name.0));
        if again.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            // If it fails, the next process that finds the socket removes it.
            let _ = self.forget(name);
        }
    }

    /// Listens under an unused name.
    pub fn listen(&self, name: &Name, _lock: &Lock) -> Result<UnixListener, Unusable> {
        self.forget(name)?;
        let listener = listen_for_owner(&self.file(&name.0));
        listener.map_err(|error| Unusable::step(&self.socket(name))(error.into()))
    }

    /// Whether there is a socket of that name.
    #[must_use]
    pub fn has(&self, name: &Name) -> bool {
        self.path.join(&name.0).exists()
    }

    /// Removes a timeline's socket.
    pub fn forget(&self, name: &Name) -> Result<(), Unusable> {
        match fs::remove_file(self.file(&name.0)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Unusable::step(&self.socket(name))(error))
            }
            _ => Ok(()),
        }
    }

    /// The names of all timelines, sorted. Removes what killed supervisors have left.
    pub fn names(&self) -> Result<Vec<Name>, Unusable> {
        let _lock = self.lock()?;
        let mut names = Vec::new();
        for entry in fs::read_dir(self.file(".")).map_err(Unusable::step(&self.path))? {
            let entry = entry.map_err(Unusable::step(&self.path))?;
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                self.sweep(&entry.file_name())?;
                continue;
            }
            let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
            let Some(name) = entry.file_name().to_str().and_then(|name| name.parse::<Name>().ok())
            else {
                continue;
            };
            match self.connect(&name)? {
                _ if !is_socket => {}
                Some(_) => names.push(name),
                None => self.forget(&name)?,
            }
        }
        names.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(names)
    }

    /// Removes the record of a container whose timeline no longer exists.
    fn sweep(&self, link: &OsStr) -> Result<(), Unusable> {
        let path = self.file(&link.to_string_lossy());
        let name = fs::read_link(&path).ok().and_then(|name| name.to_str()?.parse::<Name>().ok());
        if let Some(name) = name
            && self.connect(&name)?.is_none()
        {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Records which timeline has a container.
    pub fn note_container(&self, container: &Container, name: &Name) -> Result<(), Unusable> {
        let link = link_of(container);
        self.forget_container(container);
        symlink(&name.0, self.file(&link)).map_err(Unusable::step(&self.path.join(link)))
    }

    /// Removes that record.
    pub fn forget_container(&self, container: &Container) {
        // Usually it does not exist, or no longer.
        let _ = fs::remove_file(self.file(&link_of(container)));
    }

    /// The timeline recorded for a container.
    #[must_use]
    pub fn timeline_of(&self, container: &Container) -> Option<Name> {
        fs::read_link(self.file(&link_of(container))).ok()?.to_str()?.parse().ok()
    }

    /// Another handle of the same directory.
    pub fn copy(&self) -> io::Result<Self> {
        Ok(Self { path: self.path.clone(), directory: self.directory.try_clone()? })
    }

    /// The descriptor that keeps the directory open.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.directory.as_raw_fd()
    }
}

/// The file that records which timeline has a container. No timeline can have this name.
fn link_of(Container { id, root, .. }: &Container) -> String {
    format!(".container-{:016x}", fingerprint(format!("{root}\0{id}").as_bytes()))
}

/// Names the only directory in which timelines are created and looked for.
const ONLY: &str = "EIGENTIME_RUNTIME_DIR";

/// The directories for sockets of this user, each in a directory that the user owns (under `sudo`,
/// a variable may name another user's). Timelines are created in the first.
fn paths() -> Result<Vec<PathBuf>, Unusable> {
    let only = std::env::var_os(ONLY).filter(|only| !only.is_empty()).map(PathBuf::from);
    if let Some(path) = only {
        return match check_own(&path) {
            Ok(()) => Ok(vec![path.join(DIRECTORY)]),
            Err(reason) => Err(Unusable::Only { path, reason }),
        };
    }
    let own = geteuid().as_raw();
    // Where engines of ordinary users run as root, they mean the same directory as the user.
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let uid = outer_uid(&map, own).unwrap_or(own);
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(|path: OsString| PathBuf::from(path));
    let system = (uid == 0).then(|| PathBuf::from("/run"));
    let usual = PathBuf::from(format!("/run/user/{uid}"));
    let found = [named, system, Some(usual)].into_iter().flatten();
    let found = found.filter(|path| check_own(path).is_ok());
    let mut paths: Vec<_> = found.map(|path| path.join(DIRECTORY)).collect();
    paths.push(format!("/tmp/eigentime-{uid}").into());
    Ok(paths)
}

/// Checks that a path, followed from anywhere, leads to a directory of this user.
fn check_own(path: &Path) -> Result<(), String> {
    if path.is_relative() {
        return Err("it is not an absolute path".to_owned());
    }
    let found = fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_dir() {
        return Err("it is not a directory".to_owned());
    }
    match found.uid() == geteuid().as_raw() {
        true => Ok(()),
        false => Err("it belongs to another user".to_owned()),
    }
}

/// The name of the directory in the runtime directory.
const DIRECTORY: &str = "eigentime";

/// Listens at a path to which only its owner can connect: the socket file is created with the
/// socket's mode.
fn listen_for_owner(path: &Path) -> nix::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    socket::listen(&socket, Backlog::MAXCONN)?;
    Ok(socket.into())
}

/// The ID of a user outside the user namespace with this map.
fn outer_uid(map: &str, uid: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut words = line.split_whitespace().map(str::parse::<u32>);
        let [inside, outside, count] =
            [words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?];
        let within = uid.checked_sub(inside).filter(|within| *within < count)?;
        outside.checked_add(within)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("eigentime-registry-{}-{name}", std::process::id()))
    }

    #[test]
    fn names_are_file_names() {
        for name in ["a", "db-1", "2038", "a.b_c", &"x".repeat(64)] {
            assert_eq!(name.parse::<Name>().unwrap().to_string(), name);
        }
        for name in ["", ".lock", "-x", "a/b", "a b", "ü", "..", &"x".repeat(65)] {
            assert!(name.parse::<Name>().is_err(), "{name}");
        }
    }

    #[test]
    fn lists_who_listens_and_forgets_who_does_not() {
        let path = scratch("list");
        let registry = Registry::at(&path).unwrap();
        let name = |text: &str| text.parse::<Name>().unwrap();
        let lock = registry.lock().unwrap();
        let listener = registry.listen(&name("b"), &lock).unwrap();
        drop(registry.listen(&name("a"), &lock).unwrap());
        drop(lock);
        let mode = fs::metadata(registry.socket(&name("b"))).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(registry.connect(&name("a")).unwrap().is_none());
        assert!(registry.connect(&name("b")).unwrap().is_some());
        assert_eq!(registry.names().unwrap(), [name("b")]);
        assert!(!registry.socket(&name("a")).exists());
        drop(listener);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn users_are_known_by_what_they_are_outside() {
        assert_eq!(outer_uid("         0          0 4294967295\n", 0), Some(0));
        let rootless = "0 1000 1\n1 100000 65536\n";
        assert_eq!(outer_uid(rootless, 0), Some(1000));
        assert_eq!(outer_uid(rootless, 7), Some(100_006));
        assert_eq!(outer_uid(rootless, 70_000), None);
        assert_eq!(outer_uid("", 0), None);
    }

    #[test]
    fn knows_which_timeline_has_a_container() {
        let path = scratch("containers");
        let registry = Registry::at(&path).unwrap();
        let name: Name = "shop".parse().unwrap();
        let lock = registry.lock().unwrap();
        let listener = registry.listen(&name, &lock).unwrap();
        drop(lock);
        let container = |id: &str, root: &str| Container {
            id: id.to_owned(),
            root: root.to_owned(),
            ..Container::default()
        };
        registry.note_container(&container("a", ""), &name).unwrap();
        registry.note_container(&container("a", ""), &name).unwrap();
        assert_eq!(registry.timeline_of(&container("a", "")), Some(name.clone()));
        assert_eq!(registry.timeline_of(&container("a", "/r")), None);
        assert_eq!(registry.names().unwrap(), std::slice::from_ref(&name));
        assert!(registry.timeline_of(&container("a", "")).is_some());
        registry.forget_container(&container("a", ""));
        assert_eq!(registry.timeline_of(&container("a", "")), None);
        // Listing the names removes the record of a container whose timeline was killed.
        registry.note_container(&container("b", ""), &name).unwrap();
        drop(listener);
        assert!(registry.names().unwrap().is_empty());
        assert_eq!(registry.timeline_of(&container("b", "")), None);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn runtime_directories_are_ones_own() {
        let own = scratch("own");
        let file = own.join("file");
        fs::create_dir(&own).unwrap();
        fs::write(&file, "").unwrap();
        assert_eq!(check_own(&own), Ok(()));
        for (path, reason) in [
            (Path::new("."), "absolute"),
            (Path::new(""), "absolute"),
            (&file, "not a directory"),
            (&scratch("missing"), "No such file"),
        ] {
            assert!(check_own(path).unwrap_err().contains(reason), "{}", path.display());
        }
        fs::remove_dir_all(own).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let path = scratch("nowhere").join("eigentime");
        let text = Registry::at(&path).unwrap_err().to_string();
        assert!(text.contains(&path.display().to_string()), "{text}");
        assert!(text.contains("help: set EIGENTIME_RUNTIME_DIR or XDG_RUNTIME_DIR"), "{text}");
    }

    #[test]
    fn refuses_a_directory_that_others_enter() {
        let path = scratch("open");
        fs::create_dir(&path).unwrap();
        // Whatever the umask is.
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(Registry::at(&path), Err(Unusable::NotOurs(_))));
        fs::remove_dir(path).unwrap();
    }
}
