//! The changes, and when waits have to end after them.

use std::thread;
use std::time::{Duration, Instant};

use crate::named::place::Place;
use crate::suite::Broken;
use crate::timeline::FUTURE;

const DAY_MS: u64 = 86_400_000;
/// Dozens of programs end at once, on a machine that does other things, too.
const SOON: Duration = Duration::from_secs(5);

/// The interval in which a wait has to end.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub earliest: Instant,
    pub latest: Instant,
}

/// The intervals for waits for an instant of the wall clock, and for all others.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub wall: Bounds,
    pub others: Bounds,
}

/// A change while programs wait.
pub struct Scenario {
    pub name: &'static str,
    /// The options of the timeline, before the programs start to wait.
    pub options: &'static [&'static str],
    /// How long they wait.
    pub wait_ms: u64,
    /// Makes the change; all waits must end within the returned bounds.
    pub change: fn(&Place) -> Result<Ends, Broken>,
    /// Whether only the wall clock is moved.
    pub moves_wall: bool,
    /// Whether it is also tested with other users and other libraries.
    pub is_enough: bool,
}

impl Scenario {
    /// Whether the call counts all periods: a POSIX timer counts the periods that a leap skips only
    /// as far as the host's clock, which does not reach below zero, permits.
    pub fn can_count(&self, call: &str) -> bool {
        call != "timer_interval" || self.wait_ms < DAY_MS
    }
}

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "leap",
        options: &[],
        wait_ms: DAY_MS,
        change: leap,
        moves_wall: false,
        is_enough: true,
    },
    Scenario {
        name: "faster",
        options: &[],
        wait_ms: 1_000_000,
        change: faster,
        moves_wall: false,
        is_enough: false,
    },
    Scenario {
        name: "slower",
        options: &["--freeze"],
        // Less than the host's uptime once all this is built, so that it can be counted.
        wait_ms: 300_000,
        change: slower,
        moves_wall: false,
        is_enough: false,
    },
    Scenario {
        name: "frozen_then_faster",
        options: &["--freeze"],
        wait_ms: 30_000,
        change: frozen_then_faster,
        moves_wall: false,
        is_enough: true,
    },
    Scenario {
        name: "set_date",
        options: &[],
        wait_ms: DAY_MS,
        change: set_date,
        moves_wall: true,
        is_enough: false,
    },
    Scenario {
        name: "wall_frozen_then_thawed",
        options: &["--freeze=wall"],
        wait_ms: 2_000,
        change: thaw_wall,
        moves_wall: true,
        is_enough: false,
    },
    Scenario {
        name: "wall_frozen_leap",
        options: &["--freeze=wall", "--rate", "2"],
        wait_ms: DAY_MS,
        change: leap,
        moves_wall: false,
        is_enough: false,
    },
    Scenario {
        name: "wall_frozen_set_date",
        options: &[],
        wait_ms: DAY_MS,
        change: freeze_wall_and_set_date,
        moves_wall: true,
        is_enough: false,
    },
];

/// They end soon after this change.
fn by(place: &Place, change: &[&str], host: Duration) -> Result<Bounds, Broken> {
    let earliest = Instant::now();
    place.done(change)?;
    Ok(Bounds { earliest, latest: Instant::now() + host + SOON })
}

fn everything(bounds: Bounds) -> Ends {
    Ends { wall: bounds, others: bounds }
}

fn leap(place: &Place) -> Result<Ends, Broken> {
    by(place, &["leap", "x", "+1d"], Duration::ZERO).map(everything)
}

/// A quarter of an hour passes in a second.
fn faster(place: &Place) -> Result<Ends, Broken> {
    by(place, &["set", "x", "--rate", "1000"], Duration::from_secs(1)).map(everything)
}

/// Three seconds are left when it becomes slow: they are not enough to end it.
fn slower(place: &Place) -> Result<Ends, Broken> {
    let begin = Instant::now();
    place.done(&["thaw", "x", "--rate", "100"])?;
    place.done(&["set", "x", "--rate", "1"])?;
    in_time(begin)?;
    thread::sleep(Duration::from_millis(3500));
    by(place, &["leap", "x", "300s"], Duration::ZERO).map(everything)
}

/// Frozen with three seconds left, which pass without an end; the rest then passes ten times as
/// fast.
fn frozen_then_faster(place: &Place) -> Result<Ends, Broken> {
    let begin = Instant::now();
    place.done(&["thaw", "x", "--rate", "10"])?;
    place.done(&["freeze", "x"])?;
    in_time(begin)?;
    thread::sleep(Duration::from_millis(3500));
    by(place, &["thaw", "x", "--rate", "100"], Duration::from_millis(300)).map(everything)
}

fn in_time(begin: Instant) -> Result<(), Broken> {
    match begin.elapsed() {
        took if took > Duration::from_millis(2500) => {
            Err(Broken(format!("two changes took {took:?}: this machine is too busy")))
        }
        _ => Ok(()),
    }
}

/// Waits for an instant of the wall clock end; all others end when time has passed.
fn set_date(place: &Place) -> Result<Ends, Broken> {
    let wall = by(place, &["set", "x", "--date", FUTURE.0], Duration::ZERO)?;
    thread::sleep(Duration::from_secs(1));
    let others = by(place, &["leap", "x", "+1d"], Duration::ZERO)?;
    Ok(Ends { wall, others })
}

/// Waits for an instant of the wall clock end some time after the thaw; all others end by
/// themselves.
fn thaw_wall(place: &Place) -> Result<Ends, Broken> {
    const WAIT: Duration = Duration::from_secs(2);
    let now = Instant::now();
    // These have already begun to wait.
    let others = Bounds { earliest: now - WAIT, latest: now + WAIT + SOON };
    thread::sleep(Duration::from_millis(3500));
    let wall = by(place, &["thaw", "x"], WAIT)?;
    Ok(Ends { wall, others })
}

fn freeze_wall_and_set_date(place: &Place) -> Result<Ends, Broken> {
    place.done(&["freeze", "x", "--wall"])?;
    set_date(place)
}
