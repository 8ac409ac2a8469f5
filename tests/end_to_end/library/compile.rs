//! Compiles a program as its author would: with warnings, and with the flags of `pkg-config`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::needs::{Need, exits_with};
use crate::suite::Broken;
use crate::workspace;

/// A program, in a scratch folder.
pub struct Compiled {
    pub path: PathBuf,
}

#[derive(Clone, Copy)]
pub enum Language {
    C,
    Cpp,
}

/// How the library is linked to the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// `libeigentime.so`, found at start.
    Shared,
    /// `libeigentime.a`, in an executable that needs no shared library.
    Static,
    /// `libeigentime.a`, with the address, leak and undefined-behaviour sanitizers.
    Sanitized,
}

pub const LINKS: [Link; 3] = [Link::Shared, Link::Static, Link::Sanitized];

impl Link {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Shared => &[],
            Self::Static => &["-static"],
            Self::Sanitized => &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        }
    }

    /// For names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Static => "static",
            Self::Sanitized => "sanitized",
        }
    }
}

impl Language {
    pub fn compiler(self) -> &'static str {
        match self {
            Self::C => "gcc",
            Self::Cpp => "g++",
        }
    }

    fn standard(self) -> &'static str {
        match self {
            Self::C => "-std=c11",
            Self::Cpp => "-std=c++17",
        }
    }

    pub fn needs(self) -> [Need; 2] {
        [Need::Tool(self.compiler()), Need::Tool("pkg-config")]
    }

    /// The same, and the compiler features that this way of linking needs.
    pub fn needs_to(self, link: Link) -> Vec<Need> {
        let [compiler, package] = self.needs();
        let what = format!("{} that can link: {}", self.compiler(), link.flags().join(" "));
        vec![compiler, package, Need::Other(self.links(link), what)]
    }

    /// Tried once: distributions put the sanitizers and the static C library in separate packages.
    fn links(self, link: Link) -> bool {
        static KNOWN: Mutex<Vec<(&str, Link, bool)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let compiler = self.compiler();
        if let Some((.., works)) = known.iter().find(|(at, of, _)| (*at, *of) == (compiler, link)) {
            return *works;
        }
        let script = format!(
            "echo 'int main(void) {{ return 0; }}' | {compiler} {} -x c - -o /dev/null",
            link.flags().join(" ")
        );
        let works = exits_with(Command::new("sh").args(["-c", &script]), 0);
        known.push((compiler, link, works));
        works
    }
}

pub const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// An example of the library.
pub fn example(name: &str) -> PathBuf {
    workspace::root().join("crates/capi/examples").join(name)
}

/// A program that only the tests use.
pub fn program(name: &str) -> PathBuf {
    workspace::sources().join("library").join(name)
}

/// Compiles a source against the build.
pub fn compile(source: &Path, language: Language, link: Link) -> Result<Compiled, Broken> {
    compile_against(&workspace::libraries(), source, language, link)
}

/// Compiles a source against the libraries of a folder.
pub fn compile_against(
    libraries: &Path,
    source: &Path,
    language: Language,
    link: Link,
) -> Result<Compiled, Broken> {
    let path = workspace::scratch()?.join("program");
    let mut command = Command::new(language.compiler());
    command.args(WARNINGS).args([language.standard(), "-O2", "-g", "-o"]).arg(&path).arg(source);
    command.args(link.flags());
    let flags = package(libraries, link != Link::Shared)?;
    let archive = libraries.join("libeigentime.a");
    for flag in flags.split_whitespace() {
        // With a shared library beside it, the linker takes the archive only by its name.
        if flag == "-leigentime" && link == Link::Sanitized {
            command.arg(&archive);
        } else {
            command.arg(flag);
        }
    }
    // C11 and C++17 contain less than POSIX.
    command.arg("-D_POSIX_C_SOURCE=200809L").arg("-pthread");
    succeed(&mut command)?;
    Ok(Compiled { path })
}

/// The flags of `pkg-config` for the package in a folder of libraries.
pub fn package(libraries: &Path, whole: bool) -> Result<String, Broken> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
    command.args(["--cflags", "--libs", "eigentime"]);
    if whole {
        command.arg("--static");
    }
    succeed(&mut command)
}

/// The output of a command, which must succeed.
pub fn succeed(command: &mut Command) -> Result<String, Broken> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Broken(format!("{} failed:\n{said}", crate::command::shown(command))))
}
