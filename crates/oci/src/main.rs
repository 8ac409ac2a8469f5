//! `eigentime-oci`, which engines call as their OCI runtime. It brings containers into timelines
//! and hands over to another runtime, which does everything else.
//!
//! - `arguments`: the command line of the engine.
//! - `bundle`: the settings in a bundle, and the changes made to it.
//! - `engine`: the names that engines give to their containers.
//! - `checkpoint`: checkpoint and restore of containers.
//! - `failure`: reports failures to engines.
#![cfg_attr(not(test), no_main)]

mod arguments;
mod bundle;
mod checkpoint;
mod engine;
mod failure;

use std::cell::RefCell;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use eigentime_container::runtime;
use eigentime_supervisor::container::{self, Bundle, Contained, Container};
use eigentime_supervisor::{Lifelong, NamedBy, Tracing, is_privileged, replaced};

use arguments::{Arguments, Verb};
use bundle::Document;
use failure::Level;

/// The exit status on failure, as in other runtimes.
const FAILED: i32 = 1;

// The process becomes the real runtime.
eigentime_supervisor::c_main!(start);

fn start() -> i32 {
    if let Some(status) = checkpoint::called_by_criu(&eigentime_supervisor::arguments()) {
        return status;
    }
    let arguments = Arguments::parse(eigentime_supervisor::arguments().into_iter().skip(1));
    let Err(reason) = run(&arguments);
    failure::tell(&arguments, Level::Error, &reason);
    FAILED
}

/// Becomes the real runtime. Returns only on failure.
fn run(arguments: &Arguments) -> Result<std::convert::Infallible, String> {
    let command = command(arguments)?;
    let root = arguments.root();
    // Lets the runtime find the container's processes as it left them.
    let visit = |words: &mut dyn Iterator<Item = &str>| {
        container::visit(&root, words).map_err(|error| error.to_string())
    };
    let container =
        |id: &String| Container { id: id.clone(), root: root.clone(), ..Container::default() };
    match &arguments.verb {
        Verb::Create { bundle, config, id } => {
            let config = config.clone().unwrap_or_else(|| bundle.join("config.json"));
            create(arguments, &config, container(id), &command)?;
        }
        Verb::Exec { id, process } => {
            exec(arguments, &container(id), process.as_deref(), &command)?;
        }
        Verb::Checkpoint(images) => {
            visit(&mut [images.id.as_str()].into_iter())?;
            checkpoint::dump(images, &container(&images.id), &command)?;
        }
        Verb::Restore { bundle, images } => {
            checkpoint::restore(arguments, bundle, images, container(&images.id), &command)?;
        }
        Verb::Unclear(unknown) => return Err(unknown.to_string()),
        Verb::Other => visit(&mut arguments.rest.iter().filter_map(|word| word.to_str()))?,
    }
    let Err(error) = nix::unistd::execv(&command[0], &command);
    Err(format!("cannot run {}: {}", command[0].to_string_lossy(), error.desc()))
}

/// The real runtime and its arguments.
fn command(arguments: &Arguments) -> Result<Vec<CString>, String> {
    let named = runtime::asked_for(arguments.runtime.clone());
    let runtime = runtime::find(named.as_deref()).map_err(|missing| missing.to_string())?;
    if is_this_program(&runtime) {
        return Err(format!(
            "the OCI runtime {} is this program\n\
             help: name the real one with --eigentime-runtime or {}",
            runtime.display(),
            runtime::VARIABLE
        ));
    }
    let words = [runtime.into_os_string()].into_iter().chain(arguments.rest.iter().cloned());
    Ok(words.map(word).collect())
}

fn word(word: OsString) -> CString {
    CString::new(word.into_vec()).expect("arguments hold no null byte")
}

fn is_this_program(runtime: &Path) -> bool {
    let [own, other] = [Path::new("/proc/self/exe"), runtime].map(fs::canonicalize);
    matches!((own, other), (Ok(own), Ok(other)) if own == other)
}

