//! The `eigentime` command.
//!
//! The process that runs `eigentime run` becomes the program. Rust's own start-up
//! would leave traces in it (SIGPIPE ignored, closed standard descriptors opened),
//! so this program starts at C's `main`.
#![no_main]

/// What the C library calls first.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    eigentime_cli::main()
}
