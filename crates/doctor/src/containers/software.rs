//! The installed software. None of it is always needed: a missing program is worth a note.

use std::path::{Path, PathBuf};

use eigentime_container::program::{self, Version};
use eigentime_container::runtime;
use eigentime_container::setup::{self, Caller, ENGINES, Engine};

use crate::machine::Unknown;
use crate::timers::wake_ups::pace;
use crate::{Finding, Machine, Options, Value};

pub fn runtime(_: &Machine, options: &Options) -> Finding {
    let file = match runtime::find(options.runtime.as_deref()) {
        Ok(file) => file,
        Err(missing) => {
            let text = missing.to_string();
            let (found, help) = text.split_once("\nhelp: ").unwrap_or((&text, "install one"));
            return Finding::note(found).advise(format!("for containers: {help}"), "");
        }
    };
    let version = version(&file);
    let makes = makes_time_namespaces(&file, &version);
    let how = match makes {
        Ok(true) => "makes time namespaces itself",
        Ok(false) => "is started inside the time namespace",
        Err(_) => "may make time namespaces itself, or be started inside",
    };
    Finding::ok(format!("{}: {how}", named(&file, &version)))
        .fact("program_path", text(&file))
        .fact("program_version", shown(&version))
        .fact("makes_time_namespaces", makes)
}

pub fn wrapper(_: &Machine, options: &Options) -> Finding {
    match &options.wrapper {
        Some(file) => Finding::ok(text(file)).fact("program_path", text(file)),
        None => Finding::note("neither beside this program nor on PATH")
            .advise("for containers: install it beside eigentime", ""),
    }
}

pub fn tool(name: &str) -> Finding {
    match program::find(name) {
        Some(file) => {
            let version = version(&file);
            Finding::ok(named(&file, &version))
                .fact("program_path", text(&file))
                .fact("program_version", shown(&version))
        }
        None => {
            Finding::note("not installed").advise(format!("for images: apt-get install {name}"), "")
        }
    }
}

/// The engine of this name in the table, and its program, if installed.
pub fn installed(name: &str) -> Option<(&'static Engine, PathBuf)> {
    let engine = ENGINES.iter().find(|engine| engine.name == name)?;
    let program = engine.programs.iter().find_map(|name| program::find(name))?;
    Some((engine, program))
}

/// An engine, and the configuration entry by which it finds `eigentime-oci`.
pub fn engine(name: &str) -> Finding {
    let Some((engine, file)) = installed(name) else {
        return Finding::note("not installed");
    };
    let version = version(&file);
    let program = named(&file, &version);
    let caller = Caller::this();
    // An ordinary user has a podman configuration file, but no other engine's.
    let sudo = if caller.is_root || name == "podman" { "" } else { "sudo " };
    let again = format!("{sudo}eigentime setup {name}");
    let entry = entry(&caller, engine);
    let finding = match &entry {
        Ok(Some(runtime)) if program::is_program(runtime) => {
            Finding::ok(format!("{program}, entry eigentime: {}", runtime.display()))
        }
        Ok(Some(runtime)) => {
            Finding::note(format!("{program}, entry eigentime: no program {}", runtime.display()))
                .advise(again, "")
        }
        Ok(None) => Finding::note(format!("{program}, no entry eigentime")).advise(again, ""),
        Err(why) => Finding::note(format!("{program}, entry unknown: {why}")),
    };
    let entry = entry.and_then(|entry| entry.ok_or_else(|| Unknown::because("there is none")));
    finding
        .fact("program_path", text(&file))
        .fact("program_version", shown(&version))
        .fact("engine_entry", entry.map(|runtime| text(&runtime)))
}

/// The entry in the caller's file, or else in the system-wide one.
///
/// # Errors
/// [`Unknown`] if the file cannot be read.
pub fn entry(caller: &Caller, engine: &Engine) -> Result<Option<PathBuf>, Unknown> {
    let root = Caller { is_root: true, ..Caller::default() };
    let files = [caller, &root].into_iter().filter_map(|caller| (engine.file)(caller));
    for file in files {
        let entry = setup::entry(engine, &file).map_err(|error| {
            let error = error.to_string();
            Unknown::because(error.lines().next().unwrap_or_default())
        })?;
        if let Some(entry) = entry {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// A program and its version, for display.
pub fn named(file: &Path, version: &Result<Version, Unknown>) -> String {
    match version {
        Ok(version) => format!("{} {version}", file.display()),
        Err(_) => format!("{} of unknown version", file.display()),
    }
}

/// Asks a program for its version.
///
/// # Errors
/// [`Unknown`] if it does not report it, and in a frozen timeline: many programs sleep briefly when
/// they start, which would never end.
pub fn version(file: &Path) -> Result<Version, Unknown> {
    pace()?;
    Version::of(file).ok_or_else(|| Unknown::because("it does not tell its version"))
}

/// Whether a runtime creates time namespaces itself.
///
/// # Errors
/// [`Unknown`] if its version is.
pub fn makes_time_namespaces(
    file: &Path,
    version: &Result<Version, Unknown>,
) -> Result<bool, Unknown> {
    let version = version.as_ref().map_err(Clone::clone)?;
    Ok(runtime::makes_time_namespaces(file, Some(version)))
}

fn text(file: &Path) -> String {
    file.display().to_string()
}

fn shown(version: &Result<Version, Unknown>) -> Value {
    version.as_ref().map(ToString::to_string).map_err(Clone::clone).into()
}
