//! containerd with state of its own, controlled with `ctr`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::command::run;
use crate::containers::commandline::LIMIT;
use crate::containers::daemons::{Daemon, connects};
use crate::containers::engine::{Caller, Engine, Exec, Unable};
use crate::containers::runtime_script;
use crate::containers::spec::{Choice, Image, Runtime, Spec};
use crate::needs::find_tool;
use crate::suite::Broken;
use crate::workspace;

/// The capabilities that `ctr run` gives to a container.
const CAPABILITIES: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

struct Containerd {
    caller: Caller,
    directory: PathBuf,
    /// A script that calls the wrapper with a missing runtime.
    of_nothing: PathBuf,
    bare: PathBuf,
    daemon: Mutex<Option<Daemon>>,
    loaded: Mutex<Vec<Image>>,
}

/// Starts the daemon.
pub fn start() -> Result<Box<dyn Engine>, Broken> {
    let directory = workspace::scratch()?;
    let place = |name: &str| directory.join(name).display().to_string();
    let settings = format!(
        "version = 2\n\
         root = {:?}\n\
         state = {:?}\n\
         disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
         [grpc]\n\
         address = {:?}\n\
         [ttrpc]\n\
         address = {:?}\n",
        place("root"),
        place("state"),
        place("socket"),
        place("socket.ttrpc"),
    );
    fs::write(directory.join("config.toml"), settings)?;
    let caller = Caller::default().with("XDG_RUNTIME_DIR", workspace::scratch()?);
    let mut command = caller.command("containerd");
    command.arg("--config").arg(directory.join("config.toml"));
    let mut daemon = Daemon::start(&command, &directory.join("log"))?;
    daemon.await_socket(|| connects(&directory.join("socket")))?;
    let engine = Containerd {
        of_nothing: runtime_script(&[], &["--eigentime-runtime", "/nonexistent"])?,
        bare: find_tool("runc").ok_or_else(|| Broken("runc".into()))?,
        caller,
        directory,
        daemon: Mutex::new(Some(daemon)),
        loaded: Mutex::default(),
    };
    run(engine.command().arg("version"), LIMIT)?.expect_code(0)?;
    Ok(Box::new(engine))
}

impl Containerd {
    fn command(&self) -> Command {
        let mut command = self.caller.command("ctr");
        command.arg("--address").arg(self.directory.join("socket"));
        command
    }

    fn load(&self, image: Image) -> Result<(), Broken> {
        let mut loaded = self.loaded.lock().map_err(|error| Broken(error.to_string()))?;
        if !loaded.contains(&image) {
            let archive = &image.made()?.archive;
            run(self.command().args(["images", "import"]).arg(archive), LIMIT)?.expect_code(0)?;
            loaded.push(image);
        }
        Ok(())
    }

    fn run_with(&self, spec: &Spec) -> Result<Command, Unable> {
        if spec.reference.is_none() {
            self.load(spec.image).map_err(|broken| Unable(broken.0))?;
        }
        let mut command = self.command();
        command.arg("run").arg("--runc-root").arg(self.directory.join("runc"));
        command.arg("--runc-binary").arg(match spec.runtime {
            Runtime::Wrapper => workspace::oci_wrapper(),
            Runtime::WrapperOfNothing => self.of_nothing.clone(),
            Runtime::Bare => self.bare.clone(),
        });
        if !spec.choices.contains(&Choice::NoNewPrivileges) {
            command.arg("--allow-new-privs");
        }
        for (key, value) in &spec.settings {
            command.arg("--annotation").arg(format!("io.eigentime.{key}={value}"));
        }
        for choice in &spec.choices {
            command.args(words_of(choice)?);
        }
        Ok(command)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }
}

fn words_of(choice: &Choice) -> Result<Vec<String>, Unable> {
    let one = |word: &str| Ok(vec![word.to_owned()]);
    match choice {
        Choice::ReadOnly => one("--read-only"),
        Choice::NoCapabilities => {
            Ok(CAPABILITIES.iter().map(|name| format!("--cap-drop=CAP_{name}")).collect())
        }
        // It is the default.
        Choice::NoNewPrivileges => Ok(Vec::new()),
        Choice::Seccomp(profile) => {
            Ok(vec!["--seccomp".into(), format!("--seccomp-profile={}", profile.display())])
        }
        Choice::Privileged => one("--privileged"),
        Choice::HostPids => one("--with-ns=pid:/proc/1/ns/pid"),
        Choice::PidsOf(_, init) => Ok(vec![format!("--with-ns=pid:/proc/{init}/ns/pid")]),
        Choice::Terminal => one("--tty"),
        Choice::MemoryMib(mib) => Ok(vec![format!("--memory-limit={}", mib << 20)]),
        Choice::Cpus(cpus) => Ok(vec![format!("--cpus={cpus}")]),
        Choice::Volume(folder, place) => Ok(vec![format!(
            "--mount=type=bind,src={},dst={place},options=rbind:rw",
            folder.display()
        )]),
        Choice::Variable(name, value) => Ok(vec![format!("--env={name}={value}")]),
        Choice::Pod(_) => Err(Unable("pods, which ctr has not".into())),
        Choice::Configuration(..) => Err(Unable("a runtime without an engine".into())),
        Choice::User(..) => Err(Unable("an option of `ctr run` for the user".into())),
    }
}

