//! Sessions between a server and clients over the loopback, and what must not become one.

#[macro_use]
extern crate eigentime_harness;

mod datagrams;
mod deaths;
mod garbage;
mod limits;
mod nat;
mod plain;
mod raw;
mod reports;
mod support;
mod tls;
mod token;
mod trains;
mod turns;
mod wiretap;

fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
