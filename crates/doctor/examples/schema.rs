//! Prints `docs/doctor/schema.json`.

fn main() {
    print!("{}", eigentime_doctor::schema::text());
}
