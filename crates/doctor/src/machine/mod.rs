//! Where facts are read: the kernel's files, below a root that tests can replace.
//!
//! - `cgroup`: the control groups that limit this process's processor time.
//! - `stat`: processor times.
//! - `run`: the state when the checks began, for counters.

pub mod cgroup;
pub mod run;
pub mod stat;

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

pub use eigentime_measure::Unknown;

use run::Run;

/// This machine, or a folder of files that look like one.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    run: OnceLock<Arc<Run>>,
}

impl Default for Machine {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Machine {
    /// A machine whose files are below a folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), run: OnceLock::new() }
    }

    /// The state when the checks began: the first call begins them.
    pub fn run(&self) -> &Run {
        self.run.get_or_init(|| Arc::new(Run::begin(self)))
    }

    /// The location of an absolute path.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The text in a file.
    ///
    /// # Errors
    /// [`Unknown`], with the path and the reason.
    pub fn text(&self, path: &str) -> Result<String, Unknown> {
        let bytes = std::fs::read(self.path(path)).map_err(|error| unreadable(path, &error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The text in a file of one line, trimmed.
    ///
    /// # Errors
    /// [`Unknown`], with the path and the reason.
    pub fn line(&self, path: &str) -> Result<String, Unknown> {
        self.text(path).map(|text| text.trim().to_owned())
    }

    /// The number in a file that contains one.
    ///
    /// # Errors
    /// [`Unknown`], with the path and the reason.
    pub fn number<T: FromStr>(&self, path: &str) -> Result<T, Unknown> {
        let line = self.line(path)?;
        line.parse().map_err(|_| Unknown::because(format!("{path} says '{line}', not a number")))
    }

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// [`Unknown`], with the path and the reason.
    pub fn names(&self, path: &str) -> Result<Vec<String>, Unknown> {
        let entries = std::fs::read_dir(self.path(path)).map_err(|error| unreadable(path, &error));
        let names = entries?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names.collect();
        names.sort();
        Ok(names)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Unknown`], with the path and the reason.
    pub fn link(&self, path: &str) -> Result<PathBuf, Unknown> {
        std::fs::read_link(self.path(path)).map_err(|error| unreadable(path, &error))
    }

    /// Whether `/proc` shows the processes of others. It does not if it is not mounted, nor to
    /// ordinary users if mounted with `hidepid`; the first process always exists.
    pub fn shows_all_processes(&self) -> bool {
        self.text("/proc/1/comm").is_ok()
    }

    /// Whether this is the actual machine, not files of a test.
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }
}

fn unreadable(path: &str, error: &io::Error) -> Unknown {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is none".to_owned(),
        io::ErrorKind::PermissionDenied => "only root may read it".to_owned(),
        _ => error.to_string(),
    };
    Unknown::because(format!("{path}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_unknown_with_its_reason() {
        let machine = Machine::default();
        assert_eq!(
            machine.line("/proc/self/none").unwrap_err().to_string(),
            "/proc/self/none: there is none"
        );
        let why = machine.number::<u32>("/proc/sys/kernel/ostype").unwrap_err().to_string();
        assert_eq!(why, "/proc/sys/kernel/ostype says 'Linux', not a number");
        assert!(machine.number::<u64>("/proc/sys/kernel/pid_max").unwrap() > 0);
    }
}
