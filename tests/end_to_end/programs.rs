//! Compiles the programs under `tests/programs`, each only when a source is newer than its output.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::needs::find_tool;
use crate::workspace;

/// What to compile: a file of this name, or a folder of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Waits,
    Reads,
    Faults,
    Signals,
    Tree,
    SetClock,
    Monotonic,
    Inherit,
    Int80,
    Foreground,
    Agree,
    Steady,
    Armed,
    Ordered,
    Ask,
    Endless,
    Storm,
    Hot,
    Idle,
    Sandboxed,
    Sandbox,
    Arguments,
    Slowexec,
    Preload,
    /// The view from inside a container.
    Contained,
    /// The only content of an image.
    Scratch,
    /// One source for each language that has one.
    Clocks,
    /// The same, and one in C.
    Moved,
    /// The same.
    Ticking,
    Moving,
    Quiet,
    Sleepers,
    Counted,
}

/// How to compile it. The kinds of C program differ in where they keep their system calls and how
/// they find the vDSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    Dynamic,
    Static,
    StaticPie,
    Musl,
    Go,
    Rust,
    RustMusl,
    Java,
}

/// Everything that is compiled.
const ALL: &[(Program, &[Build])] = {
    use Build::*;
    use Program::*;
    &[
        (Waits, &[Dynamic, Static, StaticPie, Musl]),
        (Reads, &[Dynamic, Static, StaticPie, Musl]),
        (Faults, &[Dynamic, Musl]),
        (Signals, &[Dynamic, Static, Musl]),
        (Tree, &[Dynamic, Static, Musl]),
        (SetClock, &[Dynamic, Musl]),
        (Monotonic, &[Dynamic, Musl]),
        (Inherit, &[Dynamic, Static]),
        (Int80, &[Dynamic]),
        (Foreground, &[Dynamic]),
        (Agree, &[Dynamic, Static]),
        (Steady, &[Dynamic, Static]),
        (Armed, &[Dynamic, Musl]),
        (Ordered, &[Dynamic]),
        (Ask, &[Dynamic]),
        (Endless, &[Dynamic, Static]),
        (Storm, &[Dynamic, Static]),
        (Hot, &[Dynamic, Static, Musl, Java]),
        (Idle, &[Dynamic, Static, Musl, Go, Java]),
        (Sandboxed, &[Dynamic]),
        (Sandbox, &[Dynamic, Static]),
        (Arguments, &[Dynamic]),
        (Slowexec, &[Dynamic]),
        (Preload, &[Dynamic, Static]),
        (Contained, &[Static]),
        (Scratch, &[Go]),
        (Clocks, &[Go, Rust, RustMusl, Java]),
        (Moved, &[Dynamic, Static, Musl, Go, Rust, RustMusl, Java]),
        (Ticking, &[Dynamic, Static, Go, Java]),
        (Moving, &[Dynamic]),
        (Quiet, &[Dynamic]),
        (Sleepers, &[Dynamic]),
        (Counted, &[Static]),
    ]
};

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Waits => "waits",
            Program::Reads => "reads",
            Program::Faults => "faults",
            Program::Signals => "signals",
            Program::Tree => "tree",
            Program::SetClock => "setclock",
            Program::Monotonic => "monotonic",
            Program::Inherit => "inherit",
            Program::Int80 => "int80",
            Program::Foreground => "foreground",
            Program::Agree => "agree",
            Program::Steady => "steady",
            Program::Armed => "armed",
            Program::Ordered => "ordered",
            Program::Ask => "ask",
            Program::Endless => "endless",
            Program::Storm => "storm",
            Program::Hot => "hot",
            Program::Idle => "idle",
            Program::Sandboxed => "sandboxed",
            Program::Sandbox => "sandbox",
            Program::Arguments => "arguments",
            Program::Slowexec => "slowexec",
            Program::Preload => "preload",
            Program::Contained => "contained",
            Program::Scratch => "scratch",
            Program::Clocks => "clocks",
            Program::Moved => "moved",
            Program::Ticking => "ticking",
            Program::Moving => "moving",
            Program::Quiet => "quiet",
            Program::Sleepers => "sleepers",
            Program::Counted => "counted",
        }
    }

    /// The name of its class in Java.
    pub fn class(self) -> String {
        let name = self.name();
        name[..1].to_uppercase() + &name[1..]
    }

    /// The path of the compiled program.
    pub fn path(self, build: Build) -> PathBuf {
        workspace::compiled().join(self.file_name(build))
    }

    /// The compiled program's file name.
    pub fn file_name(self, build: Build) -> String {
        match build {
            Build::Java => format!("{}.class", self.class()),
            _ => format!("{}-{}", self.name(), build.name()),
        }
    }

    fn source_files(self, build: Build) -> Result<Vec<PathBuf>, String> {
        let sources = workspace::sources();
        let language = |file: String| vec![sources.join("languages").join(file)];
        let of_containers = |extension: &str| {
            vec![sources.join("containers").join(self.name()).with_extension(extension)]
        };
        Ok(match build {
            _ if self == Program::Contained => of_containers("c"),
            _ if self == Program::Scratch => of_containers("go"),
            Build::Go => language(format!("{}.go", self.name())),
            Build::Rust | Build::RustMusl => language(format!("{}.rs", self.name())),
            Build::Java => language(format!("{}.java", self.class())),
            _ if sources.join(self.name()).is_dir() => {
                files_ending_in(&sources.join(self.name()), "c")?
            }
            _ => vec![sources.join(self.name()).with_extension("c")],
        })
    }
}

