//! What the build script must know about the image's architecture, which may differ from the one
//! that it runs on.

#[path = "../../src/layout/arch/x86_64.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod x86_64;

/// The rustc target for a bare machine, without floating point registers or a red zone, and the
/// size of a memory page.
pub fn of(arch: &str) -> (&'static str, usize) {
    match arch {
        "x86_64" => ("x86_64-unknown-none", x86_64::PAGE),
        other => panic!("there is no image for {other}"),
    }
}
