//! Attaches the processes of containers that were not started on a timeline: existing ones, those
//! that the container engine starts there later (`execs`), and others found by polling.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use eigentime_supervisor::is_in_timeline;
use eigentime_supervisor::registry::Name;
use tokio::sync::Notify;

use super::containers::Container;
use super::execs::Execs;
use super::{groups, local};

/// The polling interval for new processes.
const LOOK: Duration = Duration::from_millis(250);
/// The maximum time before a refused process is tried again; it doubles until then.
const RARELY: Duration = Duration::from_secs(60);
/// The number of refusals after which a process is reported: one that is just being started or
/// ending is not.
const TOLD: u32 = 2;
/// The names of programs that start those of containers, and are in their control groups until
/// then.
const RUNTIMES: [&str; 3] = ["runc", "crun", "youki"];

/// The state of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether each of its processes has been tried.
    pub looked: bool,
    /// The reasons why processes are not covered.
    pub refused: BTreeSet<String>,
    /// Notes for the user about covered processes.
    pub notes: BTreeSet<String>,
}

impl Found {
    /// Whether every process is covered.
    pub fn covers_all(&self) -> bool {
        self.looked && self.refused.is_empty()
    }

    /// The message to report.
    pub fn message(&self) -> Option<String> {
        let lines = if self.refused.is_empty() { &self.notes } else { &self.refused };
        let lines: Vec<_> = lines.iter().map(|line| line.replace('\n', "; ")).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

/// A container whose processes are attached.
struct Unit {
    timeline: Name,
    group: PathBuf,
    tried: Mutex<Tried>,
    found: Mutex<Found>,
}

/// The processes that were tried.
#[derive(Default)]
struct Tried {
    done: HashSet<i32>,
    refused: BTreeMap<i32, Refusal>,
    notes: BTreeSet<String>,
}

struct Refusal {
    reason: String,
    times: u32,
    due: Instant,
}

/// All attached containers, by id.
pub struct Attaching {
    root: PathBuf,
    units: Mutex<HashMap<String, Arc<Unit>>>,
    /// Signals new containers.
    more: Condvar,
    /// Signals a changed state.
    pub news: Notify,
    /// Signals that one of the threads, which should run forever, has ended.
    pub broken: Notify,
    execs: Option<Execs>,
}

impl Attaching {
    /// Starts attaching; the control groups are those of the node, even if this process is in a
    /// pod.
    pub fn start(on_node: bool) -> Arc<Self> {
        let (root, execs) = (groups::root(on_node), Execs::new(on_node));
        let execs = execs.inspect_err(|error| {
            let cost = "short programs that a container engine starts in containers are missed";
            tracing::warn!(%error, cost, "the start of programs cannot be followed");
        });
        let (units, more, news, broken) = Default::default();
        let attaching = Arc::new(Self { root, units, more, news, broken, execs: execs.ok() });
        attaching.keep_doing(Self::look_on);
        if attaching.execs.is_some() {
            attaching.keep_doing(Self::follow_execs);
        }
        attaching
    }

    /// Runs it in a thread, whose end is signalled even if it panics.
    fn keep_doing(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        struct End(Arc<Attaching>);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.broken.notify_one();
            }
        }
        let end = End(Arc::clone(self));
        thread::spawn(move || work(&end.0));
    }

    /// Attaches the processes of a container to an existing timeline from now on; returns the state
    /// so far.
    pub fn attach(&self, container: &Container, timeline: &Name) -> Result<Found, String> {
        let mut units = self.units.lock().expect("nobody panics with it");
        if let Some(unit) = units.get(&container.id) {
            return Ok(unit.found.lock().expect("nobody panics with it").clone());
        }
        let uid = container.pod.uid.as_deref().unwrap_or_default();
        let group = groups::find(&self.root, uid, &container.id);
        let group = group.ok_or_else(|| {
            format!("there is no control group of container {} of pod {uid}", container.id)
        })?;
        let (tried, found) = Default::default();
        let unit = Unit { timeline: timeline.clone(), group, tried, found };
        units.insert(container.id.clone(), Arc::new(unit));
        self.more.notify_all();
        Ok(Found::default())
    }

    /// Stops attaching in other containers than these.
    pub fn keep_only(&self, containers: &HashSet<&str>) {
        let mut units = self.units.lock().expect("nobody panics with it");
        units.retain(|id, _| containers.contains(id.as_str()));
    }

