//! The processes of the operator, and the timelines of the machines that they take this one for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::server::{Running, Server, until};

/// The command that makes timelines; skips the test if there is none.
fn eigentime() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../build/bin/eigentime");
    let path = std::env::var_os("EIGENTIME_BIN").map_or(built, PathBuf::from);
    if !path.exists() {
        skip!("build/bin/eigentime (`make build`)");
    }
    path
}

/// A part of the operator, to which arguments are added.
pub fn part(server: &Server, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eigentime-operator"));
    let log = server.file(&format!("{name}-{}.log", number_of_files(server)));
    command.env("KUBECONFIG", server.kubeconfig()).stdin(Stdio::null());
    command.stderr(fs::File::create(log).unwrap());
    command
}

/// How many files there are, so that each log has a name of its own.
fn number_of_files(server: &Server) -> usize {
    fs::read_dir(server.directory.path()).unwrap().count()
}

/// Starts a controller.
pub fn controller(server: &Server) -> Running {
    controller_by(server, "eigentime-system")
}

/// Starts a controller that works if it holds the lease of a namespace.
pub fn controller_by(server: &Server, namespace: &str) -> Running {
    let mut command = part(server, "controller");
    command.args(["controller", "--identity", "it", "--lease-namespace", namespace]);
    Running(command.spawn().unwrap())
}

/// What `kubectl eigentime` prints, or complains of.
pub fn plugin(server: &Server, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-eigentime"));
    let output = command.args(words).env("KUBECONFIG", server.kubeconfig()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

/// A machine that is a node, with its agent.
pub struct Machine {
    name: String,
    directory: PathBuf,
    eigentime: PathBuf,
    agent: Option<Running>,
}

impl Machine {
    /// One that is called so.
    pub fn new(server: &Server, name: &str) -> Self {
        let eigentime = eigentime();
        let directory = server.file(&format!("run-{name}"));
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let mut machine = Self { name: name.to_owned(), directory, eigentime, agent: None };
        machine.start(server);
        machine
    }

    fn place<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("EIGENTIME_RUNTIME_DIR", &self.directory)
            .env("XDG_RUNTIME_DIR", &self.directory)
    }

    /// Starts its agent.
    pub fn start(&mut self, server: &Server) {
        let mut command = part(server, &format!("agent-{}", self.name));
        command.args(["agent", "--node", &self.name, "--eigentime"]).arg(&self.eigentime);
        self.agent = Some(Running(self.place(&mut command).spawn().unwrap()));
    }

    /// Kills its agent.
    pub fn kill(&mut self) {
        self.agent = None;
    }

    fn ctl(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.eigentime);
        let output = self.place(command.arg("ctl").args(words)).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        match output.status.success() {
            true => Ok(text(output.stdout)),
            false => Err(text(output.stderr)),
        }
    }

    /// Attaches a process to a timeline.
    pub fn attach(&self, process: u32, timeline: &str) {
        let mut command = Command::new(&self.eigentime);
        command.args(["attach", "--timeline", timeline, "--pid", &process.to_string()]);
        let output = self.place(&mut command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// How a timeline stands; nothing if there is none.
    pub fn show(&self, timeline: &str) -> Option<Value> {
        let shown = self.ctl(&["show", timeline, "--json"]).ok()?;
        Some(serde_json::from_str(&shown).unwrap())
    }

    /// How many timelines there are.
    pub fn timelines(&self) -> usize {
        self.ctl(&["list"]).unwrap().lines().count()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.agent = None;
        for line in self.ctl(&["list"]).unwrap_or_default().lines() {
            let name = line.split_whitespace().next().unwrap_or_default();
            // The directory goes in any case.
            let _ = self.ctl(&["rm", name, "--force"]);
        }
    }
}

/// Waits until a condition of a timeline holds for the present spec, by `kubectl wait`.
pub fn await_applied(server: &Server, timeline: &str) {
    server.kubectl(&["wait", "--for=condition=Applied", "timeline", timeline, "--timeout=120s"]);
}

/// Waits for the reason of the condition.
pub fn await_reason(server: &Server, timeline: &str, reason: &str) -> String {
    until(&format!("the reason is {reason}"), || {
        let object = server.get("timeline", timeline);
        let found = object["status"]["conditions"].as_array()?.iter().find(|it| {
            it["type"] == "Applied"
                && it["reason"] == reason
                && it["observedGeneration"] == object["metadata"]["generation"]
        })?;
        Some(found["message"].as_str()?.to_owned())
    })
}
