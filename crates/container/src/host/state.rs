//! The state directory: persistent data of images, and the data of running containers.
//!
//! ```text
//! .lock          held while creating or looking for the following
//! images/        one directory for each image: see `images`
//! runs/ID/       one directory for each `eigentime run`
//!   lock         held by it as long as it lives
//!   runtime      a symbolic link to the runtime
//!   state/       the runtime's state
//!   upper/       the container's writes
//! ```
//!
//! A run's directory with an unlocked lock was left by a run that was killed. The next run removes
//! it.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use crate::error::Error;
use crate::host::namespaces::Namespaces;

/// The location of root's state.
const OF_ROOT: &str = "/var/lib/eigentime";

/// The location of a user's state, below the home directory.
const OF_USER: &str = ".local/share";

/// The variable that sets the location of the state.
const VARIABLE: &str = "EIGENTIME_STATE";

const TURN: &str = ".lock";
const LOCK: &str = "lock";
const RUNTIME: &str = "runtime";
const STATE: &str = "state";

/// The state directory.
#[derive(Debug)]
pub struct State {
    root: PathBuf,
    /// The directory of images: those of a single-user namespace are unusable for several users,
    /// and vice versa.
    images: &'static str,
}

/// Permission to create and look for things in the state directory.
pub struct Lock {
    _lock: Flock<File>,
}

/// The location of the caller's state directory. Must be called before the caller becomes root of a
/// user namespace.
///
/// # Errors
///
/// If the environment does not determine the location of a user's data.
pub fn place() -> Result<PathBuf, Error> {
    let named = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(place) = env::var_os(VARIABLE).filter(|place| !place.is_empty()) {
        return std::path::absolute(&place).map_err(Error::file("find", Path::new(&place)));
    }
    if geteuid().is_root() {
        return Ok(OF_ROOT.into());
    }
    let data = named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(OF_USER)));
    Ok(data.ok_or(Error::NoHome)?.join("eigentime"))
}

impl State {
    /// Opens the state directory, and creates it if missing.
    ///
    /// # Errors
    ///
    /// If it cannot be created, or others own or can write it.
    pub fn open(root: PathBuf, namespaces: &Namespaces) -> Result<Self, Error> {
        let images = if namespaces.have_one_user() { "images-of-one-user" } else { "images" };
        let state = Self { root, images };
        for folder in [state.root.clone(), state.images(), state.runs()] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.map_err(Error::file("make", &folder))?;
        }
        let found = fs::metadata(&state.root).map_err(Error::file("read", &state.root))?;
        if found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            return Err(Error::NotOurs(state.root));
        }
        Ok(state)
    }

    /// The directory of images.
    #[must_use]
    pub fn images(&self) -> PathBuf {
        self.root.join(self.images)
    }

    fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Waits for permission to create and look for things.
    ///
    /// # Errors
    ///
    /// If the lock fails.
    pub fn lock(&self) -> Result<Lock, Error> {
        Ok(Lock { _lock: lock(&self.root.join(TURN), Hold::Alone)? })
    }

    /// Creates the directory of a run, with a name that begins with `beginning`.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn start_run(&self, beginning: &str) -> Result<Run, Error> {
        let _turn = self.lock()?;
        for number in 0.. {
            let id = match number {
                0 => beginning.to_owned(),
                _ => format!("{beginning}-{number}"),
            };
            let path = self.runs().join(&id);
            match DirBuilder::new().mode(0o700).create(&path) {
                // Left by a process that had our number, and not removed yet.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file("make", &path)(error)),
                Ok(()) => {
                    let lock = lock(&path.join(LOCK), Hold::Alone)?;
                    return Ok(Run { id, path, _lock: lock });
                }
            }
        }
        unreachable!("there are more numbers than directories")
    }

    /// Removes what killed runs left. Returns the errors of failed removals.
    ///
    /// # Errors
    ///
    /// If the directory cannot be searched.
    pub fn sweep(&self) -> Result<Vec<Error>, Error> {
        let turn = self.lock()?;
        let runs = self.runs();
        let mut left = Vec::new();
        for entry in fs::read_dir(&runs).map_err(Error::file("read", &runs))? {
            let path = entry.map_err(Error::file("read", &runs))?.path();
            if let Some(lock) = try_lock(&path.join(LOCK), Hold::Alone)? {
                let id = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                left.push(Run { id, path, _lock: lock });
            }
        }
        // No other process takes them now: their locks are held.
        drop(turn);
        Ok(left.into_iter().filter_map(|run| self.end_run(run).err()).collect())
    }

    /// Ends the remains of the container, then removes the directory of the run.
    ///
    /// # Errors
    ///
    /// If the removal fails.
    pub fn end_run(&self, run: Run) -> Result<(), Error> {
        run.end_container()?;
        for entry in fs::read_dir(&run.path).map_err(Error::file("read", &run.path))? {
            let path = entry.map_err(Error::file("read", &run.path))?.path();
            let removed = match path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                true => fs::remove_dir_all(&path),
                // Removed last: a directory without a lock is taken for that of a dead run.
                false if path.file_name() == Some(LOCK.as_ref()) => Ok(()),
                false => fs::remove_file(&path),
            };
            removed.map_err(Error::file("remove", &path))?;
        }
        let _turn = self.lock()?;
        fs::remove_dir_all(&run.path).map_err(Error::file("remove", &run.path))
    }
}

