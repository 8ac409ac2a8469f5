//! The steps from a process of ours to the OCI runtime: the mounts, and the description for the
//! runtime.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use eigentime_supervisor::container::{self as supervisor, Contained, Container, start};
use eigentime_supervisor::{NamedBy, run_in_namespace};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use oci_spec::OciSpecError;
use oci_spec::image::Config;
use oci_spec::runtime::Spec;

use crate::error::Error;
use crate::host::namespaces::Namespaces;
use crate::host::network::{Network, RESOLVER};
use crate::host::overlay::Overlay;
use crate::host::state::{Run, State};
use crate::image::cache::{self, Image, Layer};
use crate::image::fetch::{CONFIG, Fetcher, Progress};
use crate::run::foreground::Line;
use crate::run::{Asked, System, Writes};
use crate::runtime::enters_time_namespaces;
use crate::spec::bundle::{Bundle, Volume, join_time_namespace};
use crate::spec::process::{Environment, command_line, value};
use crate::spec::root::{Program, Root};
use crate::spec::users::{self, Account};

/// The source of a container's file system, kept while this is held.
pub struct Source {
    lower: PathBuf,
    image: Option<Image>,
    layer: Option<Layer>,
}

impl Source {
    /// Finds or fetches the source.
    ///
    /// # Errors
    ///
    /// If it cannot be obtained.
    pub fn new(
        asked: &Asked,
        namespaces: &Namespaces,
        state: &State,
        run: &Run,
    ) -> Result<Self, Error> {
        match &asked.system {
            System::Rootfs(path) => {
                let cannot = |cause| Error::NoRootfs { path: path.clone(), cause };
                let lower = fs::canonicalize(path).map_err(cannot)?;
                fs::read_dir(&lower).map_err(cannot)?;
                Ok(Self { lower, image: None, layer: None })
            }
            System::Image(reference) => {
                let fetcher = Fetcher { namespaces, progress: Progress::on_terminal() };
                let image = cache::provide(state, run, reference, fetcher)?;
                let kept = asked.writes == Writes::Kept;
                let layer = kept.then(|| image.layer()).transpose()?;
                Ok(Self { lower: image.rootfs(), image: Some(image), layer })
            }
        }
    }

    /// The write layer, if there should be one.
    fn overlay(&self, writes: Writes, run: &Run) -> Option<Overlay> {
        let layers = match (&self.layer, writes) {
            (Some(layer), _) => layer.path.clone(),
            (None, Writes::Discarded) => run.file("."),
            (None, Writes::Kept) => return None,
        };
        Some(Overlay { lower: self.lower.clone(), layers, target: run.file("rootfs") })
    }

    fn config(&self) -> Config {
        self.image.as_ref().map(|image| image.config.clone()).unwrap_or_default()
    }
}

/// The state before the fork of the child that becomes the runtime.
pub struct Preparation<'a> {
    /// The request.
    pub asked: &'a Asked,
    /// The available ids.
    pub namespaces: &'a Namespaces,
    /// The directory of this run.
    pub run: &'a Run,
    /// The source of the file system.
    pub source: &'a Source,
    /// The directory of the runtime's state.
    pub runtime_state: PathBuf,
    /// The process whose end also ends the container.
    pub parent: Pid,
    /// Whether the container gets a terminal.
    pub terminal: bool,
}

