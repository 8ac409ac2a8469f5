//! podman and docker, whose command lines are almost the same.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::command::run;
use crate::containers::daemons::Daemon;
use crate::containers::engine::{Caller, Engine, Exec, Unable, printed};
use crate::containers::spec::{Choice, Image, Runtime, Spec, variable};
use crate::suite::Broken;

/// How long an engine may take for a command on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(180);

/// How settings reach the container.
#[derive(Clone, Copy, Debug)]
pub enum Channel {
    Annotations,
    Environment,
}

/// The differences between the two.
pub struct Words {
    pub channel: Channel,
    /// Words before the verb, for either runtime.
    pub global: fn(Runtime) -> Vec<String>,
    /// Words after `pull`.
    pub to_pull: fn() -> &'static [&'static str],
    /// Words after `run`.
    pub to_run: fn(Runtime) -> Vec<String>,
}

/// One of the two.
pub struct CommandLine {
    pub caller: Caller,
    pub program: &'static str,
    /// The first words of every command.
    pub base: Vec<OsString>,
    pub words: Words,
    pub ctl: Caller,
    pub eigentime: std::path::PathBuf,
    pub daemon: Mutex<Option<Daemon>>,
    pub loaded: Mutex<Vec<Image>>,
}

impl CommandLine {
    fn command(&self) -> Command {
        let mut command = self.caller.command(self.program);
        command.args(&self.base);
        command
    }

    /// Loads an image once.
    fn load(&self, image: Image) -> Result<(), Broken> {
        let mut loaded = self.loaded.lock().map_err(|error| Broken(error.to_string()))?;
        if !loaded.contains(&image) {
            let archive = &image.made()?.archive;
            run(self.command().arg("load").arg("--input").arg(archive), LIMIT)?.expect_code(0)?;
            loaded.push(image);
        }
        Ok(())
    }

    /// `run` and everything before the image's name; `how` is an option such as `--detach`.
    fn run_with(&self, name: &str, spec: &Spec, how: &[&str]) -> Result<Command, Unable> {
        if spec.reference.is_none() {
            self.load(spec.image).map_err(|broken| Unable(broken.0))?;
        }
        let mut command = self.command();
        command.args((self.words.global)(spec.runtime)).arg("run").args(how);
        command.args(["--name", name, "--network=none"]);
        command.args((self.words.to_run)(spec.runtime));
        for (key, value) in &spec.settings {
            match self.words.channel {
                Channel::Annotations => {
                    command.arg("--annotation").arg(format!("io.eigentime.{key}={value}"))
                }
                Channel::Environment => {
                    command.arg("--env").arg(format!("{}={value}", variable(key)))
                }
            };
        }
        for choice in &spec.choices {
            command.arg(word_of(choice)?);
        }
        command.arg(spec.image_name()).args(&spec.command);
        Ok(command)
    }

    fn inspect(&self, name: &str, what: &str) -> Result<String, Broken> {
        let mut command = self.command();
        command.args(["container", "inspect", "--format", what, name]);
        printed(&run(&mut command, LIMIT)?)
    }
}

fn word_of(choice: &Choice) -> Result<String, Unable> {
    Ok(match choice {
        Choice::ReadOnly => "--read-only".to_owned(),
        Choice::User(user, group) => format!("--user={user}:{group}"),
        Choice::NoCapabilities => "--cap-drop=all".to_owned(),
        Choice::NoNewPrivileges => "--security-opt=no-new-privileges".to_owned(),
        Choice::Seccomp(profile) => {
            format!("--security-opt=seccomp={}", profile.display())
        }
        Choice::Privileged => "--privileged".to_owned(),
        Choice::HostPids => "--pid=host".to_owned(),
        Choice::PidsOf(name, _) => format!("--pid=container:{name}"),
        Choice::Terminal => "--tty".to_owned(),
        Choice::MemoryMib(mib) => format!("--memory={mib}m"),
        Choice::Cpus(cpus) => format!("--cpus={cpus}"),
        Choice::Volume(folder, place) => format!("--volume={}:{place}", folder.display()),
        Choice::Variable(name, value) => format!("--env={name}={value}"),
        Choice::Pod(name) => format!("--pod={name}"),
        Choice::Configuration(..) => return Err(Unable("a runtime without an engine".into())),
    })
}

impl Engine for CommandLine {
    fn run(&self, name: &str, spec: &Spec) -> Result<Command, Unable> {
        self.run_with(name, spec, &["--rm", "--interactive"])
    }

    fn start(&self, name: &str, spec: &Spec) -> Result<Command, Unable> {
        self.run_with(name, spec, &["--detach"])
    }

    fn exec(&self, name: &str, how: Exec) -> Command {
        let mut command = self.command();
        command.arg("exec");
        command.arg(how.option().unwrap_or_else(|| "--interactive".to_owned()));
        command.arg(name);
        command
    }

    fn signal(&self, name: &str, signal: &str) -> Command {
        let mut command = self.command();
        command.args(["kill", "--signal", signal, name]);
        command
    }

    fn pause(&self, name: &str, is_paused: bool) -> Command {
        let mut command = self.command();
        command.args([if is_paused { "pause" } else { "unpause" }, name]);
        command
    }

    fn remove(&self, name: &str) {
        // It may be gone already.
        let _ = run(self.command().args(["rm", "--force", name]), LIMIT);
    }

    fn logs(&self, name: &str) -> Command {
        let mut command = self.command();
        command.args(["logs", name]);
        command
    }

    fn restart(&self, name: &str) -> Command {
        let mut command = self.command();
        command.args(["restart", "--time", "5", name]);
        command
    }

    fn id(&self, name: &str) -> Result<String, Broken> {
        self.inspect(name, "{{.Id}}")
    }

    fn init(&self, name: &str) -> Result<u32, Broken> {
        Ok(self.inspect(name, "{{.State.Pid}}")?.parse()?)
    }

    fn ctl(&self) -> Result<Command, Broken> {
        let mut command = self.ctl.command(&self.eigentime);
        command.arg("ctl");
        Ok(command)
    }

    fn pull(&self, reference: &str) -> Command {
        let mut command = self.command();
        command.arg("pull").args((self.words.to_pull)()).arg(reference);
        command
    }

    fn make_pod(&self, name: &str) -> Result<(), Broken> {
        self.load(Image::Busybox)?;
        let mut command = self.command();
        command.args((self.words.global)(Runtime::Wrapper));
        command.args(["pod", "create", "--name", name, "--network=none", "--share=pid,ipc,uts"]);
        command.args([
            "--infra-image",
            &Image::Busybox.name(),
            "--infra-command",
            "/opt/contained serve",
        ]);
        run(&mut command, LIMIT)?.expect_code(0)?;
        Ok(())
    }

    fn remove_pod(&self, name: &str) {
        // It may be gone already.
        let _ = run(self.command().args(["pod", "rm", "--force", name]), LIMIT);
    }

    fn shut_down(&self) {
        let listed = run(self.command().args(["ps", "--all", "--quiet"]), LIMIT);
        for name in listed.iter().flat_map(|ended| ended.lines.iter()) {
            self.remove(&name.text);
        }
        if let Ok(mut daemon) = self.daemon.lock()
            && let Some(mut daemon) = daemon.take()
            && let Err(broken) = daemon.stop()
        {
            eprintln!("{}: {broken}", self.program);
        }
    }
}