impl Engine for Containerd {
    fn run(&self, name: &str, spec: &Spec) -> Result<Command, Unable> {
        let mut command = self.run_with(spec)?;
        command.arg("--rm");
        command.arg(spec.image_name()).arg(name).args(&spec.command);
        Ok(command)
    }

    fn start(&self, name: &str, spec: &Spec) -> Result<Command, Unable> {
        let mut command = self.run_with(spec)?;
        command.arg("--detach").arg(format!("--log-uri=file://{}", self.log(name).display()));
        command.arg(spec.image_name()).arg(name).args(&spec.command);
        Ok(command)
    }

    fn exec(&self, name: &str, how: Exec) -> Command {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("exec-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut exec = self.command();
        exec.args(["tasks", "exec", "--exec-id", &id]).args(how.option());
        if !matches!(how, Exec::Plain | Exec::User(..)) {
            exec.arg(name);
            return exec;
        }
        // ctr itself may lose output of a program that ends soon (fixed after version 2.1: "ctr:
        // drain exec output before cleanup").
        let log = self.log(&format!("{name}-{id}"));
        exec.arg(format!("--log-uri=file://{}", log.display())).arg(name);
        let mut command = Command::new("sh");
        command.args(["-c", r#"log=$0; "$@"; status=$?; cat "$log"; exit $status"#]);
        command.arg(log).arg(exec.get_program()).args(exec.get_args());
        command
    }

    fn signal(&self, name: &str, signal: &str) -> Command {
        let mut command = self.command();
        command.args(["tasks", "kill", "--signal", signal, name]);
        command
    }

    fn pause(&self, name: &str, is_paused: bool) -> Command {
        let mut command = self.command();
        command.args(["tasks", if is_paused { "pause" } else { "resume" }, name]);
        command
    }

    fn remove(&self, name: &str) {
        // It may be gone already.
        let _ = run(self.command().args(["tasks", "delete", "--force", name]), LIMIT);
        let _ = run(self.command().args(["containers", "delete", name]), LIMIT);
    }

    fn logs(&self, name: &str) -> Command {
        let mut command = Command::new("cat");
        command.arg(self.log(name));
        command
    }

    fn restart(&self, _: &str) -> Command {
        unreachable!("ctr has no such command")
    }

    fn id(&self, name: &str) -> Result<String, Broken> {
        Ok(name.to_owned())
    }

    fn init(&self, name: &str) -> Result<u32, Broken> {
        let listed = run(self.command().args(["tasks", "list"]), LIMIT)?;
        let mut words = listed.lines.iter().map(|line| line.text.split_whitespace());
        let pid = words.find_map(|mut words| (words.next()? == name).then(|| words.next())?);
        let pid = pid.ok_or_else(|| listed.broken(format_args!("no task {name}")))?;
        Ok(pid.parse()?)
    }

    fn ctl(&self) -> Result<Command, Broken> {
        let mut command = self.caller.command(workspace::binary());
        command.arg("ctl");
        Ok(command)
    }

    fn pull(&self, reference: &str) -> Command {
        let mut command = self.command();
        command.args(["images", "pull", "--plain-http", reference]);
        command
    }

    fn make_pod(&self, _: &str) -> Result<(), Broken> {
        Err(Broken("ctr has no pods".into()))
    }

    fn remove_pod(&self, _: &str) {}

    fn shut_down(&self) {
        let listed = run(self.command().args(["containers", "list", "--quiet"]), LIMIT);
        for name in listed.iter().flat_map(|ended| ended.lines.iter()) {
            self.remove(&name.text);
        }
        if let Ok(mut daemon) = self.daemon.lock()
            && let Some(mut daemon) = daemon.take()
            && let Err(broken) = daemon.stop()
        {
            eprintln!("containerd: {broken}");
        }
    }
}
