//! The timelines of a supervisor: its own, and those that lie on it because `eigentime run` was called
//! inside.
//!
//! All lie at the same addresses, since all inherit the filter of the first. They differ in the page
//! that their programs have mapped, which holds the complete map from the host's clocks; the page
//! identifies a program's timeline. Each timeline keeps its map from the clocks that it lies on, so
//! that it follows when these change.

use std::collections::HashSet;
use std::sync::Arc;

use eigentime_timeline::page::Page;
use eigentime_timeline::{CLOCKS, Clock, ClockId, Freeze, HostInstant, Map, Nanos, Rate, Segment};
use nix::unistd::Pid;

use super::Supervisor;
use super::permissions::Permissions;
use super::timekeeper::{Changed, Number, Opening, TimeNamespace, Timekeeper, sleep_until};
use super::tracee::Tracee;
use crate::consent::Consent;
use crate::filter::Scope;
use crate::host;
use crate::motion::Motion;
use crate::plan::Clocks;
use crate::region::Region;

/// How far ahead a switch is: the time available to write the maps.
const LEAD: Nanos = Nanos(500_000);

/// How much of it must be left when the new maps take effect. The step that does so takes nanoseconds;
/// this is for a supervisor that loses its processor just then.
const RESERVE: Nanos = Nanos(350_000);

/// How often a change is tried on a host that is too busy for it to be in time.
const TRIES: usize = 1_000;

/// A timeline.
pub struct Timeline {
    number: Number,
    /// The one that it lies on.
    lies_on: Option<Number>,
    /// The clocks.
    pub timekeeper: Timekeeper,
    /// How much of it can differ from the host; calls that depend on it are reported.
    pub scope: Scope,
    /// What its creator allows.
    pub permissions: Permissions,
    /// How many filters its programs have besides the first.
    pub filters: u32,
    /// The options that its clocks were requested with.
    pub terms: String,
}

impl Timeline {
    fn segment(&self) -> Segment {
        self.timekeeper.segment()
    }

    fn page(&self) -> &Page {
        self.timekeeper.region().page()
    }
}

/// The parameters of a timeline inside another.
pub struct Inner<'a> {
    pub clocks: &'a Clocks,
    pub scope: Scope,
    pub consent: Consent,
    /// How many filters its programs have besides the first.
    pub filters: u32,
}

/// All timelines; each comes after the one that it lies on.
pub struct Timelines {
    all: Vec<Timeline>,
    next: u32,
}

impl Timelines {
    /// Begins with the supervisor's own timeline.
    pub fn new(timekeeper: Timekeeper, scope: Scope, consent: Consent) -> Self {
        let outermost = Timeline {
            number: Number::OUTERMOST,
            lies_on: None,
            timekeeper,
            scope,
            permissions: Permissions::new(consent),
            filters: 0,
            terms: String::new(),
        };
        Self { all: vec![outermost], next: 1 }
    }

    /// The supervisor's own timeline.
    pub fn outermost(&self) -> &Timeline {
        &self.all[0]
    }

    /// The supervisor's own timeline.
    pub fn outermost_mut(&mut self) -> &mut Timeline {
        &mut self.all[0]
    }

    /// Whether it is the only timeline.
    pub fn is_one(&self) -> bool {
        self.all.len() == 1
    }

    /// Whether there is a timeline with this number.
    fn has(&self, number: Number) -> bool {
        self.all.iter().any(|it| it.number == number)
    }

    fn index(&self, number: Number) -> usize {
        let found = self.all.iter().position(|it| it.number == number);
        found.expect("a timeline is kept for as long as a thread lives by it")
    }

    /// The timeline with this number.
    pub fn get(&self, number: Number) -> &Timeline {
        &self.all[self.index(number)]
    }

    /// The timeline with this number.
    pub fn get_mut(&mut self, number: Number) -> &mut Timeline {
        let index = self.index(number);
        &mut self.all[index]
    }

    /// A timeline, the one that it lies on, and so on.
    fn chain(&self, number: Number) -> impl Iterator<Item = &Timeline> {
        let first = Some(self.get(number));
        std::iter::successors(first, |it| it.lies_on.map(|outer| self.get(outer)))
    }

    /// The clocks of a timeline that are frozen, for whatever reason.
    pub fn freeze_of(&self, number: Number) -> Option<Freeze> {
        let freezes: Vec<_> = self.chain(number).map(|it| it.timekeeper.motion().freeze).collect();
        let has = |freeze| freezes.contains(&Some(freeze)).then_some(freeze);
        has(Freeze::All).or_else(|| has(Freeze::Wall))
    }

    /// The rate of a timeline relative to the host's clocks, while they run.
    pub fn rate_of(&self, number: Number) -> Option<Rate> {
        self.rate_with(number, self.outermost().timekeeper.motion().rate)
    }

