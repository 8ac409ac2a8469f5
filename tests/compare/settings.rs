//! Calls that set the wall clock, of a process that may not: none of them ever sets the host's. Those
//! that succeed are of the same process, on a timeline that lets anyone set its clock.

use crate::case::Case;
use crate::situations::BAD;
use crate::span::now;
use crate::world::{Holds, World, must};

const CLOCK_SETTIME: u32 = 227;
const SETTIMEOFDAY: u32 = 164;
const ADJTIMEX: u32 = 159;
const CLOCK_ADJTIME: u32 = 305;
const NANOS: i64 = 1_000_000_000;
const MICROS: i64 = 1_000_000;
/// `struct timex` in words.
const TIMEX: usize = 26;

/// Gives up CAP_SYS_TIME, for good, and makes sure of it.
pub fn give_up() {
    const CAP_SYS_TIME: u32 = 25;
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    // Effective, permitted, inheritable; twice.
    let mut sets = [0u32; 6];
    let args = [header.as_ptr() as u64, sets.as_mut_ptr() as u64];
    must(libc::SYS_capget, &args);
    sets[..3].iter_mut().for_each(|set| *set &= !(1 << CAP_SYS_TIME));
    must(libc::SYS_capset, &args);
    must(libc::SYS_capget, &args);
    assert!(sets[0] & (1 << CAP_SYS_TIME) == 0, "CAP_SYS_TIME is still there");
}

fn case(name: String, body: impl Fn(&mut World) + Send + Sync + 'static) -> Case {
    Case::alone(name, move |world| {
        give_up();
        body(world);
    })
}

/// Times that are none, and, last, one that is.
fn times(parts: i64) -> [[i64; 2]; 5] {
    [[-1, 0], [0, parts], [0, -1], [i64::MAX, 0], [1_700_000_000, 0]]
}

pub fn clock_settime() -> Vec<Case> {
    let mut cases = Vec::new();
    for clock in [0, 1, 2, 4, 5, 7, 11, 12, 99, -1] {
        for [sec, nsec] in times(NANOS) {
            cases.push(case(format!("clock_settime/{clock}/{sec}s+{nsec}"), move |world| {
                let time = world.words("value", &[sec as u64, nsec as u64], Holds::Bytes);
                world.quick("", CLOCK_SETTIME, &[clock as u64, time, 0, 0, 0, 0]);
            }));
        }
    }
    cases.extend(BAD.map(|bad| {
        case(format!("clock_settime/0/{bad:?}"), move |world| {
            world.quick("", CLOCK_SETTIME, &[0, bad.address(world), 0, 0, 0, 0]);
        })
    }));
    cases
}

pub fn settimeofday() -> Vec<Case> {
    let mut cases: Vec<Case> = times(MICROS)
        .into_iter()
        .map(|[sec, usec]| {
            case(format!("settimeofday/{sec}s+{usec}"), move |world| {
                let time = world.words("value", &[sec as u64, usec as u64], Holds::Bytes);
                world.quick("", SETTIMEOFDAY, &[time, 0, 0, 0, 0, 0]);
            })
        })
        .collect();
    for place in [0, 1] {
        cases.extend(BAD[1..].iter().map(|&bad| {
            case(format!("settimeofday/argument_{place}/{bad:?}"), move |world| {
                let mut args = [0; 6];
                args[place] = bad.address(world);
                world.quick("", SETTIMEOFDAY, &args);
            })
        }));
    }
    cases
}

/// `adjtimex`, and `clock_adjtime` on this clock.
fn adjust(world: &mut World, clock: Option<i32>, modes: u32, words: &[(usize, i64)]) {
    let mut timex = [0u64; TIMEX];
    timex[0] = modes.into();
    words.iter().for_each(|&(at, word)| timex[at] = word as u64);
    // What the kernel tells besides is the host's clock discipline.
    let at = world.words("timex", &timex, Holds::Bytes);
    let result = match clock {
        None => crate::site::call(ADJTIMEX, &[at, 0, 0, 0, 0, 0]),
        Some(clock) => crate::site::call(CLOCK_ADJTIME, &[clock as u64, at, 0, 0, 0, 0]),
    };
    world.note("result", result);
    let told: [i64; TIMEX] = world.read_words(at);
    // The time is in words 9 and 10.
    if result >= 0 {
        let near = (told[9] - now(0) / NANOS).abs() <= 2 + world.scale.span(2 * NANOS) / NANOS;
        world.note("near", near);
    }
}

const OFFSET: u32 = 0x0001;
const FREQUENCY: u32 = 0x0002;
const TICK: u32 = 0x4000;
const SETOFFSET: u32 = 0x0100;
const NANO: u32 = 0x2000;
const SINGLESHOT: u32 = 0x8001;
const READ_OFFSET: u32 = 0xa001;
const ADJTIME_ALONE: u32 = 0x8000;

