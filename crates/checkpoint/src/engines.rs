//! The engines of containers. Only its engine can dump a container: it knows the container's
//! mounts, control group and network.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use eigentime_supervisor::container::Container;
use serde::{Deserialize, Serialize};

/// What has started a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    Podman,
    Docker,
    Containerd,
    /// No engine: `eigentime-oci` was called by hand.
    Runtime,
    /// One that cannot be asked.
    Other,
}

/// How an engine is called.
struct Calls {
    name: &'static str,
    /// A path that exists where it runs, or the variable that says where else it runs. Otherwise it
    /// is not asked: some engines create directories when asked.
    runs: (&'static str, &'static str),
    /// Fails if the engine has no such container.
    ask: &'static str,
    /// Dumps a container.
    dump: &'static str,
    /// Restores it. `None` if it only restores what it has kept itself.
    restore: Option<&'static str>,
    /// Removes what it keeps of one that it could not restore.
    remove: Option<&'static str>,
    /// What precedes an option of `eigentime-oci`.
    own: &'static [&'static str],
}

impl Engine {
    /// The words in capitals are replaced by those of a container and of a checkpoint.
    const fn calls(self) -> Calls {
        const RUNTIME: Calls = Calls {
            name: "eigentime-oci",
            runs: ("/run/runc", ""),
            ask: "eigentime-oci ROOT state CONTAINER",
            dump: "eigentime-oci ROOT checkpoint --image-path DIRECTORY/images MORE CONTAINER",
            restore: Some(
                "eigentime-oci CLOCKS ROOT restore --detach --bundle BUNDLE --image-path \
                 DIRECTORY/images MORE CONTAINER",
            ),
            remove: None,
            own: &["--eigentime-"],
        };
        match self {
            Self::Podman => Calls {
                name: "podman",
                runs: ("/run/libpod", "CONTAINERS_CONF"),
                ask: "podman container inspect CONTAINER",
                dump: "podman --runtime eigentime container checkpoint --export \
                       DIRECTORY/container.tar MORE CONTAINER",
                restore: Some(
                    "podman --runtime eigentime CLOCKS container restore --import \
                     DIRECTORY/container.tar MORE",
                ),
                remove: Some("podman container rm CONTAINER"),
                own: &["--runtime-flag", "eigentime-"],
            },
            Self::Docker => Calls {
                name: "docker",
                runs: ("/run/docker.sock", "DOCKER_HOST"),
                ask: "docker container inspect CONTAINER",
                dump: "docker checkpoint create MORE CONTAINER NAME",
                restore: None,
                remove: None,
                own: &[],
            },
            Self::Containerd => Calls {
                name: "containerd",
                runs: ("/run/containerd/containerd.sock", "CONTAINERD_ADDRESS"),
                ask: "ctr containers info CONTAINER",
                dump: "ctr tasks checkpoint --exit --image-path DIRECTORY MORE CONTAINER",
                restore: None,
                remove: None,
                own: &[],
            },
            Self::Runtime => RUNTIME,
            Self::Other => Calls {
                name: "its engine",
                dump: "eigentime-oci ROOT checkpoint --image-path DIRECTORY MORE CONTAINER",
                restore: None,
                ..RUNTIME
            },
        }
    }

    pub const fn name(self) -> &'static str {
        self.calls().name
    }
}

/// Those that know a container wherever its runtime keeps it.
const ENGINES: [Engine; 3] = [Engine::Podman, Engine::Docker, Engine::Containerd];

/// The parents that engines give to containers.
const MONITORS: [&str; 2] = ["conmon", "containerd-shim"];

/// A container, and who can dump it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    pub engine: Engine,
    /// The container's name there.
    pub container: String,
    /// Where the runtime keeps it, if not in the usual place.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    root: String,
    /// Its bundle, if the runtime is called.
    #[serde(default)]
    bundle: PathBuf,
}

/// What else the words of a command stand for.
pub struct Words<'a> {
    /// The directory of the checkpoint.
    pub directory: &'a Path,
    /// The options for the clocks.
    pub clocks: &'a [String],
    /// More arguments.
    pub more: &'a [OsString],
}

impl Words<'_> {
    /// Where a command needs none.
    fn none() -> Self {
        Self { directory: Path::new(""), clocks: &[], more: &[] }
    }
}

impl Known {
    /// A container of this name, if there is one.
    pub fn by_name(name: &str) -> Option<Self> {
        let in_engine = |engine| Self::new(engine, name, "");
        let mut all = ENGINES.into_iter().map(in_engine);
        all.find(Self::is_there).or_else(|| Self::of_runtime(name, ""))
    }