    /// The same, if the outermost timeline ran at this rate.
    fn rate_with(&self, number: Number, outermost: Rate) -> Option<Rate> {
        let rates = self.chain(number).map(|it| match it.lies_on {
            None => outermost,
            Some(_) => it.timekeeper.motion().rate,
        });
        rates.map(Some).reduce(|inner, outer| inner?.of(outer?)).flatten()
    }

    /// Creates a timeline that lies on another.
    pub fn add(&mut self, on: Number, inner: &Inner<'_>) -> Result<Number, String> {
        let outer = self.get(on);
        let region = outer.timekeeper.region();
        let made = Region::at(region.layout).map_err(|error| error.to_string())?;
        let number = Number(self.next);
        made.page().set_timeline(number.0);
        made.page().set_owner(region.page().owner());
        if region.page().may_change() {
            made.page().expect_changes();
        }
        // The coarse clocks lag by a tick of the host, which is not a tick of the outer clocks.
        made.page().read_finely();
        let opening = Opening::Program(TimeNamespace::None);
        let clocks = inner.clocks.clone();
        let timekeeper = Timekeeper::new(Arc::new(made), inner.scope, clocks, opening);
        let timekeeper = timekeeper.in_namespace_of(&outer.timekeeper);
        self.next += 1;
        self.all.push(Timeline {
            number,
            lies_on: Some(on),
            timekeeper,
            scope: inner.scope,
            permissions: Permissions::new(inner.consent),
            filters: inner.filters,
            terms: inner.clocks.terms(),
        });
        let Motion { rate, wall, .. } = self.outermost().timekeeper.motion();
        let mut rates = [Some(rate), wall].into_iter().flatten();
        if rates.any(|rate| self.rate_with(number, rate).is_none()) {
            self.all.pop();
            return Err(OUT_OF_RANGE.to_owned());
        }
        self.begin(number);
        Ok(number)
    }

    /// Starts the clocks of a timeline now, if nothing has changed them until then; returns whether
    /// they start.
    pub fn begin(&mut self, number: Number) -> bool {
        let timeline = self.get(number);
        let outer = timeline.lies_on.map(|outer| self.get(outer).segment());
        self.get_mut(number).timekeeper.begin_with_program(outer.as_ref())
    }

    /// Forgets the timelines that are not used, and on which no other lies.
    fn retain(&mut self, used: &HashSet<Number>) {
        for at in (1..self.all.len()).rev() {
            let number = self.all[at].number;
            let lies_under = self.all.iter().any(|it| it.lies_on == Some(number));
            if !lies_under && !used.contains(&number) {
                self.all.remove(at);
            }
        }
    }

    /// Changes the map and the motion of the outermost timeline to what `next` makes of them, and makes
    /// all others follow, for all programs at one instant: when the host's wall clock shows `at`, or
    /// else as soon as possible. A change that is late for `at` makes the clocks show what they would
    /// if it had been in time, except that the monotonic clocks never step back. `at_switch` is called
    /// while the switch is in the maps, when no program sets a timer.
    pub fn change(
        &mut self,
        next: impl Fn(Segment, Motion) -> Result<(Segment, Motion), String>,
        at: Option<HostInstant>,
        at_switch: impl FnOnce(&[Changed]),
    ) -> Result<Vec<Changed>, String> {
        self.outermost_mut().timekeeper.is_changed();
        let before = self.outermost().segment();
        for timeline in &self.all {
            timeline.page().read_finely();
        }
        for _ in 0..TRIES {
            let now = host::read_at_once();
            let agreed = at.map(|at| {
                let left = at.since(now[Clock::Wall as usize]);
                now.map(|host| host.after(left))
            });
            let soonest = now.map(|host| host.after(LEAD));
            let switch = agreed.filter(|agreed| *agreed >= soonest).unwrap_or(soonest);
            let motion = self.outermost().timekeeper.motion();
            let (after, motion) = next(before.anchored_at(agreed.unwrap_or(switch)), motion)?;
            let after = match agreed {
                Some(agreed) if agreed != switch => after.anchored_at(switch).after(&before),
                _ => after,
            };
            if self.all.iter().any(|it| self.rate_with(it.number, motion.rate).is_none()) {
                return Err(OUT_OF_RANGE.to_owned());
            }
            let first = Changed { timeline: Number::OUTERMOST, before, after };
            let changes = self.followed(first, switch, |after, before| after.after(before));
            let monotonic = switch[Clock::Monotonic as usize];
            let left = || monotonic.since(host::read(ClockId::MONOTONIC));
            let maps = changes.iter().map(|it| (it, Map { before: it.before, after: it.after }));
            let prepared: Vec<_> =
                maps.map(|(it, map)| self.get(it.timeline).page().prepare(&map)).collect();
            if left() > RESERVE {
                prepared.into_iter().for_each(|map| map.publish());
                self.outermost_mut().timekeeper.runs(after, motion);
                sleep_until(monotonic);
                at_switch(&changes);
                self.settle(&changes);
                return Ok(changes);
            }
        }
        Err("this host is too busy to change the clocks at one instant; try again".to_owned())
    }

