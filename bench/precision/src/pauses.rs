//! A process that does nothing for a while, and whether its next readings keep their bounds.

use std::error::Error;
use std::io::{Read, stdin};
use std::time::Duration;

use clap::Args;
use eigentime_clock::{Clock, Upkeep};
use serde::Serialize;

use crate::judged::Judged;
use crate::{kernel, record};

/// What `pauses` can be told.
#[derive(Args)]
pub struct Options {
    /// How long the pause is, in seconds.
    seconds: f64,
    /// Have the clock read a hundred times a second before it, until its rate is well known.
    #[arg(long)]
    old: bool,
    /// Have a thread keep the clock in order meanwhile.
    #[arg(long)]
    upkeep: bool,
    /// Hold CLOCK_REALTIME against its bound, which may be set meanwhile.
    #[arg(long)]
    wall: bool,
}

/// Its progress: it pauses as soon as its standard input is closed, and from its second step on
/// until a given time, whatever happens to it.
#[derive(Serialize)]
struct Step {
    step: &'static str,
}

/// The readings after it.
#[derive(Serialize)]
struct Readings {
    trust: String,
    readings: Vec<Judged>,
}

/// The first reading finds all caches cold, which makes its bracket wide.
const PAIRS: usize = 10;
const WALL_READINGS: usize = 2 * PAIRS + 1;
const WARM_UP: Duration = Duration::from_secs(2);
const WARM_UP_GAP: Duration = Duration::from_millis(10);
/// Readers do no upkeep if it is below 100 ms.
const UPKEEP: Duration = Duration::from_millis(50);

/// Prints when it is ready to pause and when it does, and the readings after the pause.
///
/// # Errors
/// When the thread cannot be started, or the output is closed.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let clock = Clock::system();
    let first = clock.now();
    while options.old && clock.elapsed(first) < WARM_UP {
        std::thread::sleep(WARM_UP_GAP);
    }
    let _upkeep = options.upkeep.then(|| Upkeep::start(UPKEEP)).transpose()?;
    record::write(&Step { step: "ready" })?;
    stdin().read_to_end(&mut Vec::new())?;
    let end = kernel::monotonic() + (options.seconds * 1e9) as u64;
    record::write(&Step { step: "pausing" })?;
    kernel::nanosleep_until(end);
    let readings = if options.wall {
        (0..WALL_READINGS).map(|_| Judged::wall(&clock)).collect()
    } else {
        let mut readings = vec![Judged::now(&clock)];
        readings.extend((0..PAIRS).flat_map(|_| Judged::around(&clock)));
        readings
    };
    record::write(&Readings { trust: clock.trust().to_string(), readings })?;
    Ok(())
}
