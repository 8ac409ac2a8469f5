//! Prints `docs/guide/control.schema.json`.

fn main() {
    print!("{}", eigentime_supervisor::control::schema::text());
}