    /// Steps the wall clocks of a timeline at once, as when a program sets them, and of those that lie
    /// on it.
    pub fn move_wall(
        &mut self,
        number: Number,
        moved: impl Fn(&Segment) -> Segment,
    ) -> Vec<Changed> {
        let timekeeper = &mut self.get_mut(number).timekeeper;
        timekeeper.moves(&moved);
        let now = timekeeper.host_now();
        let before = timekeeper.segment();
        let first = Changed { timeline: number, before, after: moved(&before) };
        let changes = self.followed(first, now, |after, before| before.with_wall_of(after));
        self.settle(&changes);
        changes
    }

    /// A change, and those that follow from it for the timelines that lie on it.
    fn followed(
        &self,
        first: Changed,
        now: [HostInstant; CLOCKS],
        join: impl Fn(&Segment, &Segment) -> Segment,
    ) -> Vec<Changed> {
        let mut changes = vec![first];
        for inner in &self.all {
            let outer = changes.iter().find(|it| Some(it.timeline) == inner.lies_on);
            if let Some(outer) = outer {
                let before = inner.segment();
                let after = join(&inner.timekeeper.on(&outer.after, now), &before);
                changes.push(Changed { timeline: inner.number, before, after });
            }
        }
        changes
    }

    fn settle(&self, changes: &[Changed]) {
        for change in changes {
            self.get(change.timeline).timekeeper.settle(change.after);
        }
    }
}

/// Why a timeline cannot run.
const OUT_OF_RANGE: &str = "a timeline inside another would run at a rate that is not between 0.001 \
                            and 1000000\nhelp: the rates are multiplied; choose one that is nearer to 1";

impl Supervisor {
    /// The clocks of the outermost timeline.
    pub(super) fn timekeeper(&self) -> &Timekeeper {
        &self.timelines.outermost().timekeeper
    }

    /// The timeline by which a process or thread lives.
    pub(super) fn timeline_of(&self, thread: Pid) -> Number {
        if self.timelines.is_one() {
            return Number::OUTERMOST;
        }
        let known = self.threads.get(&thread).and_then(|it| it.timeline);
        known
            .or_else(|| self.shown_timeline(thread))
            .or_else(|| self.timeline_of_booting(thread))
            .unwrap_or_default()
    }

    /// The timeline whose page a process has mapped.
    fn shown_timeline(&self, thread: Pid) -> Option<Number> {
        let at = self.layout.base() + Page::TIMELINE_OFFSET as u64;
        let tracee = Tracee(thread);
        let word = tracee.read_words(at).map(|[word]| word).or_else(|_| tracee.peek(at));
        // A program may have mapped anything else there.
        word.ok().map(|word| Number(word as u32)).filter(|number| self.timelines.has(*number))
    }

    /// The map of a process or thread, as it is once no switch is pending.
    pub(super) fn segment_of(&self, thread: Pid) -> Segment {
        self.timelines.get(self.timeline_of(thread)).segment()
    }

    /// Notes the timeline of a thread, which may be about to start a program: after that, nothing else
    /// shows it.
    pub(super) fn note_timeline(&mut self, thread: Tracee) {
        if !self.timelines.is_one() {
            let timeline = self.timeline_of(thread.0);
            self.thread(thread).timeline = Some(timeline);
        }
    }

    /// The processes that live by a timeline.
    pub(super) fn processes_of(&mut self, timeline: Number) -> HashSet<Pid> {
        let mut processes = self.processes();
        processes.retain(|process| self.timeline_of(*process) == timeline);
        processes
    }

    /// Forgets the timelines that have no members.
    pub(super) fn forget_timelines(&mut self) {
        if self.timelines.is_one() {
            return;
        }
        // A single scan may miss a process that is just being created by one that ends.
        const LOOKS: usize = 2;
        let threads = self.threads.values();
        let mut used: HashSet<_> =
            threads.flat_map(|it| [it.timeline, it.enters]).flatten().collect();
        used.insert(Number::OUTERMOST);
        for _ in 0..LOOKS {
            if self.timelines.all.iter().all(|it| used.contains(&it.number)) {
                return;
            }
            let processes = self.processes();
            used.extend(processes.iter().map(|it| self.timeline_of(*it)));
        }
        self.timelines.retain(&used);
    }

    /// Whether a thread is about to start a program in another timeline than its own.
    pub(super) fn enters_another(&self, thread: Pid) -> bool {
        self.threads.get(&thread).is_some_and(|it| it.enters.is_some())
    }
}
