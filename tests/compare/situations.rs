//! What may happen to a call that waits: every variant of every call comes into all of these.

use eigentime_calls::Form;

use crate::case::{Case, Step};
use crate::span::Time;
use crate::waits::Wait;
use crate::world::{BREAKS, DEFAULT_IGNORED, RESTARTS, SET_TO_IGNORE, World};

/// Which address a pointer is replaced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    Null,
    Low,
    Unmapped,
    ReadOnly,
    Edge,
}

pub const BAD: [Bad; 5] = [Bad::Null, Bad::Low, Bad::Unmapped, Bad::ReadOnly, Bad::Edge];

impl Bad {
    pub fn address(self, world: &World) -> u64 {
        match self {
            Self::Null => 0,
            Self::Low => 1,
            Self::Unmapped => world.unmapped(),
            Self::ReadOnly => world.read_only(),
            Self::Edge => world.edge(),
        }
    }
}

/// One argument that is not as prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Pointer(usize, Bad),
    Value(usize, u64),
}

/// All that is particular to a case of a wait.
#[derive(Clone, Debug)]
pub struct Situation {
    pub time: Time,
    pub at_once: bool,
    pub change: Option<Change>,
    pub steps: Vec<Step>,
}

impl Situation {
    fn new(time: Time, at_once: bool, steps: &[Step]) -> Self {
        Self { time, at_once, change: None, steps: steps.to_vec() }
    }

    fn changed(time: Time, at_once: bool, change: Change) -> Self {
        Self { change: Some(change), ..Self::new(time, at_once, &[]) }
    }

    /// The case that a wait in this situation is.
    pub fn case(self, wait: Wait, name: &str) -> Case {
        let Self { time, at_once, change, steps } = self;
        Case {
            name: format!("{}/{name}", wait.name),
            shown_as: [wait.nr, wait.made_as()],
            steps,
            body: Box::new(move |world| {
                let (mut args, began) = wait.prepare(world, time, at_once);
                if at_once && time == Time::Short {
                    // A busy host takes as long to refuse it.
                    world.takes_any_time();
                }
                match change {
                    Some(Change::Pointer(at, bad)) => args[at] = bad.address(world),
                    Some(Change::Value(at, value)) => args[at] = value,
                    None => {}
                }
                world.call(wait.nr, &args, began);
            }),
        }
    }
}

/// Times that are none.
pub const BAD_TIMES: [(&str, i64, i64); 5] = [
    ("negative", -1, 0),
    ("most_negative", i64::MIN, 0),
    ("parts_full", 0, 1_000_000_000),
    ("parts_negative", 0, -1),
    ("parts_most_negative", 0, i64::MIN),
];

/// Enough for a busy host to see the call wait, and to interrupt it.
const ENOUGH: Time = Time::Part(1_000);

/// Signals that interrupt, or do not.
const SIGNALS: [(&str, i32); 4] = [
    ("handler", BREAKS),
    ("handler_restarts", RESTARTS),
    ("default_ignored", DEFAULT_IGNORED),
    ("set_to_ignore", SET_TO_IGNORE),
];

/// All situations of a variant.
pub fn all(wait: Wait) -> Vec<(String, Situation)> {
    [in_time(wait), signalled(wait), stopped(wait), refused(wait)].concat()
}

/// All cases of a variant.
pub fn cases(wait: Wait) -> Vec<Case> {
    all(wait).into_iter().map(|(name, situation)| situation.case(wait, &name)).collect()
}

/// Waits for a moment again and again until something is ready; `None` for what has no such wait.
/// What a moment is counted from, and where the call leaves nothing behind, is the same each time.
pub fn looping(wait: Wait) -> Option<Case> {
    const MOMENT: Time = Time::Part(1);
    // What is awaited by its value in the arena would be reset with it.
    let is_relative =
        wait.is_relative() && wait.wakes && wait.ends && !wait.name.starts_with("futex");
    is_relative.then(|| Case {
        name: format!("{}/looping", wait.name),
        shown_as: [wait.nr, wait.made_as()],
        steps: vec![Step::Fire],
        body: Box::new(move |world| {
            let (args, _) = wait.prepare(world, MOMENT, false);
            world.call_until_ready(wait.nr, &args, wait.over());
        }),
    })
}

fn is_bounded_elsewhere(wait: Wait) -> bool {
    wait.form().is_none()
}

