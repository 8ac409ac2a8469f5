//! The properties of a container, independent of any engine.

use std::path::PathBuf;

use serde_json::Value;

/// Its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Image {
    /// A static busybox.
    Busybox,
    /// The distribution of this machine, in its smallest variant.
    Distribution,
    /// Static programs only, without a shell.
    Scratch,
}

/// Which OCI runtime the engine calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `eigentime-oci`.
    Wrapper,
    /// `eigentime-oci`, configured with a missing runtime.
    WrapperOfNothing,
    /// The real runtime, without Eigentime.
    Bare,
}

/// A difference from a plain container.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    ReadOnly,
    /// A user ID and a group ID.
    User(u32, u32),
    NoCapabilities,
    NoNewPrivileges,
    /// A file with a seccomp profile.
    Seccomp(PathBuf),
    Privileged,
    /// The host's process namespace.
    HostPids,
    /// The process namespace of the container with this name and process ID.
    PidsOf(String, u32),
    Terminal,
    MemoryMib(u64),
    Cpus(f64),
    /// A folder of the host, and its mount point.
    Volume(PathBuf, &'static str),
    Variable(&'static str, String),
    /// A pod of this name.
    Pod(String),
    /// A value in the bundle's configuration at a JSON pointer; it is appended to a list.
    Configuration(&'static str, Value),
}

/// The environment variable of a setting.
pub fn variable(key: &str) -> String {
    format!("EIGENTIME_{}", key.to_uppercase().replace('-', "_"))
}

/// A container to be made.
#[derive(Clone, Debug)]
pub struct Spec {
    pub image: Image,
    /// Where the image came from, if the engine has fetched it itself.
    pub reference: Option<String>,
    pub runtime: Runtime,
    /// Clock settings: `date`, `rate` and the like.
    pub settings: Vec<(&'static str, String)>,
    pub choices: Vec<Choice>,
    pub command: Vec<String>,
}

impl Spec {
    /// A busybox container without settings.
    pub fn new(command: &[&str]) -> Self {
        Spec {
            image: Image::Busybox,
            reference: None,
            runtime: Runtime::Wrapper,
            settings: Vec::new(),
            choices: Vec::new(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
        }
    }

    /// A container that runs until it is told to stop.
    pub fn serving() -> Self {
        Self::new(&["/opt/contained", "serve"])
    }

    /// Adds a setting.
    pub fn set(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.settings.push((key, value.into()));
        self
    }

    /// Puts it on a timeline of this name, which others may join.
    pub fn joinable(self, timeline: &str) -> Self {
        self.set("timeline", timeline).set("joinable", "true")
    }

    /// Adds these settings.
    pub fn with_settings(mut self, settings: &[(&'static str, &str)]) -> Self {
        self.settings.extend(settings.iter().map(|(key, value)| (*key, (*value).to_owned())));
        self
    }

    /// Adds a choice.
    pub fn choose(mut self, choice: Choice) -> Self {
        self.choices.push(choice);
        self
    }

    /// Replaces its image.
    pub fn of(mut self, image: Image) -> Self {
        self.image = image;
        self
    }

    /// Returns an engine's name of its image.
    pub fn image_name(&self) -> String {
        self.reference.clone().unwrap_or_else(|| self.image.name())
    }

    /// Selects another runtime.
    pub fn by(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }
}