/// A name, modes, and the words of `struct timex` that are set.
type Modes = (&'static str, u32, Vec<(usize, i64)>);

fn modes() -> Vec<Modes> {
    vec![
        ("read", 0, vec![]),
        ("read_offset", READ_OFFSET, vec![]),
        ("adjtime_alone", ADJTIME_ALONE, vec![]),
        ("offset", OFFSET, vec![(1, 1)]),
        ("singleshot", SINGLESHOT, vec![(1, 1)]),
        ("frequency", FREQUENCY, vec![(2, 1)]),
        ("tick", TICK, vec![(11, 10_000)]),
        ("tick_bad", TICK, vec![(11, 1)]),
        ("setoffset", SETOFFSET, vec![(9, 1)]),
        ("setoffset_negative", SETOFFSET, vec![(9, 0), (10, -1)]),
        ("setoffset_full", SETOFFSET | NANO, vec![(10, NANOS)]),
    ]
}

pub fn adjtimex() -> Vec<Case> {
    let mut cases: Vec<Case> = modes()
        .into_iter()
        .map(|(name, modes, words)| {
            case(format!("adjtimex/{name}"), move |world| adjust(world, None, modes, &words))
        })
        .collect();
    cases.extend(BAD.map(|bad| {
        case(format!("adjtimex/{bad:?}"), move |world| {
            world.quick("", ADJTIMEX, &[bad.address(world), 0, 0, 0, 0, 0]);
        })
    }));
    cases
}

pub fn clock_adjtime() -> Vec<Case> {
    let mut cases = Vec::new();
    for clock in [0, 1, 4, 7, 11, 99, -1] {
        cases.extend(modes().into_iter().map(|(name, modes, words)| {
            case(format!("clock_adjtime/{clock}/{name}"), move |world| {
                adjust(world, Some(clock), modes, &words);
            })
        }));
        cases.extend(BAD.map(|bad| {
            case(format!("clock_adjtime/{clock}/{bad:?}"), move |world| {
                world.quick("", CLOCK_ADJTIME, &[clock as u64, bad.address(world), 0, 0, 0, 0]);
            })
        }));
    }
    cases
}

/// How the wall clock is moved by some seconds.
#[derive(Clone, Copy, Debug)]
enum By {
    ClockSettime,
    Settimeofday,
    Adjtimex,
    ClockAdjtime,
}

impl By {
    fn call(self, world: &mut World, seconds: i64) {
        let (wall, modes) = (now(0) + seconds * NANOS, u64::from(SETOFFSET));
        let time = |parts: i64| [(wall / NANOS) as u64, (wall % NANOS / (NANOS / parts)) as u64];
        let mut timex = [0; TIMEX];
        (timex[0], timex[9]) = (modes, seconds as u64);
        let (nr, words, place): (_, &[u64], _) = match self {
            Self::ClockSettime => (CLOCK_SETTIME, &time(NANOS), 1),
            Self::Settimeofday => (SETTIMEOFDAY, &time(MICROS), 0),
            Self::Adjtimex => (ADJTIMEX, &timex, 0),
            Self::ClockAdjtime => (CLOCK_ADJTIME, &timex, 1),
        };
        let mut args = [0; 6];
        args[place] = world.words("value", words, Holds::Checked);
        let result = crate::site::call(nr, &args);
        // Above zero is the state of the clock, which is the host's.
        world.note("set", result.min(0));
    }
}

/// What succeeds or is refused for its value alone, where anyone may set the clock, and what is
/// recorded of it by clock_settime(2) and adjtimex(2): no host's clock is set to find out.
pub fn permitted() -> Vec<(Case, &'static str)> {
    const AS_SET: &str = "set=0 wall=as-set tai=as-set monotonic=goes-on boottime=goes-on";
    const AS_WAS: &str = "set=-22 wall=as-was tai=as-was monotonic=goes-on boottime=goes-on";
    let sets = [
        ("forward", By::ClockSettime, 1_000, AS_SET),
        ("back", By::ClockSettime, -1_000, AS_SET),
        ("far", By::ClockSettime, 400_000_000, AS_SET),
        ("far_back", By::ClockSettime, -400_000_000, AS_SET),
        // To before what CLOCK_MONOTONIC shows.
        ("epoch", By::ClockSettime, i64::MIN, AS_WAS),
        ("forward", By::Settimeofday, 1_000, AS_SET),
        ("back", By::Settimeofday, -1_000, AS_SET),
        ("epoch", By::Settimeofday, i64::MIN, AS_WAS),
        ("forward", By::Adjtimex, 1_000, AS_SET),
        ("back", By::Adjtimex, -1_000, AS_SET),
        ("forward", By::ClockAdjtime, 1_000, AS_SET),
        ("back", By::ClockAdjtime, -1_000, AS_SET),
    ];
    sets.map(|(name, by, seconds, expected)| {
        let case = case(format!("{by:?}/permitted/{name}"), move |world| {
            let clocks = [0, 11, 1, 7];
            let seconds = if seconds == i64::MIN { -now(0) / NANOS } else { seconds };
            // Around the readings of all clocks, between which a thread may lose its processor.
            let began = now(1);
            let before = clocks.map(now);
            by.call(world, seconds);
            let after = clocks.map(now);
            let passed = now(1) - began + world.scale.span(2_000);
            for (at, name) in ["wall", "tai", "monotonic", "boottime"].iter().enumerate() {
                let moved = after[at] - before[at];
                let is_by = |by: i64| (by - 1_000..=by + passed).contains(&moved);
                let what = match at {
                    0 | 1 if is_by(seconds * NANOS) => "as-set",
                    2 | 3 if is_by(0) => "goes-on",
                    _ if is_by(0) => "as-was",
                    _ => "elsewhere",
                };
                world.note(name, what);
            }
        });
        (case, expected)
    })
    .into()
}
