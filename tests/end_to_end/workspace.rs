//! Locations: the command under test, sources, compiled programs, and scratch directories.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::command::{NOBODY, User};
use crate::needs::is_root;
use crate::suite::Broken;

/// The number set by an environment variable, or this default.
pub fn number_set_by(name: &str, otherwise: u32) -> Result<u32, Broken> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| Broken(format!("{name}={text} is no number"))),
        Err(_) => Ok(otherwise),
    }
}

/// The folder of this package.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Sources of the programs that run in a timeline.
pub fn sources() -> PathBuf {
    package().join("programs")
}

/// The folder of the compiled programs.
pub fn compiled() -> PathBuf {
    root().join("build/tests")
}

/// The folder of the whole repository.
pub fn root() -> &'static Path {
    package().parent().expect("the package is in a workspace")
}

/// The command under test.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("EIGENTIME_BIN") {
        Some(path) => std::path::absolute(&path).unwrap_or_else(|_| path.into()),
        None => root().join("build/bin/eigentime"),
    })
}

/// The OCI runtime wrapper under test, beside the command.
pub fn oci_wrapper() -> PathBuf {
    binary().with_file_name("eigentime-oci")
}

/// The static program that measures, beside the command.
pub fn probe() -> PathBuf {
    binary().with_file_name("eigentime-probe")
}

/// The libraries under test, beside the command's folder.
pub fn libraries() -> PathBuf {
    products().join("lib")
}

/// Their headers.
pub fn headers() -> PathBuf {
    products().join("include")
}

/// The library that is preloaded.
pub fn preload_library() -> PathBuf {
    libraries().join("libeigentime_preload.so")
}

/// The folder of the build products.
pub fn products() -> &'static Path {
    binary().ancestors().nth(2).unwrap_or(Path::new("/"))
}

/// A program in an interpreted language.
pub fn script(name: &str) -> PathBuf {
    sources().join("languages").join(name)
}

/// A path of a scratch folder as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("scratch folders have plain names")
}

/// Reports what to do if there is nothing to test.
pub fn check_binary() -> Result<(), String> {
    let binary = binary();
    let runnable = fs::metadata(binary)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if runnable {
        return Ok(());
    }
    Err(format!(
        "there is no program {}\nbuild eigentime first, or name the one to test: \
         EIGENTIME_BIN=/usr/bin/eigentime cargo test -p eigentime-tests",
        binary.display()
    ))
}

/// The root of all files of this test run.
pub fn scratch_root() -> PathBuf {
    std::env::temp_dir().join(format!("eigentime-tests-{}", std::process::id()))
}

/// Makes a directory with this mode.
pub fn make_directory(path: &Path, mode: u32) -> Result<(), Broken> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// A new empty directory that every user may write to.
pub fn scratch() -> Result<PathBuf, Broken> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    make_directory(&scratch_root(), 0o755)?;
    let path = scratch_root().join(number.to_string());
    make_directory(&path, 0o1777)?;
    Ok(path)
}

/// Copies of the command and the compiled programs where every user can reach them: the workspace
/// may be in a private directory.
pub fn public() -> Result<&'static Path, Broken> {
    static PUBLIC: OnceLock<Result<PathBuf, Broken>> = OnceLock::new();
    PUBLIC.get_or_init(copy_for_everybody).as_ref().map(PathBuf::as_path).map_err(Clone::clone)
}

/// Copies a program that will be run. Another process copies it: a child that another thread starts
/// meanwhile would hold the copy open for writing until its exec, and the kernel refuses to run
/// such a file (ETXTBSY).
pub fn copy_program(from: &Path, to: &Path) -> Result<(), Broken> {
    let status = Command::new("cp").arg(from).arg(to).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(Broken(format!("cannot copy {} to {}", from.display(), to.display()))),
    }
}

fn copy_for_everybody() -> Result<PathBuf, Broken> {
    let public = scratch_root().join("public");
    make_directory(&scratch_root(), 0o755)?;
    make_directory(&public, 0o755)?;
    copy_program(binary(), &public.join("eigentime"))?;
    copy_program(&oci_wrapper(), &public.join("eigentime-oci"))?;
    copy_program(&probe(), &public.join("eigentime-probe"))?;
    for entry in fs::read_dir(compiled())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            copy_program(&entry.path(), &public.join(entry.file_name()))?;
        }
    }
    Ok(public)
}

/// Where programs look for timelines.
pub const RUNTIME_VARIABLE: &str = "XDG_RUNTIME_DIR";
/// Restricts the search to one directory.
pub const ONLY_VARIABLE: &str = "EIGENTIME_RUNTIME_DIR";

/// The runtime directory of a user in this run of the tests, whose timelines are separate from and
/// invisible to all others.
pub fn runtime(user: User) -> PathBuf {
    scratch_root().join(match user {
        User::Myself => "run",
        User::Nobody => "run-of-nobody",
    })
}

/// Makes these directories, and makes all children of the tests use them. To be called before there
/// are threads.
pub fn make_runtime() -> Result<(), Broken> {
    make_directory(&scratch_root(), 0o755)?;
    make_directory(&runtime(User::Myself), 0o700)?;
    if is_root() {
        let of_nobody = runtime(User::Nobody);
        make_directory(&of_nobody, 0o700)?;
        chown(&of_nobody, Some(NOBODY), Some(NOBODY))?;
    }
    // SAFETY: there is one thread, which the caller guarantees.
    unsafe { std::env::set_var(RUNTIME_VARIABLE, runtime(User::Myself)) };
    Ok(())
}

/// Removes all scratch directories of this run.
pub fn remove_scratch() {
    // Nothing was made, or something else removes what is left in /tmp.
    let _ = fs::remove_dir_all(scratch_root());
}
