//! Made-up machines for tests: trees of files in a temporary folder.

use std::fs;
use std::path::PathBuf;

use crate::Machine;

/// A folder that looks like the root of a machine.
pub struct Tree(PathBuf);

impl Tree {
    /// An empty tree; the name keeps tests apart.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("eigentime-{name}-{}", std::process::id()));
        // Left by a killed test of the same number.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Writes a file, whose path is relative to the root.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates a symbolic link.
    pub fn link(&self, path: &str, to: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    /// The machine with these files.
    pub fn machine(&self) -> Machine {
        Machine::at(&self.0)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A leftover folder is not a failure.
        let _ = fs::remove_dir_all(&self.0);
    }
}
