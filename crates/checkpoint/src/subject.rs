//! The processes of a checkpoint: one and all its descendants, which are in one timeline or in
//! none.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use eigentime_supervisor::container::Container;
use eigentime_supervisor::control::client;
use eigentime_supervisor::control::protocol::Method;
use eigentime_supervisor::control::{Fate, Scheduled, Shown};
use eigentime_supervisor::registry::{Name, Registry};
use eigentime_supervisor::{in_none, is_in_timeline, timeline_with, tree_of};
use eigentime_timeline::VirtualInstant;
use eigentime_timeline::text::format_date;
use nix::unistd::Pid;

use crate::Error;
use crate::engines::Known;

/// How long a process may be no member because it is just starting a program.
const STARTING: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);

/// The request for a checkpoint.
#[derive(Clone, Debug)]
pub enum Of {
    /// All members of a timeline.
    Timeline(Name),
    /// A process and its descendants.
    Process(i32),
}

/// A process with all its descendants.
pub struct Subject {
    pub root: i32,
    /// The timeline of all of them.
    pub timeline: Option<Name>,
    /// Whether that has its name only while the checkpoint is made.
    is_name_lent: bool,
    /// Whether the timeline has no other members.
    pub is_whole: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// What a checkpoint is made of.
pub enum Found {
    Processes(Subject),
    Container(Known),
}

impl Found {
    /// Finds it, if a checkpoint can be made of it.
    pub fn find(of: &Of) -> Result<Self, Error> {
        match of {
            Of::Timeline(name) => Self::of_name(name),
            Of::Process(root) => Subject::of_process(*root).map(Self::Processes),
        }
    }

    /// A timeline, or a container on one or on none.
    fn of_name(name: &Name) -> Result<Self, Error> {
        let registries =
            Registry::all().map_err(|unusable| Error::Subject(unusable.to_string()))?;
        let (registry, timeline) = match client::timeline_of(&registries, name) {
            Ok(found) => found,
            Err(failure @ client::Failure::NoSuch { .. }) => {
                let known = Known::by_name(&name.to_string());
                return known.map(Self::Container).ok_or_else(|| refused(failure));
            }
            Err(failure) => return Err(refused(failure)),
        };
        let shown: Shown = client::call(registry, &timeline, Method::Show {}).map_err(refused)?;
        let text = name.to_string();
        let is_it = |one: &&Container| one.id == text || one.name.as_ref() == Some(&text);
        match (shown.containers.iter().find(is_it), shown.containers.as_slice()) {
            (Some(container), _) | (None, [container]) => {
                Ok(Self::Container(Known::member(container)))
            }
            (None, []) => Subject::whole(registry, timeline, &shown).map(Self::Processes),
            (None, [one, other, ..]) => Err(Error::Subject(format!(
                "timeline '{timeline}' has containers {one} and {other}, and each is a checkpoint of its \
                 own\nhelp: name a container"
            ))),
        }
    }
}

impl Subject {
    /// The timeline by a name that it keeps.
    pub fn named(&self) -> Option<&Name> {
        self.timeline.as_ref().filter(|_| !self.is_name_lent)
    }

    /// All members of a timeline.
    fn whole(registry: &Registry, name: Name, shown: &Shown) -> Result<Self, Error> {
        let members: HashSet<i32> = shown.members.iter().map(|member| member.pid).collect();
        let mut roots = members
            .iter()
            .filter(|pid| parent_of(**pid).is_some_and(|parent| !members.contains(&parent)));
        let root = match (roots.next(), roots.next()) {
            (None, _) => return Err(Error::Subject(format!("timeline '{name}' has no members"))),
            (Some(root), None) => *root,
            (Some(one), Some(other)) => {
                return Err(Error::Subject(format!(
                    "timeline '{name}' has processes {one} and {other}, neither of which is a \
                     descendant of the other, and criu dumps one tree\n\
                     help: make a checkpoint of each with --pid"
                )));
            }
        };
        check(root, registry, &name)?;
        Ok(Self { is_whole: true, ..Self::on(root, name, shown) })
    }