/// The directory of a run, with its lock held.
pub struct Run {
    /// The runtime's name for the container.
    pub id: String,
    path: PathBuf,
    _lock: Flock<File>,
}

impl Run {
    /// The path of a file in the directory.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a subdirectory.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.file(name);
        fs::create_dir(&path).map_err(Error::file("make", &path))?;
        Ok(path)
    }

    /// Records the runtime, for those who find the directory after this process is gone, and
    /// returns the directory for the runtime's state.
    ///
    /// # Errors
    ///
    /// If it cannot be recorded.
    pub fn note_runtime(&self, runtime: &Path) -> Result<PathBuf, Error> {
        let link = self.file(RUNTIME);
        std::os::unix::fs::symlink(runtime, &link).map_err(Error::file("make", &link))?;
        Ok(self.file(STATE))
    }

    /// Ends the remains of the container: a killed runtime also leaves its control groups.
    fn end_container(&self) -> Result<(), Error> {
        let state = self.file(STATE);
        let Ok(runtime) = fs::read_link(self.file(RUNTIME)) else { return Ok(()) };
        if !state.join(&self.id).exists() {
            return Ok(());
        }
        let mut delete = Command::new(&runtime);
        delete.arg("--root").arg(&state).args(["delete", "--force", &self.id]);
        let deleted = match delete.stdin(Stdio::null()).output() {
            // Without the runtime, nothing can be done about it.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            deleted => deleted.map_err(Error::file("execute", &runtime))?,
        };
        match deleted.status.success() {
            true => Ok(()),
            false => Err(Error::Tool {
                what: format!("what is left of container {} cannot be removed", self.id),
                said: String::from_utf8_lossy(&deleted.stderr).trim().to_owned(),
            }),
        }
    }
}

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Exclusive.
    Alone,
    /// Shared.
    Together,
}

/// Waits for a lock on a file, which is created if missing.
pub(crate) fn lock(path: &Path, hold: Hold) -> Result<Flock<File>, Error> {
    let how = match hold {
        Hold::Alone => FlockArg::LockExclusive,
        Hold::Together => FlockArg::LockShared,
    };
    lock_as(path, how).map_err(Error::file("lock", path))
}

/// Locks a file, which is created if missing, unless another process holds it.
pub(crate) fn try_lock(path: &Path, hold: Hold) -> Result<Option<Flock<File>>, Error> {
    let how = match hold {
        Hold::Alone => FlockArg::LockExclusiveNonblock,
        Hold::Together => FlockArg::LockSharedNonblock,
    };
    match lock_as(path, how) {
        Ok(held) => Ok(Some(held)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(Error::file("lock", path)(error)),
    }
}

fn lock_as(path: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    loop {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(path)?;
        let held = match Flock::lock(file, how) {
            Ok(held) => held,
            Err((_, Errno::EINTR)) => continue,
            Err((_, cause)) => return Err(cause.into()),
        };
        // A lock on a file that was removed meanwhile is void.
        let ours = held.metadata()?.ino();
        if fs::metadata(path).is_ok_and(|there| there.ino() == ours) {
            return Ok(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state directory that is removed after the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> (Self, State) {
            let path = env::temp_dir().join(format!("eigentime-{name}-{}", std::process::id()));
            let ids = |map: &str| crate::host::namespaces::Ids::parse(map);
            let namespaces = Namespaces { uids: ids("0 0 5"), gids: ids("0 0 5") };
            let state = State::open(path.clone(), &namespaces).unwrap();
            (Self(path), state)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn only_what_nobody_holds_is_swept() {
        let (_scratch, state) = Scratch::new("sweep");
        let lives = state.start_run("a").unwrap();
        let dies = state.start_run("a").unwrap();
        assert_ne!(lives.id, dies.id);
        let (path, kept) = (dies.path.clone(), lives.path.clone());
        fs::create_dir(dies.file("upper")).unwrap();
        drop(dies);
        // A run that was killed before it held anything.
        let bare = state.runs().join("bare");
        fs::create_dir(&bare).unwrap();
        assert!(state.sweep().unwrap().is_empty());
        assert!(!path.exists() && !bare.exists() && kept.exists());
        state.end_run(lives).unwrap();
        assert!(!kept.exists());
    }

    #[test]
    fn a_lock_that_was_removed_is_none() {
        let (scratch, _state) = Scratch::new("lock");
        let path = scratch.0.join("x");
        let first = try_lock(&path, Hold::Alone).unwrap().unwrap();
        assert!(try_lock(&path, Hold::Together).unwrap().is_none());
        fs::remove_file(&path).unwrap();
        let second = try_lock(&path, Hold::Together).unwrap().unwrap();
        assert!(try_lock(&path, Hold::Together).unwrap().is_some());
        drop((first, second));
    }

    #[test]
    fn a_directory_of_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let (scratch, _state) = Scratch::new("theirs");
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o777)).unwrap();
        let ids = |map: &str| crate::host::namespaces::Ids::parse(map);
        let namespaces = Namespaces { uids: ids("0 0 1"), gids: ids("0 0 1") };
        assert!(matches!(State::open(scratch.0.clone(), &namespaces), Err(Error::NotOurs(_))));
    }
}