    fn look_on(&self) {
        loop {
            let units: Vec<_> = {
                let units = self.units.lock().expect("nobody panics with it");
                let are_none = |units: &mut HashMap<_, _>| units.is_empty();
                let units = self.more.wait_while(units, are_none).expect("nobody panics with it");
                units.values().cloned().collect()
            };
            for unit in units {
                if unit.look(self.execs.as_ref()) {
                    self.news.notify_one();
                }
            }
            let units = self.units.lock().expect("nobody panics with it");
            // A new container is handled at once.
            drop(self.more.wait_timeout(units, LOOK).expect("nobody panics with it"));
        }
    }

    fn follow_execs(&self) {
        let Some(execs) = &self.execs else { return };
        let ended = execs.answer_all(|process| {
            let group = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
            let units = self.units.lock().expect("nobody panics with it");
            let (_, unit) = units.iter().find(|(id, _)| group.contains(id.as_str()))?;
            Some(unit.timeline.clone())
        });
        let Err(error) = ended;
        tracing::error!(%error, "the start of programs is not followed any more");
    }
}

impl Unit {
    /// Attaches new processes; returns whether the state has changed.
    fn look(&self, execs: Option<&Execs>) -> bool {
        // Without a group, the container has ended.
        let Ok(processes) = groups::processes(&self.group) else { return false };
        let last = self.found.lock().expect("nobody panics with it").clone();
        let mut tried = self.tried.lock().expect("nobody panics with it");
        if let (Some(execs), false, Some(first)) = (execs, last.looked, processes.first())
            && let Err(error) = execs.follow(*first)
        {
            let cost = "short programs that the container engine starts there are missed";
            tried.notes.insert(format!("{cost}: {error:#}"));
        }
        tried.attach(&self.timeline, &processes);
        let told = tried.refused.values().filter(|refusal| refusal.times >= TOLD);
        let refused = told.map(|refusal| refusal.reason.clone()).collect();
        // A process refused only once is tried again before anything is reported.
        let looked = last.looked || tried.refused.values().all(|it| it.times >= TOLD);
        let found = Found { looked, refused, notes: tried.notes.clone() };
        let is_new = found != last;
        *self.found.lock().expect("nobody panics with it") = found;
        is_new
    }
}

impl Tried {
    /// Attaches those of the processes that are new, and those to be tried again.
    fn attach(&mut self, timeline: &Name, processes: &[i32]) {
        let now = Instant::now();
        // Requested once, and only if a new process is on a timeline.
        let members = OnceCell::new();
        let is_member = |process| {
            let members = members.get_or_init(|| local::members(timeline));
            members.as_ref().map(|them| them.contains(&process)).map_err(String::clone)
        };
        self.done.retain(|process| processes.contains(process));
        self.refused.retain(|process, _| processes.contains(process));
        for process in processes {
            let is_due = self.refused.get(process).is_none_or(|refusal| refusal.due <= now);
            if !self.done.contains(process) && is_due {
                self.try_one(timeline, *process, is_member);
            }
        }
    }

    fn try_one(
        &mut self,
        timeline: &Name,
        process: i32,
        is_member: impl Fn(i32) -> Result<bool, String>,
    ) {
        let attached = match (is_in_timeline(process), runtime(process)) {
            (Ok(true), _) => match is_member(process) {
                // The child of a member, or attached by `execs`.
                Ok(true) => Ok(Vec::new()),
                Ok(false) => Err(format!(
                    "process {process} is or was on another timeline, and can be on one only"
                )),
                Err(error) => Err(error),
            },
            (Ok(false), None) => local::attach(timeline, process),
            (Ok(false), Some(name)) => {
                Err(format!("process {process} is {name}, which starts a program there"))
            }
            (Err(error), _) => Err(format!("process {process}: {error}")),
        };
        match attached {
            Ok(notes) => {
                self.done.insert(process);
                self.refused.remove(&process);
                self.notes.extend(notes);
            }
            Err(reason) => {
                let times = self.refused.get(&process).map_or(1, |last| last.times + 1);
                let pause = LOOK.saturating_mul(1 << times.min(16)).min(RARELY);
                let pause = if times < TOLD { Duration::ZERO } else { pause };
                let refusal = Refusal { reason, times, due: Instant::now() + pause };
                self.refused.insert(process, refusal);
            }
        }
    }
}

/// The OCI runtime that a process runs, if it does: the program that it is about to start is
/// attached.
fn runtime(process: i32) -> Option<&'static str> {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    let program = program.to_string_lossy();
    // A copy in memory: /memfd:runc_cloned:/proc/self/exe (deleted)
    let copy = program.strip_prefix("/memfd:").and_then(|name| name.split('_').next());
    let name = copy.or_else(|| Path::new(program.as_ref()).file_name()?.to_str())?;
    RUNTIMES.into_iter().find(|runtime| *runtime == name)
}
