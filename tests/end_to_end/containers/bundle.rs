//! OCI runtimes that are called directly, with handmade bundles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::command::run;
use crate::containers::commandline::LIMIT;
use crate::containers::container::new_name;
use crate::containers::engine::{Caller, Engine, Exec, Unable, by_script, printed};
use crate::containers::ordinary;
use crate::containers::spec::{Choice, Image, Runtime, Spec};
use crate::needs::find_tool;
use crate::suite::Broken;
use crate::workspace;

/// How long a killed container may take to disappear.
const SOON: Duration = Duration::from_secs(10);

/// The second hierarchy of a hybrid system, on which crun fails.
const UNIFIED: &str = "/sys/fs/cgroup/unified";

/// A runtime, and where its bundles are.
pub struct Bundles {
    caller: Caller,
    /// The program that makes containers.
    pub runtime: PathBuf,
    wrapper: PathBuf,
    directory: PathBuf,
    state: PathBuf,
    /// Whether the caller is root.
    pub is_root: bool,
    unpacked: Mutex<Vec<Image>>,
}

/// runc, as root.
pub fn runc() -> Result<Box<dyn Engine>, Broken> {
    let caller = Caller::default().with("XDG_RUNTIME_DIR", workspace::scratch()?);
    of_root(caller, "runc")
}

/// crun, as root.
pub fn crun() -> Result<Box<dyn Engine>, Broken> {
    let caller = Caller::default().with("XDG_RUNTIME_DIR", workspace::scratch()?);
    of_root(fit_for_crun(caller), "crun")
}

/// The same caller, adapted to where crun works.
pub fn fit_for_crun(caller: Caller) -> Caller {
    if !Path::new(UNIFIED).is_dir() {
        return caller;
    }
    let script = format!("umount {UNIFIED} && exec \"$@\"");
    let words = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", &script, "sh"];
    Caller { prefix: words.iter().map(Into::into).collect(), ..caller }
}

/// runc, as an ordinary user.
pub fn rootless() -> Result<Box<dyn Engine>, Broken> {
    let user = ordinary::user()?;
    let engine = Bundles {
        caller: user.caller(),
        runtime: tool("runc")?,
        wrapper: workspace::public()?.join("eigentime-oci"),
        directory: user.home.join("bundles"),
        state: user.runtime.join("runc"),
        is_root: false,
        unpacked: Mutex::default(),
    };
    Ok(Box::new(engine))
}

fn of_root(caller: Caller, runtime: &str) -> Result<Box<dyn Engine>, Broken> {
    let engine = Bundles {
        caller,
        runtime: tool(runtime)?,
        wrapper: workspace::oci_wrapper(),
        directory: workspace::scratch()?,
        state: workspace::scratch()?,
        is_root: true,
        unpacked: Mutex::default(),
    };
    Ok(Box::new(engine))
}

fn tool(name: &str) -> Result<PathBuf, Broken> {
    find_tool(name).ok_or_else(|| Broken(name.to_owned()))
}

impl Bundles {
    /// The same runtime and user, with another wrapper.
    pub fn by(&self, wrapper: PathBuf) -> Self {
        Self {
            caller: self.caller.clone(),
            runtime: self.runtime.clone(),
            wrapper,
            directory: self.directory.join(new_name()),
            state: self.state.clone(),
            is_root: self.is_root,
            unpacked: Mutex::default(),
        }
    }

    /// Whether each call is in a mount namespace of its own.
    pub fn mounts_apart(&self) -> bool {
        self.caller.prefix.first().is_some_and(|word| word == "unshare")
    }

    /// A container's bundle.
    pub fn bundle(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.bundle(name).join("log")
    }

    /// The folder into which an image is unpacked for this user.
    fn rootfs(&self, image: Image) -> Result<PathBuf, Broken> {
        let made = image.made()?;
        if self.is_root {
            return Ok(made.folder.clone());
        }
        let folder = self.directory.join(format!("{image:?}"));
        let mut unpacked = self.unpacked.lock().map_err(|error| Broken(error.to_string()))?;
        if !unpacked.contains(&image) {
            made.unpack(&self.caller, &folder)?;
            unpacked.push(image);
        }
        Ok(folder)
    }

