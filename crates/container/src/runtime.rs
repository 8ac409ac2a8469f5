//! The OCI runtimes of this machine.

use std::env;
use std::path::{Path, PathBuf};

use crate::program::{self, USUAL_PATH, Version, is_program};

/// The runtimes to look for, in order of preference.
pub const KNOWN: [&str; 3] = ["runc", "crun", "youki"];

/// There is no OCI runtime.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// None of the known runtimes.
    #[error(
        "no OCI runtime is installed: neither runc nor crun nor youki is in {path}\n\
         help: install one (apt-get install runc), or name it"
    )]
    None {
        /// The directories that were searched.
        path: String,
    },
    /// Not the named runtime.
    #[error("there is no OCI runtime {0}\nhelp: install it, or name another one")]
    Named(String),
}

/// The variable that names the runtime if nothing else does, as in the environment of an engine's
/// daemon.
pub const VARIABLE: &str = "EIGENTIME_OCI_RUNTIME";

/// The requested name or path of the runtime: this one, or else that of the environment.
#[must_use]
pub fn asked_for(named: Option<String>) -> Option<String> {
    named.or_else(|| env::var(VARIABLE).ok())
}

/// Finds the named runtime, by path or name; without a name, the first known one.
///
/// # Errors
///
/// If there is none.
pub fn find(named: Option<&str>) -> Result<PathBuf, Missing> {
    match named {
        Some(named) if named.contains('/') => Some(PathBuf::from(named))
            .filter(|file| is_program(file))
            .ok_or_else(|| Missing::Named(named.to_owned())),
        Some(named) => program::find(named).ok_or_else(|| Missing::Named(named.to_owned())),
        None => KNOWN.iter().find_map(|name| program::find(name)).ok_or_else(|| {
            let path = env::var("PATH").unwrap_or_default();
            Missing::None { path: format!("{path}:{USUAL_PATH}") }
        }),
    }
}

/// The first version of each runtime that creates the time namespaces requested by a bundle, with
/// their offsets (runc's pull request 3876, crun's release notes, youki's pull request 3550).
const MAKE_TIME_NAMESPACES: [(&str, [u32; 3]); 3] =
    [("runc", [1, 2, 0]), ("crun", [1, 8, 4]), ("youki", [0, 7, 0])];

/// Whether this runtime creates time namespaces itself. Unknown runtimes are assumed not to.
pub fn makes_time_namespaces(runtime: &Path, version: Option<&Version>) -> bool {
    let name = runtime.file_name().and_then(|name| name.to_str());
    MAKE_TIME_NAMESPACES.iter().any(|(known, first)| {
        name == Some(known) && version.is_some_and(|version| version.is_at_least(*first))
    })
}

/// Like [`makes_time_namespaces`], but asks the runtime for its version first.
#[must_use]
pub fn enters_time_namespaces(runtime: &Path) -> bool {
    makes_time_namespaces(runtime, Version::of(runtime).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_unknown_runtimes_make_no_time_namespaces() {
        let makes = |runtime: &str, version: &str| {
            makes_time_namespaces(Path::new(runtime), Version::in_text(version).as_ref())
        };
        assert!(makes("/usr/bin/runc", "1.2.0") && makes("/usr/sbin/runc", "1.5.2"));
        assert!(makes("/usr/bin/crun", "1.21") && makes("/usr/bin/youki", "0.7.0"));
        assert!(!makes("/usr/sbin/runc", "1.1.5+ds1") && !makes("/usr/bin/crun", "1.8.1"));
        assert!(!makes("/opt/other", "9.0") && !makes("/usr/sbin/runc", "unknown"));
    }
}
