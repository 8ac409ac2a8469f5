//! The latch: under every order of its reads and writes that the memory model allows, and for real.

// The same source with two kinds of atomics.
#![allow(clippy::duplicate_mod)]

mod loomed;
mod plain;