    /// Returns the runtime, or the wrapper in its place, to which a verb is added.
    pub fn command(&self, runtime: Runtime) -> Command {
        let mut command = match runtime {
            Runtime::Bare => self.caller.command(&self.runtime),
            Runtime::Wrapper => {
                let mut command = self.caller.command(&self.wrapper);
                command.arg("--eigentime-runtime").arg(&self.runtime);
                command
            }
            Runtime::WrapperOfNothing => {
                let mut command = self.caller.command(&self.wrapper);
                command.args(["--eigentime-runtime", "/nonexistent"]);
                command
            }
        };
        command.arg("--root").arg(&self.state);
        command
    }

    /// Writes a bundle as the runtime itself would, and then applies the choices.
    fn write(&self, name: &str, spec: &Spec) -> Result<PathBuf, Broken> {
        let bundle = self.bundle(name);
        run(self.caller.command("mkdir").arg("-p").arg(&bundle), LIMIT)?.expect_code(0)?;
        let mut command = self.caller.command(&self.runtime);
        command.arg("spec").args(if self.is_root { &[][..] } else { &["--rootless"] });
        run(command.arg("--bundle").arg(&bundle), LIMIT)?.expect_code(0)?;
        let file = bundle.join("config.json");
        let read = |error| Broken(format!("{}: {error}", file.display()));
        let mut config: Value =
            serde_json::from_slice(&fs::read(&file)?).map_err(|error| read(error.to_string()))?;
        self.plain(&mut config, spec)?;
        for (key, value) in &spec.settings {
            config["annotations"][format!("io.eigentime.{key}")] = json!(value);
        }
        for choice in &spec.choices {
            apply(&mut config, choice)?;
        }
        fs::write(&file, config.to_string())?;
        Ok(bundle)
    }

    fn plain(&self, config: &mut Value, spec: &Spec) -> Result<(), Broken> {
        config["root"] = json!({ "path": self.rootfs(spec.image)?, "readonly": false });
        config["process"]["terminal"] = json!(false);
        config["process"]["noNewPrivileges"] = json!(false);
        config["process"]["args"] = json!(spec.command);
        if !config["annotations"].is_object() {
            config["annotations"] = json!({});
        }
        // Without the right to raise limits, the runtime's own defaults fail.
        if let Some(process) = config["process"].as_object_mut() {
            process.remove("rlimits");
        }
        Ok(())
    }

    /// Runs it in a shell whose output is a file, which a container in the background keeps open.
    fn logged(&self, name: &str, command: &Command) -> Command {
        const SCRIPT: &str = "log=$1; shift; \
            \"$@\" >\"$log\" 2>&1 </dev/null || { status=$?; cat \"$log\" >&2; exit $status; }";
        by_script(SCRIPT, &self.log(name), command)
    }
}

/// Applies a choice to a bundle's configuration.
fn apply(config: &mut Value, choice: &Choice) -> Result<(), Unable> {
    let bytes = |mib: &u64| mib << 20;
    match choice {
        Choice::ReadOnly => config["root"]["readonly"] = json!(true),
        Choice::User(user, group) => {
            config["process"]["user"] = json!({ "uid": user, "gid": group });
        }
        Choice::NoCapabilities => config["process"]["capabilities"] = json!({}),
        Choice::NoNewPrivileges => config["process"]["noNewPrivileges"] = json!(true),
        Choice::Seccomp(profile) => {
            let text = fs::read_to_string(profile).map_err(|error| Unable(error.to_string()))?;
            config["linux"]["seccomp"] =
                serde_json::from_str(&text).map_err(|error| Unable(error.to_string()))?;
        }
        Choice::HostPids => set_namespace(config, "pid", None),
        Choice::PidsOf(_, init) => {
            set_namespace(config, "pid", Some(json!(format!("/proc/{init}/ns/pid"))));
        }
        Choice::Terminal => config["process"]["terminal"] = json!(true),
        Choice::MemoryMib(mib) => {
            config["linux"]["resources"]["memory"]["limit"] = json!(bytes(mib));
        }
        Choice::Cpus(cpus) => {
            const PERIOD_US: f64 = 100_000.0;
            config["linux"]["resources"]["cpu"] =
                json!({ "period": PERIOD_US as u64, "quota": (cpus * PERIOD_US) as i64 });
        }
        Choice::Volume(folder, place) => push(
            &mut config["mounts"],
            json!({
                "destination": place, "source": folder, "type": "none",
                "options": ["rbind", "rw"],
            }),
        ),
        Choice::Variable(name, value) => {
            push(&mut config["process"]["env"], json!(format!("{name}={value}")));
        }
        Choice::Configuration(place, value) => set(config, place, value.clone()),
        Choice::Pod(_) => return Err(Unable("pods, which runtimes have not".into())),
        Choice::Privileged => {
            return Err(Unable("an option for privileged containers".into()));
        }
    }
    Ok(())
}

