//! Prints `docs/coverage.md`.

fn main() {
    print!("{}", eigentime_calls::coverage::page());
}
