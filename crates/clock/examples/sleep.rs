//! How late sleeps end, and what that costs: `cargo run --release --example sleep [PRIORITY]`,
//! with a real-time priority from 1 to 99, if it is to ask for one.

use std::error::Error;
use std::time::Duration;

use eigentime_clock::sleeper::Sleeper;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = Sleeper::builder();
    if let Some(priority) = std::env::args().nth(1) {
        builder = builder.realtime(priority.parse()?);
    }
    let mut sleeper = builder.build()?;
    for lost in sleeper.degradation() {
        println!("{lost}");
    }
    println!("  length     median        p99      worst   spun   CPU");
    for (micros, count) in [(10, 20_000), (100, 10_000), (1_000, 2_000), (10_000, 200)] {
        let length = Duration::from_micros(micros);
        // It learns from the first ones.
        for _ in 0..count / 10 {
            sleeper.sleep_for(length);
        }
        let (begin, used, before) = (sleeper.clock().now(), cpu(), sleeper.statistics());
        let mut misses: Vec<_> = (0..count).map(|_| sleeper.sleep_for(length).miss).collect();
        let elapsed = (sleeper.clock().now() - begin).as_secs_f64();
        misses.sort_unstable();
        println!(
            "{:>8} {:>10} {:>10} {:>10} {:>5.1}% {:>4.1}%",
            format!("{length:?}"),
            format!("{:?}", misses[count / 2]),
            format!("{:?}", misses[count * 99 / 100]),
            format!("{:?}", misses[count - 1]),
            (sleeper.statistics().spun - before.spun).as_secs_f64() / elapsed * 100.0,
            (cpu() - used).as_secs_f64() / elapsed * 100.0,
        );
    }
    Ok(())
}

/// The processor time that this thread has used.
fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}
