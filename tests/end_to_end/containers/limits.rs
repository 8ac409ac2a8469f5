//! Limits apply to a container in a timeline as to any other.

use std::fs;
use std::path::Path;

use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::container::{Container, run_to_end};
use crate::containers::engine::Engine;
use crate::containers::spec::{Choice, Spec};
use crate::ensure;
use crate::suite::{Broken, Outcome};
use crate::timeline::FUTURE;

const GROUPS: &str = "/sys/fs/cgroup";

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "limits::memory", takes: &[Ability::Memory], body: memory },
    Scenario { name: "limits::cpus", takes: &[Ability::Cpus], body: cpus },
];

/// A file of the control group of a process: its name in version 1, for a controller, or in version
/// 2.
pub fn group_file(pid: u32, controller: &str, first: &str, second: &str) -> Result<String, Broken> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let mut candidates = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let file = match controllers.split(',').any(|name| name == controller) {
            true => Path::new(GROUPS).join(controllers).join(path).join(first),
            false => Path::new(GROUPS).join(path).join(second),
        };
        fs::read_to_string(file).ok()
    });
    let text = candidates.next();
    text.map(|text| text.trim().to_owned())
        .ok_or_else(|| Broken(format!("{pid} has no {controller} group in\n{groups}")))
}

/// The limit of a container that has one.
pub fn memory_limit(engine: &dyn Engine, spec: Spec) -> Result<bool, Broken> {
    let container = Container::serve(engine, &spec.choose(Choice::MemoryMib(64)))?;
    let limit = group_file(container.init()?, "memory", "memory.limit_in_bytes", "memory.max")?;
    Ok(limit == (64 << 20).to_string())
}

/// The same for its share of the processors.
pub fn cpu_limit(engine: &dyn Engine, spec: Spec) -> Result<bool, Broken> {
    let container = Container::serve(engine, &spec.choose(Choice::Cpus(0.5)))?;
    let quota = group_file(container.init()?, "cpu", "cpu.cfs_quota_us", "cpu.max")?;
    Ok(quota.starts_with("50000"))
}

fn memory(engine: &dyn Engine) -> Outcome {
    ensure!(memory_limit(engine, Spec::serving().set("date", FUTURE.0))?, "there is no limit");
    for (mib, fits) in [("16", true), ("200", false)] {
        let spec = Spec::new(&["/opt/contained", "allocate", mib]).set("date", FUTURE.0);
        let ended = run_to_end(engine, &spec.choose(Choice::MemoryMib(64)))?;
        ended.ensure(ended.output().contains("allocated") == fits, format_args!("{mib} MiB"))?;
        ended.ensure(ended.status.success() == fits, "it does not end like that")?;
    }
    Ok(())
}

fn cpus(engine: &dyn Engine) -> Outcome {
    ensure!(cpu_limit(engine, Spec::serving().set("rate", "100"))?, "there is no limit");
    Ok(())
}
