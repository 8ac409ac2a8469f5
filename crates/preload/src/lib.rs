//! `libeigentime_preload.so`: the precise clock and the sleeper under an unmodified program.
//!
//! ```console
//! $ LD_PRELOAD=/usr/lib/libeigentime_preload.so program
//! ```
//!
//! The library interposes the functions of the C library that read a clock or only wait: the table
//! in `table.rs` lists them. Each handles only the ordinary case itself and passes everything
//! else to the original function, with unchanged arguments. So invalid calls fail as before, and
//! waits for descriptors, on a clock that may be set, or with a signal mask are left to the kernel.
//!
//! How the library stays transparent to the program:
//!
//! - **Signal handlers** may call everything that POSIX allows: nothing here allocates, locks or
//!   panics after `start.rs` is done. Per-thread state is plain data in static TLS.
//! - **Signals** end a wait as they do without the library: the kernel's part of a wait is a call
//!   of the real `clock_nanosleep`. In the last moments of a wait, which are spun, a handler runs
//!   but does not cut the wait short.
//! - **Cancellation**: that same call is a cancellation point, and the spinning is between two
//!   tests for one. All functions here can be unwound through (`C-unwind`), and have nothing to
//!   drop.
//! - **fork**: there is no thread, descriptor or lock that a child would miss.
//! - **Sandboxes**: a seccomp filter may end a program at an unexpected system call. Reading a
//!   clock makes none, and a confined program's waits make only those that they would make anyway.
#![deny(missing_docs)]
// The tests call few of them, and the test binary exports nothing.
#![cfg_attr(test, allow(dead_code))]

#[cfg(panic = "abort")]
compile_error!(
    "a thread that is cancelled while it waits in this library is unwound: build it with \
     `cargo build --profile unwinding`, as `make build` does"
);

mod arch;
mod clocks;
mod counter;
mod functions;
mod memory;
mod places;
mod real;
mod report;
mod sandbox;
mod settings;
mod sleeps;
mod start;
mod table;
mod time;
mod wait;
mod waits;
