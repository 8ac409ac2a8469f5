//! What the build script has to know of the architecture that the image is for, which need not be
//! the one that it runs on.

#[path = "../../src/layout/arch/x86_64.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod x86_64;

/// A target of rustc for a bare machine, with no floating point registers and no red zone, and the
/// size of a memory page.
pub fn of(arch: &str) -> (&'static str, usize) {
    match arch {
        "x86_64" => ("x86_64-unknown-none", x86_64::PAGE),
        other => panic!("there is no image for {other}"),
    }
}
