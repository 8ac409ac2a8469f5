//! `make install` and `make uninstall`, and a relocated tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

use super::compile::{Language, Link, compile_against, example, succeed};
use super::finish;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let [compiler, package] = Language::C.needs();
    let needs = [compiler, package, Need::Tool("make")];
    suite.test("library::installed::moved", &needs, || used(&[], "usr/local/lib"));
    suite.test("library::installed::of_a_packager", &needs, || {
        used(&["PREFIX=/usr", "LIBDIR=/usr/lib/x86_64-linux-gnu"], "usr/lib/x86_64-linux-gnu")
    });
    suite.test("library::installed::removed", &needs, removed);
    suite.test("library::installed::refused", &needs, refused);
}

/// Runs `make` without the parts of some hundred megabytes, which have a test of their own.
fn make(target: &str, root: &Path, variables: &[&str]) -> Command {
    let mut command = Command::new("make");
    command.arg("--silent").arg("--directory").arg(workspace::root()).arg(target);
    command.arg(format!("DESTDIR={}", root.display())).arg("REPORT=no").args(variables);
    // These come from running the tests with `make`.
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    command
}

/// A program is compiled and run with the installed library, after the tree was moved.
fn used(variables: &[&str], libraries: &str) -> Outcome {
    let scratch = workspace::scratch()?;
    let (first, second) = (scratch.join("first place"), scratch.join("second"));
    succeed(&mut make("install", &first, variables))?;
    fs::rename(&first, &second)?;
    let libraries = second.join(libraries);
    let program = compile_against(&libraries, &example("clock.c"), Language::C, Link::Shared)?;
    let mut command = Command::new(&program.path);
    let ended = finish(command.env("LD_LIBRARY_PATH", &libraries))?;
    ended.ensure(ended.text("version")? == env!("CARGO_PKG_VERSION"), "another version")
}

fn removed() -> Outcome {
    let root = workspace::scratch()?.join("a root");
    succeed(&mut make("install", &root, &[]))?;
    let stranger = root.join("usr/local/lib/libother.so");
    fs::write(&stranger, "")?;
    let installed = files(&root)?;
    ensure!(installed.len() > 8, "only {installed:?} were installed");
    succeed(&mut make("uninstall", &root, &[]))?;
    let left = files(&root)?;
    ensure!(left == [stranger], "{left:?} are left");
    Ok(())
}

fn refused() -> Outcome {
    let root = workspace::scratch()?;
    for (variable, reason) in [
        ("PREFIX=somewhere", "'somewhere' is not an absolute path: say PREFIX="),
        ("DESTDIR=some where", "'some where' is not an absolute path: say DESTDIR="),
        ("LIBDIR=/some where", "'/some where' has a space in it"),
    ] {
        let output = make("install", &root, &[variable]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains(reason), "{variable}: it said {said:?}");
        ensure!(files(&root)?.is_empty(), "{variable}: something was installed");
    }
    Ok(())
}

/// All files and links below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Broken> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}
