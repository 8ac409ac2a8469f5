//! When the kernel runs a waking thread: at once, or when the current one is done.

use super::config::{Config, parameter};
use crate::machine::{Machine, Unknown};
use crate::{Finding, Options};

/// Where the kernel reports the model in force, in parentheses; for root.
const IN_FORCE: &str = "/sys/kernel/debug/sched/preempt";

/// The preemption models, from least to most preemptible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    None,
    Voluntary,
    Lazy,
    Full,
    RealTime,
}

/// Their names on the command line and in `IN_FORCE`, and what makes each the default.
const MODELS: [(Model, &str, &str, &str); 5] = [
    (
        Model::RealTime,
        "rt",
        "PREEMPT_RT",
        "real-time: a thread that wakes runs at once, nearly everywhere",
    ),
    (
        Model::Full,
        "full",
        "PREEMPT",
        "full: a thread that wakes runs at once, but for critical sections",
    ),
    (
        Model::Lazy,
        "lazy",
        "PREEMPT_LAZY",
        "lazy: a real-time thread that wakes runs at once, another at the tick",
    ),
    (
        Model::Voluntary,
        "voluntary",
        "PREEMPT_VOLUNTARY",
        "voluntary: a thread that wakes runs where the kernel offers it",
    ),
    (
        Model::None,
        "none",
        "PREEMPT_NONE",
        "none: a thread that wakes waits until the kernel is done with its call",
    ),
];

fn named(name: &str) -> Option<Model> {
    MODELS.iter().find(|(_, known, ..)| *known == name).map(|(model, ..)| *model)
}

/// Whether the model can be chosen at boot. Such a kernel has it in its version.
fn is_dynamic(machine: &Machine) -> Result<bool, Unknown> {
    let version = machine.line("/proc/sys/kernel/version")?;
    let is_said = version.split_whitespace().any(|word| word == "PREEMPT_DYNAMIC");
    Ok(is_said || Config::of(machine).is_ok_and(|config| config.has("PREEMPT_DYNAMIC")))
}

/// The model in force.
fn model(machine: &Machine) -> Result<Model, Unknown> {
    if machine.line("/sys/kernel/realtime").is_ok_and(|it| it == "1") {
        return Ok(Model::RealTime);
    }
    let in_force = machine.line(IN_FORCE);
    if let Ok(line) = &in_force {
        let name = line.split_once('(').and_then(|(_, rest)| Some(rest.split_once(')')?.0));
        if let Some(model) = name.and_then(named) {
            return Ok(model);
        }
    }
    let version = machine.line("/proc/sys/kernel/version")?;
    let says = |word| version.split_whitespace().any(|it| it == word);
    if says("PREEMPT_RT") {
        return Ok(Model::RealTime);
    }
    // A kernel built with preemption has it in its version, which is reliable unless the model can
    // be chosen at boot.
    if !says("PREEMPT_DYNAMIC") && says("PREEMPT") {
        let config = Config::of(machine).ok();
        let is_lazy = config.is_some_and(|config| config.has("PREEMPT_LAZY"));
        return Ok(if is_lazy { Model::Lazy } else { Model::Full });
    }
    let asked = parameter(machine, "preempt").ok().flatten();
    if let (true, Some(model)) = (says("PREEMPT_DYNAMIC"), asked.as_deref().and_then(named)) {
        return Ok(model);
    }
    let config = Config::of(machine).map_err(|why| match in_force {
        Err(closed) if says("PREEMPT_DYNAMIC") => Unknown::because(format!("{closed}; {why}")),
        _ => why,
    })?;
    let built = MODELS.iter().find(|(_, _, option, _)| config.has(option));
    built
        .map(|(model, ..)| *model)
        .ok_or_else(|| Unknown::because("the kernel's configuration names no model"))
}