    /// A container that is on a timeline.
    pub fn member(container: &Container) -> Self {
        let Container { id, root, name, .. } = container;
        let by_id = ENGINES.into_iter().map(|engine| Self::new(engine, id, ""));
        match by_id.into_iter().find(Self::is_there) {
            Some(known) => Self { container: name.as_ref().unwrap_or(id).clone(), ..known },
            None => {
                Self::of_runtime(id, root).unwrap_or_else(|| Self::new(Engine::Other, id, root))
            }
        }
    }

    /// A container that the runtime has.
    fn of_runtime(id: &str, root: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct State {
            pid: i32,
            bundle: PathBuf,
        }
        let known = Self::new(Engine::Runtime, id, root);
        if root.is_empty() && !known.runs() {
            return None;
        }
        let mut ask = known.ask();
        let told = ask.stdin(Stdio::null()).output().ok()?;
        let State { pid, bundle } = serde_json::from_slice(&told.stdout).ok()?;
        match has_monitor(pid) {
            true => Some(Self::new(Engine::Other, id, root)),
            false => Some(Self { bundle, ..known }),
        }
    }

    fn new(engine: Engine, container: &str, root: &str) -> Self {
        let [container, root] = [container, root].map(str::to_owned);
        Self { engine, container, root, bundle: PathBuf::new() }
    }

    fn runs(&self) -> bool {
        let (place, variable) = self.engine.calls().runs;
        Path::new(place).exists() || env::var_os(variable).is_some()
    }

    /// Whether its engine has it.
    pub fn is_there(&self) -> bool {
        let asked = || {
            let mut ask = self.ask();
            ask.stdin(Stdio::null()).output().is_ok_and(|told| told.status.success())
        };
        self.runs() && asked()
    }

    fn ask(&self) -> Command {
        self.command(self.engine.calls().ask, &Words::none())
    }

    /// The command that dumps it.
    pub fn dump(&self, words: &Words<'_>) -> Command {
        self.command(self.engine.calls().dump, words)
    }

    /// The command that restores it, if its engine can restore it from a directory.
    pub fn restore(&self, words: &Words<'_>) -> Option<Command> {
        Some(self.command(self.engine.calls().restore?, words))
    }

    /// The command that removes what its engine keeps of it if it could not be restored.
    pub fn remove(&self) -> Option<Command> {
        Some(self.command(self.engine.calls().remove?, &Words::none()))
    }

    fn command(&self, template: &str, words: &Words<'_>) -> Command {
        let mut all = template.split_whitespace().flat_map(|word| self.replace(word, words));
        let mut command = Command::new(beside_this(all.next().unwrap_or_default()));
        command.args(all);
        command
    }

    fn replace(&self, word: &str, words: &Words<'_>) -> Vec<OsString> {
        let Words { directory, clocks, more } = *words;
        let own = self.engine.calls().own;
        let option = |text: &String| {
            let (last, first) = own.split_last().unwrap_or((&"", &[]));
            let first = first.iter().map(|word| (*word).to_owned());
            first.chain([format!("{last}{text}")]).map(Into::into).collect::<Vec<_>>()
        };
        match word {
            "CONTAINER" => vec![self.container.clone().into()],
            "ROOT" if self.root.is_empty() => Vec::new(),
            "ROOT" => vec!["--root".into(), self.root.clone().into()],
            "BUNDLE" => vec![self.bundle.clone().into()],
            "DIRECTORY" => vec![directory.into()],
            "NAME" => vec![directory.file_name().unwrap_or_default().into()],
            "MORE" => more.to_vec(),
            "CLOCKS" => clocks.iter().flat_map(option).collect(),
            word => match word.strip_prefix("DIRECTORY/") {
                Some(name) => vec![directory.join(name).into()],
                None => vec![word.into()],
            },
        }
    }
}

/// A program of ours is where this one is; others are in PATH.
fn beside_this(program: OsString) -> OsString {
    let own = env::current_exe().ok().map(|own| own.with_file_name(&program));
    match own {
        Some(own) if program == Engine::Runtime.name() && own.exists() => own.into(),
        _ => program,
    }
}

/// Whether an engine watches a container.
fn has_monitor(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
    let name = parent.and_then(|it| fs::read_to_string(format!("/proc/{it}/comm")).ok());
    name.is_some_and(|name| MONITORS.iter().any(|monitor| name.starts_with(monitor)))
}
