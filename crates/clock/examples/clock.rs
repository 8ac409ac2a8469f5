//! What the clock reads here, and how well it is known.

use std::time::Duration;

use eigentime_clock::{Clock, Instant};

fn main() {
    let clock = Clock::system();
    println!("reads:     {}", clock.trust());
    println!("frequency: {:.6} MHz", clock.frequency() / 1e6);

    let start = Instant::now();
    let reading = clock.read();
    println!("monotonic: {:?} {}", reading.monotonic, reading.error);
    println!("wall:      {:?} {}", reading.wall, reading.wall_error);
    println!("UTC:       {}", reading.utc_error);
    println!("took:      {:?}", start.elapsed());

    // A deadline, in the same ticks as everything else.
    let deadline = start + Duration::from_millis(1);
    let mut turns = 0_u64;
    while Instant::now() < deadline {
        turns += 1;
    }
    println!("one millisecond holds {turns} readings");
}
