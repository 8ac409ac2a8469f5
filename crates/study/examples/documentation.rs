//! Prints a file of `docs/bench` that is made from the source: `schema` or `columns`.

use eigentime_study::results::documentation::{columns, schema};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("schema") => print!("{}", schema()),
        Some("columns") => print!("{}", columns()),
        _ => panic!("schema or columns"),
    }
}