/// Checks which preemption model is in force.
pub fn preemption(machine: &Machine, _: &Options) -> Finding {
    let model = match model(machine) {
        Ok(model) => model,
        Err(why) => {
            return Finding::unknown("the preemption model", &why).fact("preemption_model", why);
        }
    };
    let row = MODELS.iter().find(|(it, ..)| *it == model);
    let (name, said) = row.map_or(("", ""), |(_, name, _, said)| (*name, *said));
    let found = format!("preemption model {said}");
    let dynamic = is_dynamic(machine);
    let finding = match model {
        Model::None | Model::Voluntary => Finding::note(found).advise(
            match dynamic {
                Ok(true) => {
                    "for low wake-up latency under load: boot with preempt=full (this \
                     kernel is PREEMPT_DYNAMIC), or a kernel with PREEMPT_RT"
                }
                Ok(false) => {
                    "for low wake-up latency under load: a kernel that was built with \
                     PREEMPT or PREEMPT_RT; this one cannot change its model at boot"
                }
                Err(_) => {
                    "for low wake-up latency under load: boot with preempt=full, if the \
                     kernel is PREEMPT_DYNAMIC, which cannot be seen here, or a kernel with \
                     PREEMPT_RT"
                }
            },
            "some throughput",
        ),
        _ => Finding::ok(found),
    };
    finding.fact("preemption_model", name).fact("preemption_dynamic", dynamic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn the_model_in_force_is_found_as_well_as_may_be() {
        let tree = Tree::new("preempt");
        tree.file(
            "proc/sys/kernel/version",
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)\n",
        );
        tree.file("proc/sys/kernel/osrelease", "6.1\n");
        tree.file("proc/cmdline", "quiet\n");
        let model = || model(&tree.machine());
        let why = model().unwrap_err().to_string();
        assert!(why.contains("sched/preempt") && why.contains("config-6.1"), "{why}");
        tree.file("boot/config-6.1", "CONFIG_PREEMPT_VOLUNTARY=y\n# CONFIG_PREEMPT is not set\n");
        assert_eq!(model(), Ok(Model::Voluntary));
        tree.file("proc/cmdline", "preempt=full\n");
        assert_eq!(model(), Ok(Model::Full));
        tree.file("sys/kernel/debug/sched/preempt", "none voluntary full (lazy)\n");
        assert_eq!(model(), Ok(Model::Lazy));
        tree.file("sys/kernel/realtime", "1\n");
        assert_eq!(model(), Ok(Model::RealTime));
    }

    #[test]
    fn only_what_applies_is_advised() {
        let advice = |version: &str| {
            let tree = Tree::new("preempt-advice");
            tree.file("proc/sys/kernel/version", version);
            tree.file("proc/sys/kernel/osrelease", "6.1\n");
            tree.file("boot/config-6.1", "CONFIG_PREEMPT_NONE=y\n");
            let finding = preemption(&tree.machine(), &Options::default());
            finding.advice[0].what.clone()
        };
        assert!(advice("#1 SMP PREEMPT_DYNAMIC Mon Jan 1").contains("boot with preempt=full"));
        assert!(!advice("#1 SMP Mon Jan 1").contains("preempt=full"));
    }

    #[test]
    fn versions_say_it_where_it_cannot_be_chosen() {
        let cases = [
            ("#1 SMP PREEMPT Mon Jan 1 00:00:00 UTC 2024", Some(Model::Full)),
            ("#1 SMP PREEMPT_RT Mon Jan 1 00:00:00 UTC 2024", Some(Model::RealTime)),
            ("#112-Ubuntu SMP Thu Feb 1 00:00:00 UTC 2024", None),
        ];
        for (version, expected) in cases {
            let tree = Tree::new("preempt-version");
            tree.file("proc/sys/kernel/version", version);
            tree.file("proc/sys/kernel/osrelease", "5.15\n");
            assert_eq!(model(&tree.machine()).ok(), expected, "{version}");
        }
    }
}
