//! An ordinary user who is created for the tests and removed after them: unlike `nobody`, it has
//! subordinate users.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::command::run;
use crate::containers::engine::{Caller, printed};
use crate::processes;
use crate::suite::Broken;
use crate::workspace;

const PREFIX: &str = "eigentime-tests-";
const LIMIT: Duration = Duration::from_secs(30);

/// The user, and its folders.
#[derive(Debug)]
pub struct Ordinary {
    name: String,
    number: u32,
    pub home: PathBuf,
    /// `XDG_RUNTIME_DIR`.
    pub runtime: PathBuf,
}

static USER: OnceLock<Result<Ordinary, Broken>> = OnceLock::new();

/// Returns the user, created at the first request.
pub fn user() -> Result<&'static Ordinary, Broken> {
    USER.get_or_init(make).as_ref().map_err(Clone::clone)
}

fn make() -> Result<Ordinary, Broken> {
    remove_stale()?;
    let name = format!("{PREFIX}{}", std::process::id());
    let (home, runtime) = (workspace::scratch()?, workspace::scratch()?);
    let mut command = Command::new("useradd");
    command.args(["--no-create-home", "--user-group", "--shell", "/usr/sbin/nologin"]);
    run(command.arg("--home-dir").arg(&home).arg(&name), LIMIT)?.expect_code(0)?;
    let number = printed(&run(Command::new("id").args(["--user", &name]), LIMIT)?)?.parse()?;
    let user = Ordinary { name, number, home, runtime };
    for directory in [&user.home, &user.runtime] {
        chown(directory, Some(number), Some(number))?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    }
    for file in ["/etc/subuid", "/etc/subgid"] {
        let listed = fs::read_to_string(file).unwrap_or_default();
        if !listed.lines().any(|line| line.starts_with(&format!("{}:", user.name))) {
            user.remove()?;
            return Err(Broken(format!("subordinate users for new users, in {file}")));
        }
    }
    Ok(user)
}

/// Removes users of tests that were killed.
fn remove_stale() -> Result<(), Broken> {
    for line in fs::read_to_string("/etc/passwd")?.lines() {
        let name = line.split(':').next().unwrap_or_default();
        if let Some(pid) = name.strip_prefix(PREFIX)
            && !Path::new("/proc").join(pid).exists()
        {
            run(Command::new("userdel").arg(name), LIMIT)?;
        }
    }
    Ok(())
}

impl Ordinary {
    /// Returns a caller for this user, whose environment keeps only our path.
    pub fn caller(&self) -> Caller {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let words =
            ["setpriv", "--reuid", &self.name, "--regid", &self.name, "--init-groups", "--"];
        let caller = Caller {
            prefix: words.iter().map(Into::into).collect(),
            replaces_environment: true,
            environment: Vec::new(),
            directory: Some(self.home.clone()),
        };
        caller.with("PATH", path).with("HOME", &self.home).with("XDG_RUNTIME_DIR", &self.runtime)
    }

    /// Ends all processes of the user, which is ours alone.
    fn end_processes(&self) -> Result<(), Broken> {
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // It may have ended already.
            let Ok(watch) = processes::Watch::new(pid) else { continue };
            let users = processes::status_field(pid, "Uid").unwrap_or_default();
            let is_theirs = users.split_whitespace().any(|user| user == self.number.to_string());
            if is_theirs && watch.kill().is_ok() {
                watch.ends_within(LIMIT)?;
            }
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), Broken> {
        self.end_processes()?;
        // A zombie still counts as the user's process.
        run(Command::new("userdel").args(["--force", &self.name]), LIMIT)?;
        let known = fs::read_to_string("/etc/passwd")?;
        if known.lines().any(|line| line.starts_with(&format!("{}:", self.name))) {
            return Err(Broken(format!("user {} could not be removed", self.name)));
        }
        Ok(())
    }
}

/// Removes the user, if it was created.
pub fn end() -> Result<(), Broken> {
    match USER.get() {
        Some(Ok(user)) => user.remove(),
        _ => Ok(()),
    }
}
