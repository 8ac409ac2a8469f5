//! Control groups that a test makes, in the unified hierarchy (cgroup2).

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

/// Where the hierarchy is mounted.
fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at))
    })
}

/// What it takes to make a group.
pub fn needs() -> [Need; 2] {
    [Need::Root, Need::Other(hierarchy().is_some(), "a cgroup2 hierarchy".into())]
}

/// A group of processes, removed at the end.
pub struct Group {
    directory: PathBuf,
}

impl Group {
    /// Makes an empty one at the root of the hierarchy.
    pub fn new() -> Result<Self, Broken> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("eigentime-test-{}-{number}", std::process::id());
        let root = hierarchy().ok_or_else(|| Broken("there is no cgroup2 hierarchy".into()))?;
        let directory = root.join(name);
        fs::create_dir(&directory)?;
        Ok(Self { directory })
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
        self.write("cgroup.freeze", "1")?;
        let end = Instant::now() + PATIENCE;
        while !fs::read_to_string(self.directory.join("cgroup.events"))?.contains("frozen 1") {
            ensure!(Instant::now() < end, "the group does not freeze");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Lets its processes run again.
    pub fn thaw(&self) -> Outcome {
        self.write("cgroup.freeze", "0")
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
