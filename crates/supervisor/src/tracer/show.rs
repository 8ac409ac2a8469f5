//! Reports the state of a timeline: its clocks, its members, and what they wait for.

use std::collections::BTreeMap;

use eigentime_timeline::{
    CLOCKS, Clock, Freeze, HostInstant, Nanos, Rate, Segment, VirtualInstant,
};
use eigentime_vdso::Waiting;
use nix::unistd::Pid;

use super::blocked::Blocked;
use super::idle::Idle;
use super::timekeeper::Number;
use super::{Standing, Supervisor};
use crate::control::server::Control;
use crate::control::{
    Inner, Member, Reading, Shown, State, Thread, Timeline, WaitsFor, rate_number,
};
use crate::host;
use crate::motion::Motion;
use crate::proc;
use crate::saved::Saved;

impl Supervisor {
    /// The state of the timeline, and its members.
    pub(super) fn show(&mut self) -> Shown {
        Shown {
            timeline: self.timeline(),
            joinable: self.timelines.outermost().permissions.is_joinable(),
            settable_by: self.timelines.outermost().permissions.settable_by(),
            traced: self.lifelong.map(|reason| reason.to_string()),
            keep_running: self.journal.is_some(),
            socket: self.control.as_ref().and_then(Control::socket),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            containers: self.containers(),
            members: self.members(),
            calls: self.coverage(),
            skipping: self.idle.as_ref().map(Idle::show),
            // Known to the thread that serves callers.
            scheduled: None,
        }
    }

    /// The state of the timeline.
    pub(super) fn timeline(&self) -> Timeline {
        let motion = self.timekeeper().motion();
        let (host, virt) = self.timekeeper().now();
        let name = self.control.as_ref().map(|control| control.name.to_string());
        Timeline {
            name: name.unwrap_or_default(),
            state: state_of(motion.freeze),
            rate: rate_number(motion.rate),
            slewed_ns: self.slews_for().map(|span| span.as_nanos() as u64),
            clocks: readings(host, virt),
            supervisor: std::process::id() as i32,
        }
    }

    /// The reading of every clock.
    pub(super) fn save(&self) -> Saved {
        let (host, virt) = self.timekeeper().now();
        // The rate at which no time passes while programs run cannot be requested.
        let motion = self.timekeeper().motion();
        let rate = match self.slew.map_or(motion.rate, |slew| slew.rate) {
            rate if rate.is_frozen() => Rate::ONE,
            rate => rate,
        };
        Saved::new(host[Clock::Wall as usize], Motion { rate, ..motion }, virt)
    }

    /// The processes that live by the timeline.
    pub(super) fn members(&mut self) -> Vec<Member> {
        let mut members = BTreeMap::<i32, Member>::new();
        let belongs = |state: &super::Thread| state.standing != Standing::Outside;
        for (thread, state) in self.member_threads().iter().filter(|(_, state)| belongs(state)) {
            if let Some(process) = proc::process_of(*thread) {
                let pid = process.as_raw();
                let member = members.entry(pid).or_insert_with(|| Member {
                    pid,
                    command: proc::command_of(process),
                    detached: state.standing == Standing::Detached,
                    starting: state.standing == Standing::Entering,
                    container: self.container_of(state).map(|container| container.id.clone()),
                    traced: state.kept.map(|reason| reason.to_string()),
                    inner: self.show_inner(process),
                    threads: Vec::new(),
                });
                if state.standing != Standing::Detached {
                    let segment = self.segment_of(process);
                    member.threads.push(self.show_thread(*thread, state.standing, &segment));
                }
            }
        }
        let mut members: Vec<_> = members.into_values().collect();
        for member in &mut members {
            member.threads.sort_by_key(|thread| thread.tid);
        }
        members
    }

    /// The timeline by which a process lives, if it is inside this one.
    fn show_inner(&self, process: Pid) -> Option<Inner> {
        let number = self.timeline_of(process);
        if number == Number::OUTERMOST {
            return None;
        }
        let inner = self.timelines.get(number);
        let (host, virt) = inner.timekeeper.now();
        Some(Inner {
            options: inner.terms.clone(),
            state: state_of(self.timelines.freeze_of(number)),
            rate: self.timelines.rate_of(number).map_or(f64::NAN, rate_number),
            clocks: readings(host, virt),
        })
    }

    fn show_thread(&self, thread: Pid, standing: Standing, segment: &Segment) -> Thread {
        let exempt = self.layout.exempt();
        let blocked = match standing {
            // What it waits for until its program is started is not a wait of the program.
            Standing::Entering => None,
            _ => Blocked::of(thread).filter(|blocked| !blocked.is_asked_about(exempt)),
        };
        let until = blocked.as_ref().and_then(|blocked| self.waiting(thread, blocked));
        Thread {
            tid: thread.as_raw(),
            call: blocked.map(|blocked| blocked.name()),
            until: until.map(|found| waits_for(&found.waiting, segment)),
        }
    }
}

fn state_of(freeze: Option<Freeze>) -> State {
    match freeze {
        None => State::Running,
        Some(Freeze::All) => State::Frozen,
        Some(Freeze::Wall) => State::WallFrozen,
    }
}

/// Every clock on both sides; those of the host as they are outside all time namespaces.
fn readings(host: [HostInstant; CLOCKS], virt: [VirtualInstant; CLOCKS]) -> Vec<Reading> {
    let ahead = host::namespace_offsets();
    let reading = |clock: Clock| {
        let host = host[clock as usize].after(Nanos(-ahead[clock as usize].0));
        Reading::new(clock, host, virt[clock as usize])
    };
    Clock::ALL.map(reading).into()
}

fn waits_for(waiting: &Waiting, segment: &Segment) -> WaitsFor {
    let clock = Clock::ALL[waiting.clock as usize];
    let at = VirtualInstant::from_nanos(waiting.at);
    let now = host::read(clock.id());
    let host = segment.host_at(clock, at).map(|host| host.since(now).max(Nanos::ZERO).0);
    WaitsFor {
        clock: clock.name().to_owned(),
        at_ns: waiting.at,
        left_ns: at.since(segment.virtual_at(clock, now)).max(Nanos::ZERO).0,
        host_left_ns: host,
    }
}
