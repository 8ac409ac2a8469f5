//! A node's files for a test, in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tree::Root;

/// The folder.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates one.
    pub fn new(name: &str) -> Self {
        let name = format!("eigentime-installer-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// The node's root.
    pub fn root(&self) -> Root {
        Root::new(&self.0)
    }

    /// Writes a file of the node.
    pub fn write(&self, file: &str, text: &str) {
        let file = self.root().at(Path::new(file));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// All files, folders and links of the node, with their contents.
    pub fn tree(&self) -> Vec<(PathBuf, String)> {
        fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_symlink() {
                    found.push((path.clone(), format!("-> {:?}", fs::read_link(&path).unwrap())));
                } else if path.is_dir() {
                    found.push((path.clone(), String::new()));
                    walk(&path, found);
                } else {
                    found.push((path.clone(), fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.0, &mut found);
        found.sort();
        found
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