/// Becomes the runtime that creates a container in a timeline. Returns if the container must run on
/// the host's clocks, or on failure.
fn create(
    arguments: &Arguments,
    config: &Path,
    container: Container,
    command: &[CString],
) -> Result<(), String> {
    let trusts_environment = arguments.trusts_environment;
    let document = Document::read(config).map_err(|error| error.to_string())?;
    let settings = document.settings(trusts_environment).map_err(|wrong| wrong.to_string())?;
    if !settings.ignored.is_empty() {
        failure::tell(arguments, Level::Warning, &not_counted(&settings.ignored));
    }
    let pod = match engine::sandbox_of(&document) {
        Some(id) => {
            let sandbox = Container { id: id.to_owned(), ..container.clone() };
            container::timeline_of_pod(&sandbox, document.joined_namespaces())
                .map_err(|error| error.to_string())?
        }
        None => None,
    };
    if settings.is_empty() && pod.is_none() {
        return Ok(());
    }
    if !document.has_namespace("mount") {
        return Err(
            "the container has no mount namespace of its own, which is needed to tell its \
             programs from the runtime's\n\
             help: add a mount namespace to its config.json"
                .to_owned(),
        );
    }
    if !is_privileged() && document.maps_several_users() {
        return Err("a traced runtime of an ordinary user cannot map several users, because \
                    newuidmap loses its privileges\nhelp: map one user only, or call the \
                    runtime in a user namespace, as `podman` and `eigentime run --rootfs` do"
            .to_owned());
    }
    let tracing = match &settings.request {
        _ if document.notifies() => Tracing::Lifelong(Lifelong::Listened),
        request if request.traced => Tracing::Lifelong(Lifelong::Asked),
        _ => Tracing::Automatic,
    };
    let time_namespace = document.has_namespace("time");
    let name = engine::name_of(&document);
    let path = document.path().to_owned();
    let document = RefCell::new(document);
    let bundle = ForRuntime { document, runtime: &command[0], trusts_environment };
    let (clocks, consent) = (settings.request.clocks(), settings.request.consent());
    // The pod's sandbox created its timeline, from the settings shared by all containers of the
    // pod.
    let (clocks, timeline, named_by) = match &pod {
        Some(timeline) => (None, Some(timeline.clone()), NamedBy::User),
        None => (clocks, settings.request.timeline, NamedBy::Bundle),
    };
    let contained = Contained {
        runtime: command.to_vec(),
        container: Container { name, ..container },
        clocks,
        consent,
        rewrites: !settings.request.no_rewrite,
        timeline,
        existing: settings.request.existing || pod.is_some(),
        named_by,
        time_namespace,
        bundle: &bundle,
        put_back: vec![path.clone()],
        dies_with: None,
        tracing,
    };
    let error = container::start(&contained);
    put_back(&path);
    Err(error.to_string())
}

/// The message for a user whose variables are ignored.
fn not_counted(variables: &[String]) -> String {
    format!(
        "{} ignored: an image may have set {}\n\
         help: use annotations (io.eigentime.date=...), or allow variables by \
         `eigentime setup ENGINE --trust-environment`",
        match variables {
            [one] => format!("the variable {one} is"),
            all => format!("the variables {} are", all.join(", ")),
        },
        if variables.len() == 1 { "it" } else { "them" }
    )
}

/// Restores a file that may have been replaced; on failure, the next call does it.
fn put_back(path: &Path) {
    let _ = replaced::put_back(path);
}

/// A bundle, and the runtime that will read it.
struct ForRuntime<'a> {
    document: RefCell<Document>,
    runtime: &'a CString,
    trusts_environment: bool,
}

impl Bundle for ForRuntime<'_> {
    fn is_heeded(&self) -> bool {
        let runtime = Path::new(OsStr::from_bytes(self.runtime.as_bytes()));
        runtime::enters_time_namespaces(runtime)
    }

    fn write(&self, time_namespace: Option<&Path>) -> Result<(), String> {
        let mut document = self.document.borrow_mut();
        let has_ours = document.take_ours(self.trusts_environment);
        if let Some(path) = time_namespace {
            document.join_time_namespace(path);
        }
        match has_ours || time_namespace.is_some() {
            true => document.replace().map_err(|error| error.to_string()),
            false => Ok(()),
        }
    }
}

/// Becomes the runtime that starts a program in a container, if the container is in a timeline.
/// Returns if it is not, or on failure.
fn exec(
    arguments: &Arguments,
    container: &Container,
    process: Option<&Path>,
    command: &[CString],
) -> Result<(), String> {
    // Anything other than a regular file may be readable only once, which is left to the runtime.
    let process = process.filter(|process| process.is_file());
    let take = || {
        let Some(process) = process.filter(|_| arguments.trusts_environment) else {
            return Ok(Vec::new());
        };
        let mut document = Document::read(process).map_err(|error| error.to_string())?;
        match document.take_variables() {
            true => document.replace().map_err(|error| error.to_string())?,
            false => return Ok(Vec::new()),
        }
        Ok(vec![document.path().to_owned()])
    };
    let entered = container::enter(container, command, take);
    if let Some(process) = process
        && entered.is_err()
    {
        put_back(process);
    }
    entered.map_err(|error| error.to_string())
}
