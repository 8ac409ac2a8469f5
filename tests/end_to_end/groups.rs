//! Control groups that a test makes, in the unified hierarchy (cgroup2) or the one of the freezer
//! (cgroup).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome};

/// How long it may take until all processes of a group are frozen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A hierarchy of groups that can be frozen. A process that the second freezes cannot even be stopped
/// by its tracer until it is thawed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    Unified,
    Freezer,
}

impl Hierarchy {
    pub const ALL: [Self; 2] = [Self::Unified, Self::Freezer];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unified => "cgroup2",
            Self::Freezer => "freezer",
        }
    }

    /// Where it is mounted.
    fn root(self) -> Option<PathBuf> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (at, kind, mut options) = (words.next()?, words.next()?, words.next()?.split(','));
            let is_it = match self {
                Self::Unified => kind == "cgroup2",
                Self::Freezer => kind == "cgroup" && options.any(|it| it == "freezer"),
            };
            is_it.then(|| PathBuf::from(at))
        })
    }

    /// What it takes to make a group in it.
    pub fn needs(self) -> [Need; 2] {
        [Need::Root, Need::Other(self.root().is_some(), format!("the hierarchy {}", self.name()))]
    }

    /// The file by which groups are frozen, and what is written to it to freeze and to thaw them.
    fn switch(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Unified => ("cgroup.freeze", ["1", "0"]),
            Self::Freezer => ("freezer.state", ["FROZEN", "THAWED"]),
        }
    }

    /// The file and the text in it by which it is known that all are frozen.
    fn frozen(self) -> (&'static str, &'static str) {
        match self {
            Self::Unified => ("cgroup.events", "frozen 1"),
            Self::Freezer => ("freezer.state", "FROZEN"),
        }
    }
}

/// What it takes to make a group in the unified hierarchy.
pub fn needs() -> [Need; 2] {
    Hierarchy::Unified.needs()
}

/// A group of processes, removed at the end.
pub struct Group {
    hierarchy: Hierarchy,
    directory: PathBuf,
}

impl Group {
    /// Makes an empty one at the root of the unified hierarchy.
    pub fn new() -> Result<Self, Broken> {
        Self::of(Hierarchy::Unified)
    }

    /// The same in a hierarchy.
    pub fn of(hierarchy: Hierarchy) -> Result<Self, Broken> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("eigentime-test-{}-{number}", std::process::id());
        let missing = || Broken(format!("there is no hierarchy {}", hierarchy.name()));
        let root = hierarchy.root().ok_or_else(missing)?;
        let directory = root.join(name);
        fs::create_dir(&directory)?;
        Ok(Self { hierarchy, directory })
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Moves a process into it.
    pub fn take(&self, pid: u32) -> Outcome {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Returns once its processes are frozen.
    pub fn freeze(&self) -> Outcome {
        let (switch, [freeze, _]) = self.hierarchy.switch();
        let end = Instant::now() + PATIENCE;
        let (file, frozen) = self.hierarchy.frozen();
        loop {
            // The freezer of cgroup v1 misses a process that was about to wait for its child (vfork).
            self.write(switch, freeze)?;
            if fs::read_to_string(self.directory.join(file))?.contains(frozen) {
                return Ok(());
            }
            ensure!(Instant::now() < end, "the group does not freeze");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets its processes run again.
    pub fn thaw(&self) -> Outcome {
        let (switch, [_, thaw]) = self.hierarchy.switch();
        self.write(switch, thaw)
    }

    fn write(&self, file: &str, text: &str) -> Outcome {
        Ok(fs::write(self.directory.join(file), text)?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It stays if it is not empty, but then the test has failed.
        let _ = self.thaw();
        let _ = fs::remove_dir(&self.directory);
    }
}
