//! Control groups, which freeze processes as engines do that pause a container.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome};

/// How long a group may take to freeze.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the unified hierarchy is mounted.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at))
    })
}

/// What a test of groups needs.
pub fn needs() -> [Need; 2] {
    [Need::Root, Need::Other(root().is_some(), "a cgroup2 hierarchy".into())]
}

/// A control group of one process and its descendants.
pub struct Group {
    directory: PathBuf,
}

impl Group {
    /// Puts a process into a group of its own.
    pub fn of(process: u32) -> Result<Self, Broken> {
        let root = root().ok_or_else(|| Broken("there is no cgroup2 hierarchy".into()))?;
        let directory = root.join(format!("eigentime-test-{process}"));
        fs::create_dir(&directory)?;
        let group = Self { directory };
        group.write("cgroup.procs", &process.to_string())?;
        Ok(group)
    }

    /// Returns once all its processes are frozen.
    pub fn freeze(&self) -> Outcome {
        self.write("cgroup.freeze", "1")?;
        let end = Instant::now() + PATIENCE;
        while !fs::read_to_string(self.directory.join("cgroup.events"))?.contains("frozen 1") {
            ensure!(Instant::now() < end, "the group does not freeze");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Lets them run again.
    pub fn thaw(&self) -> Outcome {
        self.write("cgroup.freeze", "0")
    }

    fn write(&self, file: &str, text: &str) -> Outcome {
        Ok(fs::write(self.directory.join(file), text)?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // If it is not empty, that is what the test says.
        let _ = self.thaw();
        let _ = fs::remove_dir(&self.directory);
    }
}