/// Ready before and meanwhile, not ready in time, with all kinds of times.
fn in_time(wait: Wait) -> Vec<(String, Situation)> {
    let late = [Step::Blocked, Step::Fire];
    let mut all = Vec::new();
    let mut add = |name: &str, time, at_once, steps: &[Step]| {
        all.push((name.to_owned(), Situation::new(time, at_once, steps)));
    };
    if wait.ends {
        add("timed_out", Time::Short, false, &[]);
        if wait.takes_any_time() && wait.is_relative() {
            add("timed_out/in_part", Time::ShortInPart, false, &[]);
        }
        if !is_bounded_elsewhere(wait) {
            add("zero", Time::Zero, false, &[]);
        }
    }
    if wait.wakes {
        add("ready_at_once", Time::Long, true, &[]);
        add("ready_at_once/zero", Time::Zero, true, &[]);
        add("ready_late", Time::Long, false, &late);
        add("ready_late/huge", Time::Huge, false, &late);
    }
    if wait.endless {
        add("ready_at_once/endless", Time::Null, true, &[]);
        add("ready_late/endless", Time::Null, false, &late);
    }
    all
}

/// Interrupted by signals, and then made ready, or not.
fn signalled(wait: Wait) -> Vec<(String, Situation)> {
    let mut all = Vec::new();
    for (name, signal) in SIGNALS {
        let meanwhile = [Step::Blocked, Step::Signal(signal), Step::Settled, Step::Fire];
        let mut add = |end: &str, time, steps: &[Step]| {
            all.push((format!("{name}/{end}"), Situation::new(time, false, steps)));
        };
        if wait.wakes {
            add("ready", Time::Long, &meanwhile);
        } else if [BREAKS, RESTARTS].contains(&signal) {
            add("long", Time::Long, &meanwhile[..3]);
        }
        if wait.endless && wait.wakes {
            add("endless", Time::Null, &meanwhile);
        }
        if wait.ends {
            // Shorter than its end is far: a call that begins anew at each never ends.
            add("timed_out", ENOUGH, &[Step::Blocked, Step::Signals(signal)]);
        }
    }
    all
}

/// Stopped and continued, and then made ready, or not.
fn stopped(wait: Wait) -> Vec<(String, Situation)> {
    let stop = [Step::Blocked, Step::Stop, Step::Continue, Step::Settled, Step::Fire];
    let outlast = [Step::Blocked, Step::Stop, Step::Outlast, Step::Continue];
    let mut all = Vec::new();
    if wait.wakes {
        all.push(("stopped/ready".to_owned(), Situation::new(Time::Long, false, &stop)));
        if wait.endless {
            all.push(("stopped/endless".to_owned(), Situation::new(Time::Null, false, &stop)));
        }
    }
    if wait.ends {
        let steps = &stop[..3];
        all.push(("stopped/timed_out".to_owned(), Situation::new(ENOUGH, false, steps)));
        all.push(("stopped/beyond_its_time".to_owned(), Situation::new(ENOUGH, false, &outlast)));
    }
    all
}

/// Arguments that are wrong.
fn refused(wait: Wait) -> Vec<(String, Situation)> {
    // A call that is wrongly accepted is not to wait for long, if something else than its time ends
    // it. A sleep that is refused ends long before its time, however busy the host.
    let at_once = wait.wakes;
    let refused = if at_once { Time::Short } else { Time::Long };
    let mut all = Vec::new();
    let mut add = |name: String, time, change| {
        all.push((name, Situation::changed(time, at_once, change)));
    };
    for &at in wait.pointers {
        for bad in BAD {
            // Where a sleep would write what it has left: it is not refused.
            add(format!("pointer_{at}/{bad:?}"), Time::Short, Change::Pointer(at, bad));
        }
    }
    let by_pointer = wait.form().is_some_and(|form| form != Form::Millis);
    if let (Some(at), true) = (wait.time_argument(), by_pointer) {
        for bad in BAD.into_iter().filter(|bad| *bad != Bad::Null) {
            add(format!("time/{bad:?}"), refused, Change::Pointer(at, bad));
        }
    }
    for &(at, value) in wait.refused {
        add(format!("argument_{at}/{value:#x}"), refused, Change::Value(at, value));
    }
    if by_pointer {
        for (name, sec, part) in BAD_TIMES {
            // On an absolute clock an instant long ago is one.
            let situation = Situation::new(Time::Words(sec, part), at_once, &[]);
            all.push((format!("time/{name}"), situation));
        }
    } else if wait.form() == Some(Form::Millis) {
        for (name, millis) in [("negative", -2), ("most_negative", i64::from(i32::MIN))] {
            let situation = Situation::new(Time::Words(millis, 0), true, &[]);
            all.push((format!("time/{name}"), situation));
        }
    }
    // What an interrupted sleep has left, where it cannot be written.
    if !wait.wakes {
        for &at in wait.pointers {
            for bad in BAD {
                let steps = [Step::Blocked, Step::Signal(BREAKS), Step::Settled];
                let change = Some(Change::Pointer(at, bad));
                let situation = Situation { change, ..Situation::new(Time::Long, false, &steps) };
                all.push((format!("handler/pointer_{at}/{bad:?}"), situation));
            }
        }
    }
    all
}
