//! How deep processors sleep, and what limits that.

use crate::machine::{Machine, Unknown};
use crate::units::length;
use crate::{Finding, Options};

const FOLDER: &str = "/sys/devices/system/cpu";
/// The device with which programs limit the depth of idle states
/// (Documentation/power/pm_qos_interface.rst). Reading it needs root.
const HOLD: &str = "/dev/cpu_dma_latency";
/// Its value without a request: PM_QOS_CPU_LATENCY_DEFAULT_VALUE, 2000 s, in microseconds.
const NO_HOLD_US: i32 = 2_000_000_000;
/// The exit latency that warrants a note, in microseconds: the usual timer slack. Below it, the
/// slack delays a wake-up longer.
const DEEP_US: u64 = 50;

/// An idle state of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    name: String,
    /// Its exit latency, in microseconds.
    exit_latency_us: u64,
    is_disabled: bool,
}

/// The states of the first processor that has any: on most machines all are alike; otherwise they
/// differ in the deepest ones.
fn states(machine: &Machine) -> Result<Vec<State>, Unknown> {
    let cpus = machine.names(FOLDER)?;
    let with_states = cpus.iter().filter(|name| is_processor(name)).find_map(|cpu| {
        let folder = format!("{FOLDER}/{cpu}/cpuidle");
        machine.names(&folder).ok().map(|states| (folder, states))
    });
    let Some((folder, names)) = with_states else {
        return Err(Unknown::because("no processor has states in sysfs"));
    };
    let state = |name: &String| {
        let file = |file| format!("{folder}/{name}/{file}");
        Some(State {
            name: machine.line(&file("name")).ok()?,
            exit_latency_us: machine.number(&file("latency")).ok()?,
            is_disabled: machine.number::<u8>(&file("disable")).is_ok_and(|it| it != 0),
        })
    };
    let names = names.iter().filter(|name| name.starts_with("state"));
    let states: Vec<_> = names.filter_map(state).collect();
    match states.is_empty() {
        true => Err(Unknown::because(format!("{folder} has no state that can be read"))),
        false => Ok(states),
    }
}

fn is_processor(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// The latency limit requested by programs, in microseconds; None if there is none.
fn hold_us(machine: &Machine) -> Result<Option<u64>, Unknown> {
    // Opening it only for reading requests nothing by itself (cpu_latency_qos_open adds a request
    // of the default value).
    let bytes = std::fs::File::open(machine.path(HOLD)).and_then(|mut file| {
        let mut bytes = [0; 4];
        std::io::Read::read_exact(&mut file, &mut bytes).map(|()| bytes)
    });
    let held = bytes.map(i32::from_ne_bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Unknown::because(format!("{HOLD}: only root may read it"))
        }
        _ => Unknown::because(format!("{HOLD}: {error}")),
    })?;
    Ok(if held == NO_HOLD_US { None } else { u64::try_from(held).ok() })
}

/// Checks the exit latency of idle states.
pub fn idle_states(machine: &Machine, _: &Options) -> Finding {
    let word = |file| machine.line(&format!("{FOLDER}/cpuidle/{file}"));
    let governor = word("current_governor").or_else(|_| word("current_governor_ro"));
    judge(states(machine), hold_us(machine))
        .fact("idle_driver", word("current_driver"))
        .fact("idle_governor", governor)
}

