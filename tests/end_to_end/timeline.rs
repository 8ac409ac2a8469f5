//! The settings that tests use for a timeline, and the margins within which clocks agree.

use std::time::Duration;

use crate::command::Finished;
use crate::suite::Broken;

/// The longest tick of a kernel, in seconds. At the host's rate, the coarse clock starts at the
/// requested date, and the fine one up to a tick ahead of it.
pub const TICK_S: f64 = 0.01;

/// A rate and a virtual duration that takes a fraction of a second at it. Untranslated, each takes
/// at least twice as long or half as long.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub rate: f64,
    /// The text for an option's argument and in names.
    pub text: &'static str,
    pub wait_ms: u64,
}

/// A slow clock, a fast one and one that multiplies every delay.
pub const PACES: [Pace; 3] = [
    Pace { rate: 0.5, text: "0.5", wait_ms: 320 },
    TENFOLD,
    Pace { rate: 1000.0, text: "1000", wait_ms: 200_000 },
];

/// The pace of tests that need only one.
pub const TENFOLD: Pace = Pace { rate: 10.0, text: "10", wait_ms: 3000 };

/// The pace of the host.
pub const HOST: Pace = Pace { rate: 1.0, text: "1", wait_ms: 240 };

/// Options that put a program on some timeline, each with a label.
pub const TIMELINES: [(&str, &[&str]); 3] = [
    ("date", &["--date", FUTURE.0]),
    ("rate", &["--rate", "10"]),
    ("offset", &["--monotonic", "+1d"]),
];

/// A date that no host has, with its value in seconds.
pub const FUTURE: (&str, i64) = ("2100-01-01T00:00:00Z", 4_102_444_800);
/// A date long past.
pub const PAST: (&str, i64) = ("1990-06-01T12:00:00Z", 644_241_600);
/// The last second of a 32-bit clock.
pub const Y2038: (&str, i64) = ("2038-01-19T03:14:07Z", 2_147_483_647);

/// Host time that a wait may fall short by, since the harness may record its beginning late. At
/// half speed, an untranslated wait takes a share of 0.5.
const LEAST_SHARE: f64 = 0.65;
/// The most that a busy machine may add to any wait, in host time; less than the excess of an
/// untranslated wait.
pub const STALL: Duration = Duration::from_millis(1500);
/// The time that a run may take beyond its waits before it counts as stuck.
pub const STUCK: Duration = Duration::from_secs(60);

/// Milliseconds as printed by the programs.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl Pace {
    /// The host time for this much virtual time.
    pub fn host(self, virtual_ms: f64) -> Duration {
        Duration::from_secs_f64(virtual_ms / 1e3 / self.rate)
    }

    /// When to give up on a run that waits for this much virtual time.
    pub fn limit(self, virtual_ms: f64) -> Duration {
        self.host(virtual_ms) * 3 + STUCK
    }

    /// The longest host time that this virtual wait may take.
    pub fn longest(self, virtual_ms: f64) -> Duration {
        // On slow clocks, an untranslated wait is too short instead.
        let stall = if self.rate < 1.0 { STUCK } else { STALL };
        self.host(virtual_ms) * 3 + stall
    }

    /// Fails unless host time matches this virtual wait.
    pub fn check_host(
        self,
        run: &Finished,
        what: &str,
        virtual_ms: f64,
        took: Duration,
    ) -> Result<(), Broken> {
        // On fast clocks, an untranslated wait is too long instead.
        let share = if self.rate > 1.0 { 0.0 } else { LEAST_SHARE };
        let (least, most) = (self.host(virtual_ms).mul_f64(share), self.longest(virtual_ms));
        if least <= took && took <= most {
            return Ok(());
        }
        Err(run.broken(format_args!(
            "{what}: {virtual_ms} ms at rate {} took {:.0} ms of host time, not {:.0} to {:.0}",
            self.text,
            ms(took),
            ms(least),
            ms(most)
        )))
    }

    /// Fails if virtual time is less than requested, or more than the host time around it allows.
    pub fn check_virtual(
        self,
        run: &Finished,
        what: &str,
        asked_ms: f64,
        passed_ms: f64,
        took: Duration,
    ) -> Result<(), Broken> {
        // The clock moves in steps of a host nanosecond.
        let rounding_ms = 1e-6 * self.rate.max(1.0);
        let most = ms(took + STALL) * self.rate;
        if asked_ms - rounding_ms <= passed_ms && passed_ms <= most {
            return Ok(());
        }
        Err(run.broken(format_args!(
            "{what}: {passed_ms} ms passed on it at rate {}, not {asked_ms} to {most:.0}",
            self.text
        )))
    }
}