impl Preparation<'_> {
    /// The program's process, recorded by the runtime once it has started it.
    #[must_use]
    pub fn program(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.process_file()).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    }

    fn process_file(&self) -> PathBuf {
        self.run.file("pid")
    }

    /// Turns the calling process into the runtime. Returns only on failure.
    pub fn become_runtime(&self, parent: Line) -> Error {
        match self.prepare(parent) {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    fn prepare(&self, parent: Line) -> Result<Infallible, Error> {
        self.end_with_parent()?;
        // The mounts are invisible even to the parent, so it cannot remove anything below them
        // through them.
        unshare(CloneFlags::CLONE_NEWNS).map_err(Error::system("make a mount namespace"))?;
        let overlay = self.source.overlay(self.asked.writes, self.run);
        if let Some(overlay) = &overlay {
            overlay.mount()?;
        }
        if self.asked.network == Network::Private {
            await_connection(parent)?;
        }
        let root = overlay.map_or_else(|| self.source.lower.clone(), |overlay| overlay.target);
        let bundle = self.describe(&root)?;
        if let Some(offsets) = self.asked.namespace_only {
            return Err(run_in_namespace(&self.command(&bundle), offsets).into());
        }
        let error = start(&Contained {
            runtime: self.command(&bundle),
            container: Container { id: self.name(), ..Container::default() },
            clocks: self.asked.clocks.clone(),
            timeline: self.asked.timeline.clone(),
            existing: false,
            named_by: NamedBy::User,
            consent: self.asked.consent,
            time_namespace: true,
            bundle: &Described { runtime: &self.asked.runtime, file: bundle.join(CONFIG) },
            put_back: Vec::new(),
            dies_with: Some(self.parent),
            rewrites: self.asked.rewrites,
            tracing: self.asked.tracing,
        });
        Err(error.into())
    }

    /// Makes this process, and the program that it executes, end with its parent.
    fn end_with_parent(&self) -> Result<(), Error> {
        set_pdeathsig(Signal::SIGKILL).map_err(Error::system("end with the parent"))?;
        match getppid() == self.parent {
            true => Ok(()),
            false => Err(Error::ParentGone),
        }
    }

    /// The name of the container.
    fn name(&self) -> String {
        self.asked.name.as_ref().map_or_else(|| self.run.id.clone(), ToString::to_string)
    }

    fn command(&self, bundle: &Path) -> Vec<CString> {
        let words = [
            self.asked.runtime.as_os_str(),
            "--root".as_ref(),
            self.runtime_state.as_os_str(),
            "run".as_ref(),
            "--bundle".as_ref(),
            bundle.as_os_str(),
            "--pid-file".as_ref(),
            self.process_file().as_os_str(),
            self.run.id.as_ref(),
        ]
        .map(|word| CString::new(word.as_bytes()).expect("paths hold no null byte"));
        words.to_vec()
    }

    /// Writes the bundle, and returns its directory.
    fn describe(&self, root: &Path) -> Result<PathBuf, Error> {
        let Asked { entrypoint, command, .. } = self.asked;
        let config = self.source.config();
        let hostname = self.asked.hostname.clone().unwrap_or_else(|| self.name());
        let view = self.view(root)?;
        let account = self.account(&view, &config)?;
        let command = command_line(&config, entrypoint.as_deref(), command)?;
        let environment = Environment {
            image: &config,
            hostname: &hostname,
            home: &account.home,
            terminal: self.terminal,
            options: &self.asked.environment,
        }
        .variables();
        let folder = self.asked.folder.as_deref().or(config.working_dir().as_deref());
        let folder = folder.filter(|folder| !folder.is_empty()).unwrap_or("/");
        match view.program(&command[0], folder, value(&environment, "PATH")) {
            Program::There => {}
            Program::NotExecutable => return Err(Error::NotExecutable(command[0].clone())),
            Program::Missing => return Err(Error::NotFound(command[0].clone())),
        }
        let mut volumes = self.own_files(&view, &hostname)?;
        volumes.extend_from_slice(&self.asked.volumes);
        let spec = Bundle {
            root,
            hostname: &hostname,
            command: &command,
            environment: &environment,
            folder,
            account: &account,
            terminal: self.terminal,
            volumes: &volumes,
            network: self.asked.network,
            memory: self.asked.memory,
            cpus: self.asked.cpus,
            namespaces: self.namespaces,
        }
        .spec()
        .map_err(|error| Error::Bundle(error.to_string()))?;
        let bundle = self.run.folder("bundle")?;
        spec.save(bundle.join(CONFIG)).map_err(|error| Error::Bundle(error.to_string()))?;
        Ok(bundle)
    }

    /// The file system as the container will see it.
    fn view(&self, root: &Path) -> Result<Root, Error> {
        let place = |volume: &Volume| (volume.source.clone(), volume.destination.clone());
        let volumes: Vec<_> = self.asked.volumes.iter().map(place).collect();
        for (source, _) in &volumes {
            let cannot = |cause| Error::NoVolume { path: source.clone(), cause };
            fs::metadata(source).map_err(cannot)?;
        }
        Root::open(root, &volumes).map_err(Error::file("look into", root))
    }

    fn account(&self, view: &Root, config: &Config) -> Result<Account, Error> {
        let asked = self.asked.user.as_deref().or(config.user().as_deref()).unwrap_or_default();
        let table = |path| view.text(path).unwrap_or_default();
        let account = users::resolve(asked, &table("/etc/passwd"), &table("/etc/group"))?;
        let Namespaces { uids, gids } = self.namespaces;
        for (ids, id) in [(uids, account.uid), (gids, account.gid)] {
            if !ids.has(id) {
                return Err(Error::UnmappedUser { asked: asked.to_owned(), id });
            }
        }
        Ok(account)
    }

    /// Files that contain the container's name and its name server, where they can exist.
    fn own_files(&self, view: &Root, hostname: &str) -> Result<Vec<Volume>, Error> {
        let resolver = match self.asked.network {
            Network::None => None,
            Network::Private => Some(RESOLVER.to_owned()),
            // A host without a resolver configuration has none to pass on.
            Network::Host => fs::read_to_string("/etc/resolv.conf").ok(),
        };
        let hosts = format!(
            "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {hostname}\n"
        );
        let files = [
            ("hosts", Some(hosts)),
            ("hostname", Some(format!("{hostname}\n"))),
            ("resolv.conf", resolver),
        ];
        let folder = self.run.folder("etc")?;
        let mut volumes = Vec::new();
        for (name, text) in files {
            let Some(text) = text else { continue };
            let source = folder.join(name);
            fs::write(&source, text).map_err(Error::file("write", &source))?;
            let destination = Path::new("/etc").join(name);
            // The runtime could not create it in a directory of another owner.
            if !view.can_have(&destination) {
                continue;
            }
            volumes.push(Volume { source, destination, read_only: false });
        }
        Ok(volumes)
    }
}

/// The description of a container, as a file for a runtime.
struct Described<'a> {
    runtime: &'a Path,
    file: PathBuf,
}

impl supervisor::Bundle for Described<'_> {
    fn is_heeded(&self) -> bool {
        enters_time_namespaces(self.runtime)
    }

    fn write(&self, time_namespace: Option<&Path>) -> Result<(), String> {
        let Some(path) = time_namespace else { return Ok(()) };
        let named = || -> Result<(), OciSpecError> {
            let mut spec = Spec::load(&self.file)?;
            join_time_namespace(&mut spec, path)?;
            spec.save(&self.file)
        };
        named().map_err(|error| error.to_string())
    }
}

/// Creates a network that the parent connects.
fn await_connection(mut parent: Line) -> Result<(), Error> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(Error::system("make a network namespace"))?;
    parent.say().and_then(|()| parent.hear()).map_err(|_| Error::NoConnection)
}