fn judge(states: Result<Vec<State>, Unknown>, hold: Result<Option<u64>, Unknown>) -> Finding {
    let held_to = hold.as_ref().ok().copied().flatten();
    let deepest = states.as_ref().map(|states| {
        let usable = states.iter().filter(|state| {
            !state.is_disabled && held_to.is_none_or(|held| state.exit_latency_us <= held)
        });
        usable.map(|state| state.exit_latency_us).max().unwrap_or(0)
    });
    let mut finding = match &deepest {
        Err(why) => Finding::unknown("the exit latency of idle states", why),
        Ok(deepest) if *deepest >= DEEP_US => Finding::note(format!(
            "idle processors have an exit latency of up to {}",
            length(*deepest as f64 * 1e3)
        ))
        .advise(
            "for low wake-up latency: hold /dev/cpu_dma_latency open with 0 in it, as \
             cyclictest does, or boot with cpuidle.off=1",
            "more power and heat, and less turbo",
        ),
        Ok(deepest) => Finding::ok(format!(
            "idle processors have an exit latency of up to {}",
            length(*deepest as f64 * 1e3)
        )),
    };
    if let Ok(states) = &states {
        for state in states {
            let off = if state.is_disabled { ", switched off" } else { "" };
            let latency = length(state.exit_latency_us as f64 * 1e3);
            finding = finding.line(format!("{}: exit latency {latency}{off}", state.name)).fact_of(
                "idle_exit_latency_us",
                &[("state", &state.name)],
                state.exit_latency_us,
            );
        }
    }
    finding = match &hold {
        Ok(Some(held)) => finding.line(format!(
            "a program limits the exit latency to {} through /dev/cpu_dma_latency",
            length(*held as f64 * 1e3)
        )),
        Ok(None) => finding.line("no program limits the exit latency"),
        Err(why) => {
            finding.line(format!("whether a program limits the exit latency is unknown: {why}"))
        }
    };
    let hold = hold.map(|held| held.map_or(f64::from(NO_HOLD_US), |held| held as f64));
    finding
        .fact("deepest_exit_latency_us", deepest.map_err(Clone::clone))
        .fact("latency_hold_us", hold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    fn machine_of_a_server() -> Tree {
        let tree = Tree::new("idle");
        let rows = [("POLL", "0", "0"), ("C1", "2", "0"), ("C1E", "10", "0"), ("C6", "133", "0")];
        for (place, (name, latency, disable)) in rows.iter().enumerate() {
            let folder = format!("sys/devices/system/cpu/cpu0/cpuidle/state{place}");
            tree.file(&format!("{folder}/name"), name);
            tree.file(&format!("{folder}/latency"), latency);
            tree.file(&format!("{folder}/disable"), disable);
        }
        tree.file("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
        tree.file("sys/devices/system/cpu/cpuidle/current_governor_ro", "menu\n");
        tree
    }

    #[test]
    fn deep_states_are_noted_unless_they_are_off_or_held() {
        let tree = machine_of_a_server();
        let judged = |hold| judge(states(&tree.machine()), hold);
        let deep = judged(Ok(None));
        assert_eq!(deep.verdict, Verdict::Note);
        assert!(deep.found.contains("133 µs"), "{}", deep.found);
        let held = judged(Ok(Some(0)));
        assert_eq!(held.verdict, Verdict::Ok);
        assert!(
            held.lines
                .iter()
                .any(|line| line.contains("a program limits the exit latency to 0 ns"))
        );
        tree.file("sys/devices/system/cpu/cpu0/cpuidle/state3/disable", "1\n");
        let off = judged(Err(Unknown::because("closed")));
        assert_eq!(off.verdict, Verdict::Ok);
        assert!(off.lines.iter().any(|line| line == "C6: exit latency 133 µs, switched off"));
    }

    #[test]
    fn a_hold_is_read_as_the_kernel_writes_it() {
        let tree = Tree::new("hold");
        let write = |value: i32| {
            std::fs::create_dir_all(tree.machine().path("/dev")).unwrap();
            std::fs::write(tree.machine().path(HOLD), value.to_ne_bytes()).unwrap();
        };
        assert!(hold_us(&tree.machine()).is_err());
        write(NO_HOLD_US);
        assert_eq!(hold_us(&tree.machine()), Ok(None));
        write(20);
        assert_eq!(hold_us(&tree.machine()), Ok(Some(20)));
        assert!(states(&tree.machine()).is_err());
        tree.file("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL");
        assert!(states(&tree.machine()).unwrap_err().to_string().contains("no state"));
    }
}
