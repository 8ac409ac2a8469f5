//! `libeigentime_preload.so`: the precise clock and the sleeper under an unmodified program.
//!
//! ```console
//! $ LD_PRELOAD=/usr/lib/libeigentime_preload.so program
//! ```
//!
//! The library takes the place of those functions of the C library that read a clock or do
//! nothing but wait: the table in `functions.rs` lists them. Each answers by itself in the ordinary case
//! only, and hands everything else to the function whose place it took, with the arguments as
//! they were. So what is invalid fails as it always did, and what waits for descriptors, follows
//! a clock that may be set, or swaps signal masks is left to the kernel.
//!
//! What the program must not notice, and how that is kept:
//!
//! - **Signal handlers** may call what POSIX lets them call: nothing in here allocates, locks or
//!   panics once `start.rs` is through. What a thread remembers is plain data in its static TLS.
//! - **Signals** end a wait as they do without the library: the part of a wait that the kernel
//!   does is a call of the real `clock_nanosleep`. In the last moments of a wait, which are spun
//!   away, a handler runs but does not cut the wait short.
//! - **Cancellation**: that same call is a cancellation point, and the spinning stands between
//!   two tests for one. All functions here can be unwound through (`C-unwind`), and have nothing
//!   to drop.
//! - **fork**: no thread, no descriptor and no lock is kept that a child would miss.
//! - **Sandboxes**: a filter of system calls may end a program at the first that it does not
//!   expect. Reading a clock makes none, and a confined program's waits make only
//!   those that they would make anyway.
#![deny(missing_docs)]
// The tests call few of them, and nothing is exported from what they are built into.
#![cfg_attr(test, allow(dead_code))]

#[cfg(panic = "abort")]
compile_error!(
    "a thread that is cancelled while it waits in this library is unwound: build it with \
     `cargo build --profile unwinding`, as `make build` does"
);

mod clocks;
mod functions;
#[cfg(target_arch = "x86_64")]
mod hook;
mod memory;
mod places;
mod report;
mod sandbox;
mod settings;
mod sleeps;
mod start;
mod time;
mod wait;
mod waits;
