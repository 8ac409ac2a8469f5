//! Compiles the BPF program `bpf/timer.c` with clang, to be embedded in the probe.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Names of clang, the preferred one first. Distributions install old and new versions side by
/// side.
const CLANGS: [&str; 12] = [
    "clang", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16",
    "clang-15", "clang-14", "clang-13", "clang-12",
];

/// For the kernel's BPF virtual machine as of Linux 5.15; with type information (`-g`), with which
/// the kernel finds the timer in its map; without the build directory.
const OPTIONS: [&str; 9] = [
    "-target",
    "bpf",
    "-mcpu=v2",
    "-O2",
    "-g",
    "-Wall",
    "-Werror",
    "-fno-ident",
    "-fdebug-compilation-dir=.",
];

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("timer.o");
    let clang = clang();
    let status = Command::new(&clang)
        .args(OPTIONS)
        .arg("-c")
        .arg("bpf/timer.c")
        .arg("-o")
        .arg(&object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile bpf/timer.c: {status}"),
        Err(error) => panic!("{clang} could not be run: {error}"),
    }
}

/// The compiler to use: `$CLANG`, or the first one found that can compile for BPF.
fn clang() -> String {
    if let Some(given) = env::var("CLANG").ok().filter(|it| !it.is_empty()) {
        return given;
    }
    let found = CLANGS.iter().find(|name| {
        let targets = Command::new(name).arg("--print-targets").stderr(Stdio::null()).output();
        targets.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("bpf"))
    });
    found.map(|name| (*name).to_owned()).unwrap_or_else(|| {
        panic!(
            "eigentime-probe needs clang, 12 or later, for a program that the kernel runs; install the \
             package clang (scripts/setup.sh does), or name one by the environment variable CLANG"
        )
    })
}
