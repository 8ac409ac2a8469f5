//! A request, and the map that follows from it.

use std::ffi::CString;
use std::fs;

use eigentime_timeline::text::{format_date, format_offset, format_rate};
use eigentime_timeline::{
    Anchor, CLOCKS, Clock, ClockId, Freeze, HostInstant, Map, Nanos, Rate, Segment, VirtualInstant,
};

use serde::{Deserialize, Serialize};

use crate::consent::Consent;
use crate::error::Error;
use crate::filter::Scope;
use crate::host;
pub use crate::lifelong::Lifelong;
use crate::motion::Motion;
use crate::namespace;
use crate::registry::Name;
use crate::saved::{Policies, Saved};
use crate::skip::{self, Limit, Skip};

/// Where the wall clock starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wall {
    /// At the host's reading, shifted by this much.
    Offset(Nanos),
    /// At this date.
    Date(VirtualInstant),
    /// Where it is if the host's wall clock and this one agreed on a pair of instants and the rate
    /// has held ever since.
    Anchored {
        /// The host's side.
        host: HostInstant,
        /// The timeline's side.
        virt: VirtualInstant,
    },
}

/// Where the clocks start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// At the host's readings.
    Host {
        /// How far CLOCK_MONOTONIC is ahead of the host's.
        monotonic: Nanos,
        /// How far CLOCK_BOOTTIME is ahead of the host's.
        boottime: Nanos,
        /// Where the wall clock starts.
        wall: Wall,
    },
    /// Where those of a saved timeline stopped.
    Saved(Box<Saved>, Policies),
}

/// The clocks of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// Where they start.
    pub start: Start,
    /// How fast they run.
    pub motion: Motion,
    /// How they skip idle time, if they do.
    pub skip: Option<Skip>,
}

/// When the supervisor of a timeline traces its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tracing {
    /// Briefly, if possible; otherwise for their whole life.
    Automatic,
    /// Only briefly, while something is done in them.
    Brief,
    /// For their whole life, for this reason.
    Lifelong(Lifelong),
}

impl Tracing {
    /// Why programs are traced for their whole life, if they are.
    pub(crate) fn lifelong(self) -> Option<Lifelong> {
        match self {
            Self::Lifelong(reason) => Some(reason),
            Self::Automatic | Self::Brief => None,
        }
    }
}

/// Why a timeline must trace its programs for their whole life, if it must.
pub(crate) fn lifelong(tracing: Tracing, clocks: &Clocks) -> Option<Lifelong> {
    let reasons = [
        (clocks.skip.is_some(), Lifelong::SkipsTime),
        (clocks.motion.is_frozen(), Lifelong::Frozen),
        (!may_trace_again(), Lifelong::Yama),
    ];
    match tracing {
        Tracing::Brief => None,
        Tracing::Lifelong(reason) => Some(reason),
        Tracing::Automatic => reasons.into_iter().find(|(holds, _)| *holds).map(|it| it.1),
    }
}

/// Whether a supervisor may trace a program again that it has detached. Yama can restrict that to
/// ancestors.
fn may_trace_again() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope.is_err() || scope.is_ok_and(|scope| scope.trim() == "0") || namespace::is_privileged()
}

/// A program and its clocks.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program and its arguments; at least one element.
    pub command: Vec<CString>,
    /// The clocks. `None`: the host's, or those of the named timeline.
    pub clocks: Option<Clocks>,
    /// The named timeline to create or to join; `None`: a private one.
    pub timeline: Option<Name>,
    /// When its supervisor traces programs.
    pub tracing: Tracing,
    /// What a timeline created for it allows.
    pub consent: Consent,
    /// Whether call sites are rewritten, so that they need no stop.
    pub rewrites: bool,
    /// Whether a named timeline continues when its supervisor is killed.
    pub keep_running: bool,
    /// Whether the named timeline must exist already.
    pub existing: bool,
}

/// The last instant to which a clock may be set: `KTIME_SEC_MAX / 2` seconds
/// (kernel/time/namespace.c).
const LAST: Nanos = Nanos::from_secs(9_223_372_036 / 2);

impl Plan {
    /// The clocks of a timeline created for it.
    #[must_use]
    pub fn clocks(&self) -> &Clocks {
        self.clocks.as_ref().unwrap_or(&Clocks::HOST)
    }
}

impl Clocks {
    /// The host's clocks unchanged.
    pub const HOST: Self = Self {
        start: Start::Host {
            monotonic: Nanos::ZERO,
            boottime: Nanos::ZERO,
            wall: Wall::Offset(Nanos::ZERO),
        },
        motion: Motion::new(Rate::ONE, None),
        skip: None,
    };

