//! The next action for a timeline of this machine, to match its object.

use eigentime_supervisor::control::protocol::{At, Date, Factor, Settings, Span};
use eigentime_supervisor::control::{Fate, Scheduled, Shown};
use eigentime_supervisor::registry::Name;
use eigentime_timeline::{HostInstant, Nanos};

use super::local::{self, Local};
use crate::api::{AgreedMap, NodeState, OnMissed, Timeline};
use crate::clock;

/// How long before its instant a change must be requested to be in time.
const SOONEST: Nanos = Nanos::from_millis(30);
/// A change that is later than this is reported as late.
const TOLERATED: Nanos = Nanos::from_millis(1);

/// The request that this agent has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The instant of the map.
    pub at: HostInstant,
    /// Whether the timeline was created for it. Then its pods came later, and it is not late.
    pub is_first: bool,
}

/// The resulting state of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its progress.
    pub state: NodeState,
    /// How late the map took effect, if that matters.
    pub late: Option<Nanos>,
    /// A message for its user.
    pub message: Option<String>,
}

/// The next action.
#[derive(Debug, PartialEq)]
enum Step {
    /// Create it.
    Create,
    /// Schedule the map at its instant, or now if that has passed.
    Schedule(Box<Settings>),
    /// Stop its clocks.
    Hold,
    /// Nothing.
    Rest(Outcome),
}

/// Acts so that a timeline of this machine matches the object; returns its state, and what to
/// remember.
pub fn bring(
    local: &Local,
    name: &Name,
    timeline: &Timeline,
    asked: Option<Asked>,
) -> (Result<Outcome, String>, Option<Asked>) {
    let mut asked = asked;
    let mut done = || -> Result<Outcome, String> {
        let status = timeline.status.as_ref().ok_or("it has no status")?;
        let map = status.map.as_ref().ok_or("it has no map")?;
        let mut shown = local.look(name)?;
        // That of a container may have followed something else meanwhile.
        if let Some(shown) = shown.as_mut().filter(|_| local::is_of_container(name))
            && !is_on(shown, map)
            && is_made(shown, map)
        {
            shown.scheduled = None;
            asked = Some(Asked { at: map.host_time.value, is_first: true });
        }
        // Created, scheduled, checked.
        loop {
            let policy = timeline.spec.on_missed;
            match next(shown.as_ref(), map, status.previous.as_ref(), policy, asked, clock::now()) {
                Step::Create => {
                    local.create(name, timeline.spec.skip_idle)?;
                    asked = Some(Asked { at: map.host_time.value, is_first: true });
                }
                Step::Schedule(settings) => {
                    asked = asked.or(Some(Asked { at: map.host_time.value, is_first: false }));
                    local.set(name, *settings)?;
                }
                Step::Hold => {
                    local.set(name, Settings { frozen: Some(true), ..Settings::default() })?;
                }
                Step::Rest(outcome) => return Ok(outcome),
            }
            shown = local.look(name)?;
        }
    };
    let outcome = done();
    (outcome, asked)
}

/// Whether the map is in effect.
fn is_made(shown: &Shown, map: &AgreedMap) -> bool {
    shown.scheduled.as_ref().is_some_and(|it| {
        it.at_ns == map.host_time.value.as_nanos() && matches!(it.fate, Fate::Made { .. })
    })
}

/// Whether the wall clock shows the map's time.
fn is_on(shown: &Shown, map: &AgreedMap) -> bool {
    let slack = Nanos(local::SLACK_NS as i64);
    let slack = slack.plus(map.rate.value.virtual_span(slack)).0.unsigned_abs();
    local::wall_of(shown).is_some_and(|wall| {
        let expected = map.virtual_at(HostInstant::from_nanos(wall.host_ns));
        expected.as_nanos().abs_diff(wall.virtual_ns) <= slack
    })
}

fn next(
    shown: Option<&Shown>,
    map: &AgreedMap,
    previous: Option<&AgreedMap>,
    policy: OnMissed,
    asked: Option<Asked>,
    now: HostInstant,
) -> Step {
    let Some(shown) = shown else { return Step::Create };
    let rest = |state, late, message| Step::Rest(Outcome { state, late, message });
    let at = map.host_time.value;
    let scheduled_at = shown.scheduled.as_ref().map(|it| HostInstant::from_nanos(it.at_ns));
    let is_this = |it: &&Scheduled| it.at_ns == at.as_nanos();
    match shown.scheduled.as_ref().filter(is_this).map(|it| &it.fate) {
        Some(Fate::Pending) => return rest(NodeState::Acknowledged, None, None),
        Some(Fate::Failed { reason }) => {
            return rest(NodeState::Failed, None, Some(reason.clone()));
        }
        Some(Fate::Made { late_ns }) => {
            let delay = Nanos(*late_ns);
            let matters = delay > TOLERATED && asked.is_some_and(|asked| !asked.is_first);
            let state = if matters { NodeState::CaughtUp } else { NodeState::Applied };
            return rest(state, matters.then_some(delay), None);
        }
        None => {}
    }
    let is_missed = scheduled_at.is_some() && at.since(now) < SOONEST;
    if is_missed && policy == OnMissed::Hold {
        let is_frozen = shown.timeline.state == eigentime_supervisor::control::State::Frozen;
        let message = "it was too late for the change, and its clocks stand still until the next";
        return match is_frozen {
            true => rest(NodeState::Held, None, Some(message.to_owned())),
            false => Step::Hold,
        };
    }
    // A new timeline first gets the map that applies until the instant.
    let wanted = match previous {
        Some(previous) if scheduled_at.is_none() && at.since(now) >= SOONEST => previous,
        _ => map,
    };
    let leapt = previous
        .filter(|previous| scheduled_at == Some(previous.host_time.value))
        .map(|previous| wanted.leaps.value.minus(previous.leaps.value))
        .filter(|span| *span > Nanos::ZERO);
    Step::Schedule(Box::new(Settings {
        date: Some(Date(wanted.virtual_time.value)),
        rate: Some(Factor(wanted.rate.value)),
        frozen: Some(wanted.frozen),
        leap: leapt.map(Span),
        at: Some(At(wanted.host_time.value)),
        ..Settings::default()
    }))
}
