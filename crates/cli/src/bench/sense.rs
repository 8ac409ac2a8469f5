//! Refuses options that cannot matter: a user who gives them expects something else.

use eigentime_study::levels::Asked;
use eigentime_study::plan::Plan;

use super::args::MeasureOptions;

/// Refuses what cannot matter for this plan, is empty, or is given twice.
pub fn check(options: &MeasureOptions, levels: &[Asked], plan: &Plan) -> Result<(), String> {
    let all = || plan.loads.iter().flat_map(|load| &load.measurements);
    for (option, is_given, kinds) in belongings(options) {
        if is_given && !all().any(|it| kinds.contains(&it.kind())) {
            let kinds = kinds.join(" and ");
            return Err(format!(
                "--{option} is for {kinds}, which is not measured\nhelp: leave it out, or name {kinds}"
            ));
        }
    }
    if let Some(kind) = options.kinds.iter().find(|kind| !all().any(|it| it.kind() == kind.name()))
    {
        return Err(format!(
            "nothing is left to measure of {}: the names given belong to other measurements",
            kind.name()
        ));
    }
    let of_machines = [
        ("vm-kernel", options.vm_kernel.is_some()),
        ("vm-accelerator", options.vm_accelerator.is_some()),
    ];
    if let Some((option, _)) = of_machines.into_iter().find(|(_, is_given)| *is_given)
        && !levels.contains(&Asked::Vm)
    {
        return Err(format!("--{option} is for the level vm, which is not among the levels"));
    }
    if options.machine.as_deref().is_some_and(|name| name.trim().is_empty()) {
        return Err("--machine is empty: a machine needs a name".into());
    }
    let it = &options.requests;
    twice("what is measured", &options.kinds, |kind| kind.name().to_owned())?;
    twice("--load", &options.load, |load| load.name().to_owned())?;
    twice("--metric", &it.metric, String::clone)?;
    twice("--source", &it.source, String::clone)?;
    twice("--cache", &it.cache, String::clone)?;
    twice("--method", &it.method, String::clone)?;
    twice("--interval", &it.interval, |interval| format!("{interval:?}"))?;
    twice("--slack", &it.slack, u32::to_string)?;
    twice("--policy", &it.policy, String::clone)?;
    // The first block has the largest part.
    all().filter_map(|it| it.share(0, plan.blocks)).try_for_each(|it| it.check())
}

/// Options that select, whether they are given, and the measurements to which they apply. The count
/// may be given once for commands of every kind; calls are of one kind.
fn belongings(options: &MeasureOptions) -> [(&'static str, bool, &'static [&'static str]); 7] {
    let it = &options.requests;
    [
        ("metric", !it.metric.is_empty(), &["calls"]),
        ("calls", it.calls.is_some(), &["calls"]),
        ("source", !it.source.is_empty(), &["read", "events"]),
        ("cache", !it.cache.is_empty(), &["read"]),
        ("method", !it.method.is_empty(), &["sleep"]),
        ("slack", !it.slack.is_empty(), &["sleep"]),
        ("policy", !it.policy.is_empty(), &["sleep"]),
    ]
}

fn twice<T: PartialEq>(
    option: &str,
    list: &[T],
    shown: impl Fn(&T) -> String,
) -> Result<(), String> {
    for (index, one) in list.iter().enumerate() {
        if list[..index].contains(one) {
            return Err(format!("{option}: {} is named twice", shown(one)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use eigentime_study::load::Load;

    #[test]
    fn what_is_named_twice_is_named_as_it_was_said() {
        let loads = [Load::Idle, Load::Cpu, Load::Idle];
        let said = twice("--load", &loads, |load| load.name().to_owned());
        assert_eq!(said.unwrap_err(), "--load: idle is named twice");
        assert!(twice("--load", &loads[..2], |load| load.name().to_owned()).is_ok());
    }
}