    /// The options that ask for these clocks, for messages.
    pub(crate) fn terms(&self) -> String {
        let mut options = Vec::new();
        match &self.start {
            Start::Host { monotonic, boottime, wall } => {
                for (option, offset) in [("monotonic", monotonic), ("boottime", boottime)] {
                    if *offset != Nanos::ZERO {
                        options.push(format!("--{option} {}", format_offset(*offset)));
                    }
                }
                match wall {
                    Wall::Offset(Nanos::ZERO) => {}
                    Wall::Offset(offset) => {
                        options.push(format!("--offset {}", format_offset(*offset)));
                    }
                    Wall::Date(date) => options.push(format!("--date {}", format_date(*date))),
                    Wall::Anchored { host, virt } => options.push(format!(
                        "--anchor {}={}",
                        format_date(VirtualInstant(host.0)),
                        format_date(*virt)
                    )),
                }
            }
            Start::Saved(saved, policy) => {
                let policy = match policy {
                    Policies { wall, monotonic } if wall == monotonic => wall.to_string(),
                    Policies { wall, monotonic } => format!("wall={wall},monotonic={monotonic}"),
                };
                options.push(format!("--continue {} --policy {policy}", saved.label()));
            }
        }
        let rate = self.motion.rate;
        match self.skip {
            Some(_) if rate.is_frozen() => options.push("--busy-rate 0".to_owned()),
            _ if rate.is_one() => {}
            _ => options.push(format!("--rate {}", format_rate(rate))),
        }
        options.extend(self.motion.freeze.map(|freeze| match freeze {
            Freeze::All => "--freeze".to_owned(),
            Freeze::Wall => "--freeze=wall".to_owned(),
        }));
        options.extend(self.skip.iter().flat_map(Skip::terms));
        options.join(" ")
    }

    /// How far CLOCK_MONOTONIC and CLOCK_BOOTTIME are ahead of the host's from the start.
    #[must_use]
    pub fn offsets(&self) -> [Nanos; 2] {
        match self.start {
            Start::Host { monotonic, boottime, .. } => [monotonic, boottime],
            Start::Saved(..) => [Nanos::ZERO; 2],
        }
    }

    /// How much can differ from the host if nothing changes the clocks from outside.
    #[must_use]
    pub(crate) fn scope(&self) -> Scope {
        match self.start {
            Start::Host { .. } if self.motion.effective().is_one() && self.skip.is_none() => {
                Scope::Wall
            }
            _ => Scope::All,
        }
    }

    /// The same for a timeline inside another, where no time namespace shifts the monotonic clocks.
    #[must_use]
    pub(crate) fn scope_inside(&self) -> Scope {
        match self.offsets() {
            [Nanos::ZERO, Nanos::ZERO] => self.scope(),
            _ => Scope::All,
        }
    }

