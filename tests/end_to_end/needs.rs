//! The requirements of a test.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::command::User;
use crate::programs::Build;

/// A requirement. Each test lists all of its own; a missing one is reported.
#[derive(Clone, Debug)]
pub enum Need {
    /// A command on the path.
    Tool(&'static str),
    /// A program compiled this way, and so its compiler.
    Program(Build),
    /// Permission to become another user, to chroot and the like.
    Root,
    /// A time namespace for this user; ordinary users need user namespaces.
    TimeNamespace(User),
    /// Anything else that a test found out in advance.
    Other(bool, String),
}

impl Need {
    /// Returns what the machine lacks, for `needs ...`.
    pub fn missing(&self) -> Option<String> {
        match self {
            Need::Tool(name) => find_tool(name).is_none().then(|| (*name).to_owned()),
            Need::Program(build) => {
                let tool = build.compiler();
                find_tool(tool).is_none().then(|| tool.to_owned())
            }
            Need::Root => (!is_root()).then(|| "root".to_owned()),
            Need::TimeNamespace(user) => {
                (!has_time_namespace(*user)).then(|| format!("time namespaces for {user}"))
            }
            Need::Other(met, what) => (!met).then(|| what.clone()),
        }
    }
}

/// Whether the tests themselves run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The first file of that name on the path.
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// Asks `unshare`, once for each user.
fn has_time_namespace(user: User) -> bool {
    static KNOWN: Mutex<Option<HashMap<User, bool>>> = Mutex::new(None);
    let Ok(mut known) = KNOWN.lock() else {
        return false;
    };
    *known.get_or_insert_default().entry(user).or_insert_with(|| {
        let mut command: Command = user.wrap("unshare");
        if !user.is_root() {
            command.args(["--user", "--map-current-user"]);
        }
        command
            .args(["--time", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// Whether a command, run without Eigentime, ends with this status.
pub fn exits_with(command: &mut Command, code: i32) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.code() == Some(code))
}
