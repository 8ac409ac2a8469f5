//! A member that its cgroup has frozen delays nobody, and catches up once it is thawed.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::place::{PATIENCE, Place};
use crate::command::User;
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};

const HOUR_NS: i128 = 3_600_000_000_000;
/// What a timer may be late by that is armed anew on a busy host, at rate 60.
const SLACK_NS: i128 = 60_000_000_000;
const CLOCKS: [u32; 2] = [1, 7];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let root = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at))
    });
    let needs = [
        Need::Root,
        Need::Program(Build::Dynamic),
        Need::Other(root.is_some(), "a cgroup2 hierarchy".into()),
    ];
    let root = root.unwrap_or_default();
    suite.test("named::frozen_member", &needs, move || frozen_member(&root.join("eigentime-test")));
}

/// A group of processes that can be frozen.
struct Group {
    directory: PathBuf,
}

impl Group {
    fn new(directory: PathBuf) -> Result<Self, Broken> {
        fs::create_dir(&directory)?;
        Ok(Self { directory })
    }

    fn write(&self, file: &str, text: &str) -> Outcome {
        Ok(fs::write(self.directory.join(file), text)?)
    }

    /// Returns once they are frozen.
    fn freeze(&self) -> Outcome {
        self.write("cgroup.freeze", "1")?;
        let end = Instant::now() + PATIENCE;
        while !fs::read_to_string(self.directory.join("cgroup.events"))?.contains("frozen 1") {
            ensure!(Instant::now() < end, "the group does not freeze");
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // If it is not empty, that is what the test says.
        let _ = self.write("cgroup.freeze", "0");
        let _ = fs::remove_dir(&self.directory);
    }
}

fn frozen_member(directory: &Path) -> Outcome {
    let place = Place::new()?;
    let program = User::Myself.program(Program::Armed, Build::Dynamic)?;
    let mut frozen = place.talk("x", &[], program, &["3600000", "3600000"])?;
    frozen.snapshot()?;
    let name = format!("{}-{}", directory.display(), frozen.pid());
    let group = Group::new(name.into())?;
    group.write("cgroup.procs", &frozen.pid().to_string())?;
    group.freeze()?;

    place.done(&["set", "x", "--rate", "60"])?;
    ensure!(place.show("x")?.rate == 60.0, "its rate is another");
    let reads = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut other = place.talk("x", &[], reads, &[])?;
    let (first, second) = (other.snapshot()?, other.snapshot()?);
    ensure!(first.ns("vdso_1")? < second.ns("vdso_1")?, "its clock stands still");
    place.done(&["leap", "x", "60s"])?;
    other.finish()?;

    group.write("cgroup.freeze", "0")?;
    let thawed = frozen.snapshot()?;
    for clock in CLOCKS {
        let of = |key: &str| thawed.ns(&format!("{key}_{clock}"));
        let now = of("now")?;
        for timer in
            ["timerfd", "timerfd_abs", "timerfd_every", "timer", "timer_abs", "timer_every"]
        {
            let due = now + thawed.ns(&format!("{timer}_{clock}_left"))?;
            let (least, most) =
                (of("from")? + HOUR_NS - SLACK_NS, of("till")? + HOUR_NS + SLACK_NS);
            ensure!(
                (least..=most).contains(&due),
                "{timer}_{clock} is due at {due}, not {least} to {most}"
            );
        }
    }
    frozen.finish()?;
    place.remove("x")
}