    /// Refuses what the kernel would refuse, with the limits, which it does not report.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.skip.is_some() && !skip::is_possible() {
            return Err(Error::NoSchedulerInfo);
        }
        let [monotonic, boottime] = self.offsets();
        let clocks = [
            ("monotonic", ClockId::MONOTONIC, monotonic),
            ("boottime", ClockId::BOOTTIME, boottime),
        ];
        for (clock, id, offset) in clocks {
            let now = host::read(id);
            let moved = now.after(offset).0;
            if moved < Nanos::ZERO {
                let whole_seconds = Nanos::from_secs(now.as_nanos() / 1_000_000_000);
                let now = format_offset(whole_seconds).trim_start_matches('+').to_owned();
                return Err(Error::BelowZero { clock, offset: format_offset(offset), now });
            }
            if moved > LAST {
                return Err(Error::TooFar { clock, offset: format_offset(offset) });
            }
        }
        let map = self.map(host::read_at_once(), true);
        let wall = map.virtual_at(Clock::Wall, host::read(ClockId::REALTIME)).0;
        // A saturated value is at an end of the range.
        let is_shown = wall > Nanos::ZERO && wall != Nanos::MAX;
        if let Some(Skip { limit: Some(Limit::Date(until)), .. }) = self.skip
            && is_shown
            && until.0 <= wall
        {
            let [until, start] = [until, VirtualInstant(wall)].map(format_date);
            return Err(Error::LimitPassed { until, start });
        }
        match &self.start {
            Start::Host { wall: Wall::Offset(offset), .. } if !is_shown => {
                Err(Error::NoSuchDate { offset: format_offset(*offset) })
            }
            Start::Host { wall: Wall::Anchored { host, virt }, .. } if !is_shown => {
                Err(Error::AnchorTooFar {
                    host: format_date(VirtualInstant(host.0)),
                    virt: format_date(*virt),
                })
            }
            Start::Saved(saved, policy) => {
                let now = host::read(ClockId::REALTIME);
                let reached = Clock::ALL.map(|clock| saved.stands(clock, *policy, now));
                if reached.contains(&None) {
                    let saved = format_date(VirtualInstant(saved.host().0));
                    return Err(Error::SavedLater { saved });
                }
                match is_shown {
                    true => Ok(()),
                    false => Err(Error::CaughtUpTooFar),
                }
            }
            Start::Host { .. } => Ok(()),
        }
    }

    /// The map that starts now from the clocks of another timeline, which read `now`.
    #[must_use]
    pub(crate) fn map_from(&self, now: [HostInstant; CLOCKS]) -> Segment {
        let mut clocks = self.clone();
        if let Start::Host { wall, .. } = &mut clocks.start
            && let Wall::Date(date) = *wall
        {
            *wall = Wall::Offset(date.since(VirtualInstant(now[Clock::Wall as usize].0)));
        }
        clocks.map(now, true).after
    }

    /// The map that starts now. `host` must have been read in the time namespace of the program;
    /// `on_top` means that no time namespace shifts the monotonic clocks.
    #[must_use]
    pub(crate) fn map(&self, host: [HostInstant; CLOCKS], on_top: bool) -> Map {
        let unmoved = host.map(|host| Anchor { host, virt: VirtualInstant(host.0) });
        let mut start = self.motion.segment(unmoved);
        let now = host[Clock::Wall as usize];
        match &self.start {
            Start::Host { monotonic, boottime, wall } => {
                if on_top {
                    for (clock, offset) in [
                        (Clock::Monotonic, monotonic),
                        (Clock::Raw, monotonic),
                        (Clock::Boottime, boottime),
                    ] {
                        let anchor = &mut start.anchors[clock as usize];
                        anchor.virt = anchor.virt.after(*offset);
                    }
                }
                start = start.with_wall_moved(match *wall {
                    Wall::Offset(offset) => offset,
                    // Not even the coarse clock, which lags by up to a tick, may show a moment
                    // before the date. (At other rates it is read from the fine one.)
                    Wall::Date(date) if start.rate_of(Clock::Wall).is_one() => {
                        date.since(VirtualInstant(host::read(ClockId::REALTIME_COARSE).0))
                    }
                    Wall::Date(date) => date.since(VirtualInstant(now.0)),
                    Wall::Anchored { .. } => Nanos::ZERO,
                });
                if let Wall::Anchored { host: agreed, virt } = *wall {
                    let tai = host::whole_seconds(host[Clock::Tai as usize].since(now));
                    start.anchors[Clock::Wall as usize] = Anchor { host: agreed, virt };
                    start.anchors[Clock::Tai as usize] =
                        Anchor { host: agreed.after(tai), virt: virt.after(tai) };
                }
            }
            Start::Saved(saved, policy) => {
                for clock in Clock::ALL {
                    let stands = saved.stands(clock, *policy, now);
                    start.anchors[clock as usize].virt = stands.unwrap_or(saved.stood(clock));
                }
            }
        }
        Map::settled(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: i64) -> HostInstant {
        HostInstant::from_nanos(nanos)
    }

    #[test]
    fn an_anchor_is_the_same_wherever_one_starts() {
        let (host, virt) = (at(1_000_000_000_000), VirtualInstant::from_nanos(5_000_000_000_000));
        let start = Start::Host {
            monotonic: Nanos::ZERO,
            boottime: Nanos::ZERO,
            wall: Wall::Anchored { host, virt },
        };
        let motion = Motion::new(Rate::from_ratio(3, 1).unwrap(), None);
        let clocks = Clocks { start, motion, skip: None };
        let now = at(1_100_000_000_000);
        for uptime in [5, 70_000_000_000] {
            let tai = now.after(Nanos::from_secs(37)).after(Nanos(120));
            let map = clocks.map([now, tai, at(uptime), at(uptime), at(uptime)], false);
            let shown = |clock, host| map.virtual_at(clock, host).as_nanos();
            assert_eq!(shown(Clock::Wall, now), 5_300_000_000_000);
            let tai = now.after(Nanos::from_secs(37));
            assert_eq!(shown(Clock::Tai, tai), 5_337_000_000_000);
            assert_eq!(shown(Clock::Monotonic, at(uptime + 1)), uptime + 3);
        }
    }

    #[test]
    fn terms_are_the_options() {
        assert_eq!(Clocks::HOST.terms(), "");
        let start = Start::Host {
            monotonic: Nanos::from_secs(-86_400),
            boottime: Nanos::ZERO,
            wall: Wall::Date(VirtualInstant(Nanos::from_secs(2_147_483_647))),
        };
        for (freeze, option) in [(Freeze::All, "--freeze"), (Freeze::Wall, "--freeze=wall")] {
            let motion = Motion::new(Rate::from_ratio(1, 4).unwrap(), Some(freeze));
            let clocks = Clocks { start: start.clone(), motion, skip: None };
            let terms = "--monotonic -1d --date 2038-01-19T03:14:07Z --rate 0.25";
            assert_eq!(clocks.terms(), format!("{terms} {option}"));
        }
    }

    #[test]
    fn offsets_are_added_where_no_namespace_does() {
        let start = Start::Host {
            monotonic: Nanos(-5),
            boottime: Nanos(7),
            wall: Wall::Offset(Nanos(100)),
        };
        let clocks = Clocks { start, ..Clocks::HOST };
        let host = [at(1_000); CLOCKS];
        let shown = |on_top| {
            let map = clocks.map(host, on_top);
            Clock::ALL.map(|clock| map.virtual_at(clock, at(1_000)).as_nanos())
        };
        assert_eq!(shown(true), [1_100, 1_100, 995, 995, 1_007]);
        assert_eq!(shown(false), [1_100, 1_100, 1_000, 1_000, 1_000]);
    }
}