    fn of_process(root: i32) -> Result<Self, Error> {
        if parent_of(root).is_none() {
            return Err(Error::Subject(format!("there is no process {root}")));
        }
        let mut silent = Vec::new();
        if let Some(found) = Self::on_named(root, &mut silent)? {
            return Ok(found);
        }
        if is_in_timeline(root).unwrap_or(false)
            && eigentime_supervisor::lend_name(root)?
            && let Some(found) = Self::on_named(root, &mut silent)?
        {
            return Ok(Self { is_name_lent: true, ..found });
        }
        let on_one = |pid: &i32| is_in_timeline(pid).unwrap_or(false);
        match tree_of(Pid::from_raw(root)).into_iter().map(Pid::as_raw).find(on_one) {
            None => Ok(Self {
                root,
                timeline: None,
                is_name_lent: false,
                is_whole: false,
                notes: Vec::new(),
            }),
            Some(pid) if pid == root && !silent.is_empty() => {
                Err(Error::Subject(in_none(root, &silent)))
            }
            Some(pid) => Err(Error::Subject(format!(
                "process {pid} is on a timeline of another user, or on one that process {root} is \
                 not on\n\
                 help: make a checkpoint of the process that was started on that timeline"
            ))),
        }
    }

    fn on(root: i32, timeline: Name, shown: &Shown) -> Self {
        let tree = tree_of(Pid::from_raw(root));
        let is_in = |pid| tree.contains(&Pid::from_raw(pid)) || parent_of(pid).is_none();
        let is_whole = shown.members.iter().all(|it| is_in(it.pid));
        let scheduled = match &shown.scheduled {
            Some(Scheduled { at_ns, fate: Fate::Pending }) => {
                let date = format_date(VirtualInstant::from_nanos(*at_ns));
                Some(format!("the change at {date} of the host is not in the checkpoint"))
            }
            _ => None,
        };
        let notes = scheduled.into_iter().collect();
        Self { root, timeline: Some(timeline), is_name_lent: false, is_whole, notes }
    }

    /// The process, if it is a member of a named timeline; `silent` are those that do not answer.
    fn on_named(root: i32, silent: &mut Vec<client::Failure>) -> Result<Option<Self>, Error> {
        let registries =
            Registry::all().map_err(|unusable| Error::Subject(unusable.to_string()))?;
        let looked = timeline_with(&registries, root)?;
        *silent = looked.silent;
        let Some((registry, name, shown)) = looked.found else { return Ok(None) };
        let of_container = shown.member(root).and_then(|it| it.container.as_ref());
        if let Some(container) = shown.containers.iter().find(|it| of_container == Some(&it.id)) {
            let name = container.name.as_ref().unwrap_or(&container.id);
            return Err(Error::Subject(format!(
                "process {root} is in container {container}, of which a checkpoint is made as a whole\n\
                 help: eigentime checkpoint {name} -o DIR"
            )));
        }
        check(root, registry, &name)?;
        Ok(Some(Self::on(root, name, &shown)))
    }
}

/// Checks that a process and all its descendants are members of one timeline, so that they can be
/// dumped.
fn check(root: i32, registry: &Registry, name: &Name) -> Result<(), Error> {
    let end = Instant::now() + STARTING;
    let stranger = loop {
        let stranger = stranger_below(root, registry, name)?;
        if stranger.is_none() || Instant::now() > end {
            break stranger;
        }
        thread::sleep(PAUSE);
    };
    match stranger {
        None => Ok(()),
        Some(pid) => Err(Error::Subject(format!(
            "process {pid}, which is process {root} or a descendant of it, is not on timeline '{name}' \
             or was returned to host time\nhelp: end it first"
        ))),
    }
}

/// A process of that tree that is not a member.
fn stranger_below(root: i32, registry: &Registry, name: &Name) -> Result<Option<i32>, Error> {
    let mut tree = tree_of(Pid::from_raw(root)).into_iter().map(Pid::as_raw);
    // One that has been started meanwhile is a member by now, and one that was a member may have
    // ended.
    let shown: Shown = client::call(registry, name, Method::Show {}).map_err(refused)?;
    Ok(tree.find(|pid| !shown.has(*pid) && parent_of(*pid).is_some()))
}

/// The parent of a process that has not ended.
fn parent_of(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim());
    let has_ended = field("State:")?.starts_with(['Z', 'X']);
    field("PPid:")?.parse().ok().filter(|_| !has_ended)
}

fn refused(failure: client::Failure) -> Error {
    Error::Subject(failure.to_string())
}
