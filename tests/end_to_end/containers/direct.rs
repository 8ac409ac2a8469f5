//! `eigentime run --rootfs` and `--image`: containers without an engine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::command::{Finished, run};
use crate::containers::commandline::LIMIT;
use crate::containers::engine::Caller;
use crate::containers::host;
use crate::containers::ordinary;
use crate::containers::spec::Image;
use crate::needs::Need;
use crate::suite::{Broken, Outcome};
use crate::workspace;

/// A test that root and an ordinary user must pass.
pub struct Scenario {
    pub name: &'static str,
    pub tools: &'static [&'static str],
    pub body: fn(&Runner) -> Outcome,
}

/// A user who runs containers, with a place for their files.
pub struct Runner {
    pub caller: Caller,
    pub is_root: bool,
    eigentime: PathBuf,
    /// A folder that this user may write to.
    home: PathBuf,
}

/// A user: the name in tests, and the requirements.
pub struct User {
    pub label: &'static str,
    tools: &'static [&'static str],
    make: fn() -> Result<Runner, Broken>,
    made: OnceLock<Result<Runner, Broken>>,
}

/// Root and an ordinary user.
pub static USERS: [User; 2] = [
    User { label: "root", tools: &[], make: root, made: OnceLock::new() },
    User {
        label: "rootless",
        tools: &["setpriv", "useradd", "newuidmap"],
        make: rootless,
        made: OnceLock::new(),
    },
];

impl User {
    /// The requirements of a scenario.
    pub fn needs(&self, scenario: &Scenario) -> Vec<Need> {
        let tools = self.tools.iter().chain(scenario.tools);
        let mut needs: Vec<Need> =
            tools.chain(&["runc", "busybox", "sha256sum"]).map(|tool| Need::Tool(tool)).collect();
        needs.extend([Need::Root, Need::Program(crate::programs::Build::Static)]);
        needs
    }

    /// Returns the user, created at the first request.
    pub fn runner(&self) -> Result<&Runner, String> {
        host::remember();
        self.made.get_or_init(self.make).as_ref().map_err(|broken| broken.0.clone())
    }
}

fn root() -> Result<Runner, Broken> {
    let (home, state) = (workspace::scratch()?, workspace::scratch()?);
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700))?;
    let caller = Caller::default()
        .with("XDG_RUNTIME_DIR", workspace::scratch()?)
        .with("EIGENTIME_STATE", state);
    Ok(Runner { caller, is_root: true, eigentime: workspace::binary().to_owned(), home })
}

fn rootless() -> Result<Runner, Broken> {
    let user = ordinary::user()?;
    let eigentime = workspace::public()?.join("eigentime");
    Ok(Runner { caller: user.caller(), is_root: false, eigentime, home: user.home.clone() })
}

impl Runner {
    /// Returns `eigentime run OPTIONS --`, to which the program is added.
    pub fn run(&self, options: &[&str]) -> Command {
        let mut command = self.caller.command(&self.eigentime);
        command.arg("run").args(options).arg("--");
        command
    }

    /// The same with a shared root directory, since nothing in it changes.
    pub fn in_rootfs(&self, options: &[&str]) -> Result<Command, Broken> {
        let rootfs = self.rootfs()?;
        let rootfs = rootfs.to_string_lossy();
        Ok(self.run(&[&["--rootfs", &rootfs], options].concat()))
    }

    /// Runs a program to its end.
    pub fn to_end(&self, options: &[&str], words: &[&str]) -> Result<Finished, Broken> {
        run(self.in_rootfs(options)?.args(words), LIMIT)
    }

    /// The same, which must succeed; returns its output.
    pub fn prints(&self, options: &[&str], words: &[&str]) -> Result<String, Broken> {
        let ended = self.to_end(options, words)?;
        ended.expect_code(0)?;
        Ok(ended.output().trim().to_owned())
    }

    /// Runs `eigentime WORDS`.
    pub fn eigentime(&self, words: &[&str]) -> Result<Finished, Broken> {
        run(self.caller.command(&self.eigentime).args(words), LIMIT)
    }

    /// A folder of this user with busybox in it.
    pub fn rootfs(&self) -> Result<PathBuf, Broken> {
        static UNPACKED: [OnceLock<Result<PathBuf, Broken>>; 2] = [const { OnceLock::new() }; 2];
        let unpacked = UNPACKED[usize::from(self.is_root)].get_or_init(|| self.new_rootfs());
        unpacked.clone()
    }

    /// Makes another one.
    pub fn new_rootfs(&self) -> Result<PathBuf, Broken> {
        let folder = self.home.join(super::container::new_name());
        Image::Busybox.made()?.unpack(&self.caller, &folder)?;
        Ok(folder)
    }

    /// Makes an empty folder of this user.
    pub fn folder(&self) -> Result<PathBuf, Broken> {
        let folder = self.home.join(super::container::new_name());
        run(self.caller.command("mkdir").arg(&folder), LIMIT)?.expect_code(0)?;
        Ok(folder)
    }
}

/// A line for each file in a folder: kind, mode, owner, size and content.
pub fn tree(folder: &Path) -> Result<Vec<String>, Broken> {
    const SCRIPT: &str = "cd \"$1\" && \
        find . -printf '%y %m %U:%G %s %T@ %p %l\\n' && \
        find . -type f -exec sha256sum '{}' +";
    let mut command = Command::new("sh");
    let listed = run(command.args(["-c", SCRIPT, "sh"]).arg(folder), LIMIT)?;
    listed.expect_code(0)?;
    let mut lines: Vec<String> = listed.lines.into_iter().map(|line| line.text).collect();
    lines.sort();
    Ok(lines)
}