/// Sets a value at a JSON pointer, whose last part may not exist yet.
fn set(config: &mut Value, place: &str, value: Value) {
    let (parent, name) = place.rsplit_once('/').unwrap_or(("", place));
    if let Some(parent) = config.pointer_mut(parent) {
        match parent[name].is_array() {
            true => push(&mut parent[name], value),
            false => parent[name] = value,
        }
    }
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}

/// Removes a namespace; with a path, that one is joined.
fn set_namespace(config: &mut Value, kind: &str, path: Option<Value>) {
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["type"] != kind);
        namespaces.extend(path.map(|path| json!({ "type": kind, "path": path })));
    }
}

impl Engine for Bundles {
    fn run(&self, name: &str, spec: &Spec) -> Result<Command, Unable> {
        let bundle = self.write(name, spec).map_err(|broken| Unable(broken.0))?;
        let mut command = self.command(spec.runtime);
        command.arg("run").arg("--bundle").arg(bundle).arg(name);
        Ok(command)
    }

    fn start(&self, name: &str, spec: &Spec) -> Result<Command, Unable> {
        let bundle = self.write(name, spec).map_err(|broken| Unable(broken.0))?;
        let mut command = self.command(spec.runtime);
        command.args(["run", "--detach", "--bundle"]).arg(bundle).arg(name);
        Ok(self.logged(name, &command))
    }

    fn exec(&self, name: &str, how: Exec) -> Command {
        let mut command = self.command(Runtime::Wrapper);
        command.arg("exec");
        command.args(how.option()).arg(name);
        match how {
            // It would keep our pipes open.
            Exec::Detached => self.logged(name, &command),
            Exec::Plain | Exec::Talking | Exec::User(..) => command,
        }
    }

    fn signal(&self, name: &str, signal: &str) -> Command {
        let mut command = self.command(Runtime::Wrapper);
        command.args(["kill", name, signal]);
        command
    }

    fn pause(&self, name: &str, is_paused: bool) -> Command {
        let mut command = self.command(Runtime::Wrapper);
        command.args([if is_paused { "pause" } else { "resume" }, name]);
        command
    }

    fn remove(&self, name: &str) {
        let mut command = self.command(Runtime::Wrapper);
        // It may be gone already.
        let _ = run(command.args(["delete", "--force", name]), SOON);
    }

    fn logs(&self, name: &str) -> Command {
        let mut command = Command::new("cat");
        command.arg(self.log(name));
        command
    }

    fn restart(&self, _: &str) -> Command {
        unreachable!("runtimes have no such command")
    }

    fn id(&self, name: &str) -> Result<String, Broken> {
        Ok(name.to_owned())
    }

    fn init(&self, name: &str) -> Result<u32, Broken> {
        let mut command = self.command(Runtime::Wrapper);
        let text = printed(&run(command.args(["state", name]), LIMIT)?)?;
        let state: Value =
            serde_json::from_str(&text).map_err(|error| Broken(format!("{error} in {text}")))?;
        let pid = state["pid"].as_u64().ok_or_else(|| Broken(format!("no pid in {text}")))?;
        Ok(u32::try_from(pid)?)
    }

    fn ctl(&self) -> Result<Command, Broken> {
        let mut command = self.caller.command(self.wrapper.with_file_name("eigentime"));
        command.arg("ctl");
        Ok(command)
    }

    fn pull(&self, _: &str) -> Command {
        unreachable!("runtimes have no such command")
    }

    fn make_pod(&self, _: &str) -> Result<(), Broken> {
        Err(Broken("a runtime has no pods".into()))
    }

    fn remove_pod(&self, _: &str) {}

    fn bundles(&self) -> Option<&Bundles> {
        Some(self)
    }

    fn shut_down(&self) {
        let listed = run(self.command(Runtime::Wrapper).args(["list", "--quiet"]), LIMIT);
        for name in listed.iter().flat_map(|ended| ended.lines.iter()) {
            self.remove(&name.text);
        }
    }
}