impl Build {
    /// The name for tests and files.
    pub fn name(self) -> &'static str {
        match self {
            Build::Dynamic => "dynamic",
            Build::Static => "static",
            Build::StaticPie => "static_pie",
            Build::Musl => "musl",
            Build::Go => "go",
            Build::Rust => "rust",
            Build::RustMusl => "rust_musl",
            Build::Java => "java",
        }
    }

    /// The required compiler command.
    pub fn compiler(self) -> &'static str {
        match self {
            Build::Dynamic | Build::Static | Build::StaticPie => "gcc",
            Build::Musl => "musl-gcc",
            Build::Go => "go",
            Build::Rust | Build::RustMusl => "rustc",
            Build::Java => "javac",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        const C: &[&str] = &["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
        match self {
            Build::Dynamic => C,
            Build::Static | Build::Musl => {
                &["-static", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]
            }
            Build::StaticPie => {
                &["-static-pie", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]
            }
            Build::Go => &["build", "-o"],
            Build::Rust => &["--edition", "2024", "-O", "-o"],
            Build::RustMusl => {
                &["--edition", "2024", "-O", "--target", "x86_64-unknown-linux-musl", "-o"]
            }
            Build::Java => &["-d"],
        }
    }
}

/// Compiles whatever has changed and can be compiled here. A missing compiler is not an error,
/// since its tests are skipped; a failing one is.
pub fn compile_all() -> Result<(), String> {
    let directory = workspace::compiled();
    fs::create_dir_all(&directory)
        .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    for (program, builds) in ALL {
        for build in *builds {
            if find_tool(build.compiler()).is_some() {
                compile(*program, *build)?;
            }
        }
    }
    Ok(())
}

fn compile(program: Program, build: Build) -> Result<(), String> {
    let output = program.path(build);
    let sources = program.source_files(build)?;
    if is_newer_than_sources(&output, &sources)? {
        return Ok(());
    }
    // The Java compiler takes a directory.
    let target: OsString = match build {
        Build::Java => workspace::compiled().into(),
        _ => output.into(),
    };
    let mut command = Command::new(build.compiler());
    command.env("CGO_ENABLED", "0").args(build.arguments()).arg(target).args(&sources);
    let result = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if result.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&result.stderr)))
}

fn is_newer_than_sources(output: &Path, sources: &[PathBuf]) -> Result<bool, String> {
    let Ok(made) = modified(output) else {
        return Ok(false);
    };
    let mut inputs = files_ending_in(&workspace::sources(), "h")?;
    for folder in ["waits", "preload"] {
        inputs.extend(files_ending_in(&workspace::sources().join(folder), "h")?);
    }
    inputs.extend_from_slice(sources);
    for input in inputs {
        if modified(&input)? >= made {
            return Ok(false);
        }
    }
    Ok(true)
}

fn modified(path: &Path) -> Result<SystemTime, String> {
    fs::metadata(path)
        .and_then(|found| found.modified())
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn files_ending_in(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(directory)
        .map_err(|error| format!("cannot read {}: {error}", directory.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    Ok(files)
}

/// A program without a library, if it can be compiled here.
pub fn bare(name: &str, options: &[&str]) -> Option<PathBuf> {
    find_tool("gcc")?;
    let program = workspace::scratch().ok()?.join(name);
    let compiled = Command::new("gcc")
        .args(["-nostdlib", "-static", "-no-pie", "-fno-pie", "-fno-stack-protector", "-O1", "-o"])
        .arg(&program)
        .args(options)
        .arg(workspace::sources().join(name).with_extension("c"))
        .stderr(Stdio::null())
        .status();
    compiled.is_ok_and(|status| status.success()).then_some(program)
}
