//! What is measured in which order.
//!
//! A plan is divided into blocks, each of which has everything once: every level under every load
//! with a share of every measurement. Within a block the order is random: first the loads, which
//! are expensive to start; under each load the levels, so that only one level runs at a time; at
//! each level the measurements. So slow changes of a machine affect all of them alike.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::levels::Asked;
use crate::load::Load;
use crate::measurement::Measurement;

/// The plan of a run.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The preset that it is based on.
    pub preset: String,
    /// The levels; the others are compared with the first.
    pub levels: Vec<Place>,
    /// The number of blocks into which everything is divided.
    pub blocks: u32,
    /// The seed of the random order.
    pub seed: u64,
    /// The processor to measure on; null: the last one that the probe may run on.
    pub cpu: Option<u32>,
    /// The measurements under each load, in the table's order.
    pub loads: Vec<UnderLoad>,
}

/// A level to measure at.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The level's name.
    pub name: String,
    /// The words of its command, if it is a command.
    pub command: Option<Vec<String>>,
}

impl From<&Asked> for Place {
    fn from(asked: &Asked) -> Self {
        let command = match asked {
            Asked::Command { prefix, .. } => Some(prefix.clone()),
            _ => None,
        };
        Self { name: asked.name().to_owned(), command }
    }
}

/// The measurements under a load.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnderLoad {
    /// The load.
    pub load: Load,
    /// The measurements as a whole: the blocks share them.
    pub measurements: Vec<Measurement>,
}

/// Consecutive steps of one probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The block.
    pub block: u32,
    /// The index of the load in the plan.
    pub load: usize,
    /// The index of the level in the plan.
    pub level: usize,
    /// The measurements.
    pub steps: Vec<Step>,
}

/// A share of a measurement, at one level under one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its id, independent of the order.
    pub id: StepId,
    /// The share.
    pub measurement: Measurement,
}

/// The id of a step, independent of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepId {
    /// The block.
    pub block: u32,
    /// The index of the load in the plan.
    pub load: usize,
    /// The index of the level in the plan.
    pub level: usize,
    /// The index of the measurement under the load.
    pub measurement: usize,
}

/// Where and when records were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The step; none for the activity of a load while the steps after `order` were measured.
    pub step: Option<StepId>,
    /// The level's name.
    pub level: String,
    /// The load.
    pub load: Load,
    /// The block.
    pub block: u32,
    /// The number of the step among all that were made.
    pub order: u32,
    /// When it began, in nanoseconds since the epoch.
    pub begin_ns: i64,
}

impl Plan {
    /// All groups, in order.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let mut lots = fastrand::Rng::with_seed(self.seed);
        (0..self.blocks).flat_map(|block| self.block(block, &mut lots)).collect()
    }

    fn block(&self, block: u32, lots: &mut fastrand::Rng) -> Vec<Group> {
        let mut drawn = |count: usize| {
            let mut order: Vec<_> = (0..count).collect();
            lots.shuffle(&mut order);
            order
        };
        let mut groups = Vec::new();
        for load in drawn(self.loads.len()) {
            for level in drawn(self.levels.len()) {
                let all = &self.loads[load].measurements;
                let steps = drawn(all.len()).into_iter().filter_map(|measurement| {
                    let id = StepId { block, load, level, measurement };
                    let measurement = all[measurement].share(block, self.blocks)?;
                    Some(Step { id, measurement })
                });
                groups.push(Group { block, load, level, steps: steps.collect() });
            }
        }
        groups
    }

    /// The differences between another plan and this one, a line each; empty if there are none.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let value = |plan: &Self| serde_json::to_value(plan).expect("plans are plain data");
        let mut found = Vec::new();
        differences("", &value(self), &value(other), &mut found);
        found
    }
}

fn differences(at: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                let of = |map: &serde_json::Map<_, _>| map.get(key).cloned().unwrap_or_default();
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                differences(&at, &of(one), &of(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{at}[{index}]"), one, other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            let [one, other] = [one, other].map(|list| shown(list));
            found.push(format!("{at}: {one} there, {other} asked for"));
        }
        (one, other) if one != other => {
            found.push(format!("{at}: {one} there, {other} asked for"));
        }
        _ => {}
    }
}

/// A list: the names in it, or their number.
fn shown(list: &[Value]) -> String {
    let names = list.iter().map(|it| match it {
        Value::String(name) => Some(name.as_str()),
        it => it.get("name").or_else(|| it.get("load")).and_then(Value::as_str),
    });
    let names = names.collect::<Option<Vec<_>>>().map(|names| names.join(", "));
    names.unwrap_or_else(|| list.len().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{Preset, Requests};
    use std::collections::BTreeSet;

    fn plan(seed: u64) -> Plan {
        let preset = Preset::named("quick").unwrap();
        let under = |load| UnderLoad {
            load,
            measurements: preset.measurements(load, &Requests::default()),
        };
        Plan {
            preset: "quick".into(),
            levels: vec![(&Asked::Baseline).into(), (&Asked::Vm).into()],
            blocks: 3,
            seed,
            cpu: None,
            loads: vec![under(Load::Idle), under(Load::Cpu)],
        }
    }

    #[test]
    fn every_block_has_everything_once() {
        let plan = plan(7);
        let groups = plan.groups();
        assert_eq!(groups.len(), 3 * 2 * 2);
        for block in 0..3 {
            let steps = groups.iter().filter(|group| group.block == block);
            let ids: Vec<_> = steps.flat_map(|group| group.steps.iter().map(|it| it.id)).collect();
            let each: BTreeSet<_> = ids.iter().collect();
            assert_eq!(ids.len(), each.len());
            assert_eq!(ids.len(), 2 * 2 * plan.loads[0].measurements.len());
        }
        // A load is started once for all its consecutive levels.
        let loads: Vec<_> = groups.iter().map(|group| (group.block, group.load)).collect();
        let changes = loads.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 3 * 2 - 1);
    }

    #[test]
    fn the_order_is_the_seeds() {
        assert_eq!(plan(7).groups(), plan(7).groups());
        assert_ne!(plan(7).groups(), plan(8).groups());
        let [first, second] = [0, 4].map(|group| plan(7).groups()[group].steps.clone());
        let order = |steps: &[Step]| steps.iter().map(|it| it.id.measurement).collect::<Vec<_>>();
        assert_ne!(order(&first), order(&second));
    }

    #[test]
    fn what_differs_is_said() {
        assert!(plan(7).differences(&plan(7)).is_empty());
        let mut other = plan(8);
        other.levels.pop();
        other.loads[1].measurements[2] = Measurement::Warp { seconds: 1.0, clocks: Vec::new() };
        other.loads[0].measurements.pop();
        let found = plan(7).differences(&other).join("\n");
        for said in [
            "seed: 7 there, 8 asked for",
            "levels: baseline, vm there, baseline asked for",
            "loads[1].measurements[2].kind: \"calls\" there, \"warp\" asked for",
            "loads[0].measurements: ",
        ] {
            assert!(found.contains(said), "{found}");
        }
    }
}
