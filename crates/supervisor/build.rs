//! Derives the number of the interface: what a supervisor and the programs that another build has
//! prepared agree on.

#[path = "src/fingerprint.rs"]
mod fingerprint;

use std::fs;
use std::path::{Path, PathBuf};

use fingerprint::{code_of, fingerprint};

/// Where that is written: the page that they share, how the image lies in a program and what is handed
/// to it, how calls come into it from the supervisor and from rewritten sites, and which calls the
/// filter tells of and lets pass.
const SOURCES: [&str; 9] = [
    "../timeline/src/mark.rs",
    "../timeline/src/page",
    "../timeline/src/rate.rs",
    "../timeline/src/segment.rs",
    "../vdso/image/arch",
    "../vdso/src/layout",
    "src/arch",
    "src/filter.rs",
    "src/tracer/rewrite/arch",
];

fn main() {
    let mut code = String::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        for file in files_of(Path::new(source)) {
            code += &code_of(&fs::read_to_string(file).expect("it is a source file"));
        }
    }
    println!("cargo::rustc-env=EIGENTIME_INTERFACE={}", fingerprint(code.as_bytes()) as u32);
}

/// A file, or all those in a folder, always in the same order.
fn files_of(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).expect("it is a folder of sources");
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    entries.sort();
    entries.iter().flat_map(|entry| files_of(entry)).collect()
}
