//! Imperfect paths: either a true number, or the reason why there is none.

use serde_json::Value;

use super::lab::Lab;
use super::{ESTIMATES, Path, expect, found};
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};

/// The initial capacity of every path here.
const CAPACITY: f64 = 300e6;

pub fn add(suite: &mut Suite) {
    let needs = [Need::Root, Need::Tool("ip")];
    for (name, told) in [
        ("loss_one_way", &["--loss", "5", "--reverse-loss", "0"][..]),
        ("loss_the_other_way", &["--loss", "0", "--reverse-loss", "5"]),
        ("reordering", &["--reorder", "20", "--reorder-by", "500us"]),
        // TCP segments of the usual length are lost, too.
        ("short_packets", &["--mtu", "1000"]),
    ] {
        suite.test_alone(format!("bandwidth::trouble::{name}"), &needs, move || measured(told));
    }
    suite.test_alone("bandwidth::trouble::capacity_changes", &needs, capacity_changes);
    suite.test("bandwidth::trouble::packets_too_long", &needs, packets_too_long);
    suite.test("bandwidth::trouble::no_udp_one_way", &needs, no_udp_one_way);
}

/// It is measured all the same.
fn measured(told: &[&'static str]) -> Outcome {
    let lab = Lab::new(1500)?;
    let _emulator = lab.emulate(&[&["--capacity", "300M", "--delay", "1ms"], told].concat())?;
    let _server = lab.serve(&[])?;
    let ended = lab.measure(&["--json", "--count", &ESTIMATES.to_string()])?;
    let path = Path { name: "", told: &[], mtu: 1500, capacity: CAPACITY, available: CAPACITY };
    expect(&ended, &path)
}

/// The capacity changes in the middle of an estimate: no estimate mixes before and after, and the
/// last one describes after.
fn capacity_changes() -> Outcome {
    let lab = Lab::new(1500)?;
    let told = ["--capacity", "300M", "--delay", "1ms", "--change", "2500ms 100M"];
    let _emulator = lab.emulate(&told)?;
    let _server = lab.serve(&[])?;
    let ended = lab.measure(&["--json", "--count", "5"])?;
    let estimates = found(&ended)?;
    ended.ensure(estimates.len() == 5, "too few estimates")?;
    let is_near = |it: &Value, truth: f64| {
        it["found"]["rate"].as_f64().is_some_and(|rate| (rate / truth - 1.0).abs() < 0.15)
    };
    for it in &estimates {
        let is_none = it["found"]["is"] != "available";
        ended.ensure(
            is_none || is_near(it, CAPACITY) || is_near(it, 100e6),
            format_args!("a number of neither: {it}"),
        )?;
    }
    ended.ensure(estimates.iter().any(|it| is_near(it, 100e6)), "it does not see the change")?;
    ended.ensure(!is_near(&estimates[4], CAPACITY), "it tells of what was")
}

/// Limited by an interface, and by a hop that drops silently.
fn packets_too_long() -> Outcome {
    let lab = Lab::new(1500)?;
    let _emulator = lab.emulate(&["--capacity", "300M", "--mtu", "1000"])?;
    let _server = lab.serve(&[])?;
    for (asked, least, most) in [("9000", 1500, 1500), ("1500", 920, 1000)] {
        let ended = lab.measure(&["--packet-size", asked])?;
        ended.expect_code(125)?;
        let said = format!("packets of {asked} bytes ");
        let rest = ended.errors.split_once(&said).map_or("", |(_, rest)| rest);
        // The first number that follows is the size that passes, or leaves.
        let digits = |it: &str| it.trim_end_matches(';').parse().ok();
        let passes: u32 = rest.split(' ').find_map(digits).unwrap_or_default();
        ended.ensure((least..=most).contains(&passes), format_args!("{passes} bytes do"))?;
    }
    Ok(())
}

/// A firewall that lets TCP pass, but UDP in one direction only.
fn no_udp_one_way() -> Outcome {
    for (deaf, why) in [("r", "none arrives at the server"), ("l", "does not arrive here")] {
        let lab = Lab::wired()?;
        let _server = lab.serve(&[])?;
        lab.deafen(deaf)?;
        for direction in ["up", "down"] {
            let ended = lab.measure(&["--direction", direction])?;
            ended.expect_code(125)?;
            ensure!(ended.errors.contains(why), "it does not say '{why}':\n{ended}");
        }
    }
    Ok(())
}
