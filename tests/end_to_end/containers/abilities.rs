//! The abilities of an engine on this machine, determined without Eigentime.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::command::run;
use crate::containers::columns::Column;
use crate::containers::container::{self, Container};
use crate::containers::engine::Engine;
use crate::containers::limits;
use crate::containers::spec::{Choice, Image, Runtime, Spec};
use crate::needs::Need;
use crate::suite::Broken;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(60);

/// A prerequisite of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ability {
    Restart,
    /// Containers have names besides their IDs.
    Names,
    Pods,
    /// Fetching images from the registry of these tests.
    Pull,
    /// Being called without an engine.
    Bundles,
    Distribution,
    Scratch,
    /// Programs of users other than the container's own.
    OtherUsers,
    /// Joining timelines that no container has made.
    HostTimelines,
    User,
    ReadOnly,
    NoCapabilities,
    NoNewPrivileges,
    Seccomp,
    Privileged,
    HostPids,
    SharedPids,
    Memory,
    Cpus,
    Volume,
    /// Pausing and resuming a container.
    Pause,
}

/// Engines of ordinary users accept limits that they cannot set.
fn limited(
    column: &Column,
    holds: fn(&dyn Engine, Spec) -> Result<bool, Broken>,
) -> Result<(), String> {
    match holds(column.engine()?, Spec::serving().by(Runtime::Bare)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("limits that hold, which {} ignores", column.label)),
        Err(broken) => {
            let why = broken.0.lines().last().unwrap_or_default().to_owned();
            Err(format!("limits, which {} cannot set: {why}", column.label))
        }
    }
}

/// A container without Eigentime can be paused.
fn pauses(engine: &dyn Engine) -> Result<(), Broken> {
    let container = Container::serve(engine, &Spec::serving().by(Runtime::Bare))?;
    [true, false].into_iter().try_for_each(|is_paused| container.pause(is_paused))
}

type Known = HashMap<(&'static str, Ability), Result<(), String>>;

impl Ability {
    /// Asks an engine, and if that is not enough, tries once.
    pub fn try_on(self, column: &'static Column) -> Result<(), String> {
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        let mut known = KNOWN.lock().map_err(|error| error.to_string())?;
        known
            .get_or_insert_default()
            .entry((column.label, self))
            .or_insert_with(|| self.find_out(column))
            .clone()
    }

    fn find_out(self, column: &Column) -> Result<(), String> {
        let engine = column.engine()?;
        let spec = Spec::new(&["true"]).by(Runtime::Bare);
        let spec = match self {
            // An engine that can do this by design can do it here.
            Ability::Restart
            | Ability::Names
            | Ability::Pods
            | Ability::Bundles
            | Ability::OtherUsers
            | Ability::HostTimelines => return Ok(()),
            Ability::Pull => {
                let missing = Need::Tool("docker-registry").missing();
                let missing = missing.or_else(|| Need::Tool("skopeo").missing());
                return missing.map_or(Ok(()), Err);
            }
            Ability::Distribution => spec.of(Image::Distribution),
            Ability::Scratch => {
                Spec { command: vec!["/opt/scratch".into()], ..spec }.of(Image::Scratch)
            }
            Ability::User => spec.choose(Choice::User(1000, 1000)),
            Ability::ReadOnly => spec.choose(Choice::ReadOnly),
            Ability::NoCapabilities => spec.choose(Choice::NoCapabilities),
            Ability::NoNewPrivileges => spec.choose(Choice::NoNewPrivileges),
            Ability::Seccomp => {
                spec.choose(Choice::Seccomp(container::profile().map_err(|broken| broken.0)?))
            }
            Ability::Volume => {
                let folder = workspace::scratch().map_err(|broken| broken.0)?;
                spec.choose(Choice::Volume(folder, "/mnt"))
            }
            Ability::Privileged => spec.choose(Choice::Privileged),
            Ability::HostPids => spec.choose(Choice::HostPids),
            Ability::SharedPids => {
                let other = Container::serve(engine, &Spec::serving().by(Runtime::Bare));
                let shares = other.and_then(|other| {
                    let share = Choice::PidsOf(other.name.clone(), other.init()?);
                    self.succeeds(column, &spec.choose(share)).map_err(Broken)
                });
                return shares.map_err(|broken| broken.0);
            }
            Ability::Pause => {
                return pauses(engine).map_err(|Broken(why)| {
                    let last = why.lines().last().unwrap_or_default();
                    format!("to pause containers, which {} cannot: {last}", column.label)
                });
            }
            Ability::Memory => return limited(column, limits::memory_limit),
            Ability::Cpus => return limited(column, limits::cpu_limit),
        };
        self.succeeds(column, &spec)
    }

    /// Whether such a container runs without Eigentime.
    fn succeeds(self, column: &Column, spec: &Spec) -> Result<(), String> {
        let engine = column.engine()?;
        let mut command = engine.run(&container::new_name(), spec).map_err(|unable| unable.0)?;
        let ended = run(&mut command, LIMIT).map_err(|broken| broken.0)?;
        if ended.status.success() {
            return Ok(());
        }
        let last = ended.errors.lines().last().unwrap_or("it does not say why");
        Err(format!("{self:?} of {}, which fails without Eigentime: {last}", column.label))
    }
}
