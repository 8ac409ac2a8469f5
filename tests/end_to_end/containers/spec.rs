//! What a container is to be like, in words that no engine uses.

use std::path::PathBuf;

use serde_json::Value;

/// What is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Image {
    /// A static busybox.
    Busybox,
    /// The distribution of this machine, in its smallest variant.
    Distribution,
    /// Static programs and nothing else, not even a shell.
    Scratch,
}

/// Which OCI runtime the engine calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `eigentime-oci`.
    Wrapper,
    /// `eigentime-oci`, told to use a runtime that is not there.
    WrapperOfNothing,
    /// The real one: without Eigentime.
    Bare,
}

/// What differs from a plain container.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    ReadOnly,
    /// Numbers of a user and a group.
    User(u32, u32),
    NoCapabilities,
    NoNewPrivileges,
    /// A file with a profile.
    Seccomp(PathBuf),
    Privileged,
    /// The host's process namespace.
    HostPids,
    /// The process namespace of a container of this name and process.
    PidsOf(String, u32),
    Terminal,
    MemoryMib(u64),
    Cpus(f64),
    /// A folder of the host and where it is to be seen.
    Volume(PathBuf, &'static str),
    Variable(&'static str, String),
    /// A pod of this name.
    Pod(String),
    /// What a bundle's configuration says in this place, a JSON pointer; a list gets it
    /// as one more.
    Configuration(&'static str, Value),
}

/// The environment variable of a setting.
pub fn variable(key: &str) -> String {
    format!("EIGENTIME_{}", key.to_uppercase().replace('-', "_"))
}

/// A container to be.
#[derive(Clone, Debug)]
pub struct Spec {
    pub image: Image,
    /// Where that came from, if the engine has fetched it itself.
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

    /// One that is there until it is told to stop.
    pub fn serving() -> Self {
        Self::new(&["/opt/contained", "serve"])
    }

    /// With a setting more.
    pub fn set(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.settings.push((key, value.into()));
        self
    }

    /// On a timeline of this name, which others may join.
    pub fn joinable(self, timeline: &str) -> Self {
        self.set("timeline", timeline).set("joinable", "true")
    }

    /// With these settings.
    pub fn with_settings(mut self, settings: &[(&'static str, &str)]) -> Self {
        self.settings.extend(settings.iter().map(|(key, value)| (*key, (*value).to_owned())));
        self
    }

    /// With a choice more.
    pub fn choose(mut self, choice: Choice) -> Self {
        self.choices.push(choice);
        self
    }

    /// With something else in it.
    pub fn of(mut self, image: Image) -> Self {
        self.image = image;
        self
    }

    /// What an engine calls what is in it.
    pub fn image_name(&self) -> String {
        self.reference.clone().unwrap_or_else(|| self.image.name())
    }

    /// By another runtime.
    pub fn by(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }
}
