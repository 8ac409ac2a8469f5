//! The report with another clocksource, which is restored afterwards.

use std::fs;

use super::{doctor, report};
use crate::command::User;
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};

const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";

/// Adds the test.
pub fn add(suite: &mut Suite) {
    let (current, others) = here();
    // Writing the current value shows whether the file may be written, and changes nothing.
    let is_allowed = current.as_ref().is_some_and(|it| set(it).is_ok());
    let needs = [
        Need::Root,
        Need::Other(!others.is_empty(), "a second clocksource".into()),
        Need::Other(is_allowed, "a clocksource that may be changed".into()),
    ];
    suite.test_alone("doctor::another_clocksource", &needs, another_clocksource);
}

/// The clocksource in use, and the other available ones.
fn here() -> (Option<String>, Vec<String>) {
    let read = |name: &str| fs::read_to_string(format!("{FOLDER}/{name}")).unwrap_or_default();
    let current = read("current_clocksource").trim().to_owned();
    let available = read("available_clocksource");
    let others = available.split_whitespace().filter(|name| *name != current);
    let others = others.map(str::to_owned).collect();
    (Some(current).filter(|name| !name.is_empty()), others)
}

fn set(name: &str) -> std::io::Result<()> {
    fs::write(format!("{FOLDER}/current_clocksource"), name)
}

/// Restores the clocksource when dropped.
struct Kept(String);

impl Drop for Kept {
    fn drop(&mut self) {
        if let Err(error) = set(&self.0) {
            println!("cannot put the clocksource {} back: {error}", self.0);
        }
    }
}

fn another_clocksource() -> Outcome {
    let (current, others) = here();
    let kept = Kept(current.unwrap_or_default());
    let mut has_fallen = false;
    for name in &others {
        set(name)?;
        let arguments = ["--json", "--quick", "--only", "clocks"];
        let report = report(&mut doctor(User::Myself, &arguments)?)?;
        let found = report.fact("clocksource", "clocksource", &[])?;
        ensure!(found["text"] == name.as_str(), "the clocksource is {name}, and not {found}");
        let fallen = report.falls_back("clock_gettime", "CLOCK_MONOTONIC")?;
        let verdict = report.verdict_of("clock-reads")?;
        ensure!(fallen == (verdict == "warning"), "{name}: falls back: {fallen}, and {verdict}");
        ensure!(fallen == report.falls_back("gettimeofday", "")?, "{name}: gettimeofday differs");
        // The mode that the kernel gives its vDSO agrees, where it can be read.
        let mode = report.fact("clocksource", "vdso_mode", &[])?;
        if let Some(mode) = mode["text"].as_str() {
            let expected = mode == "none";
            ensure!(
                fallen == expected,
                "{name}: falls back: {fallen}, by the kernel's mode {mode}"
            );
        }
        let coarse = report.falls_back("clock_gettime", "CLOCK_MONOTONIC_COARSE")?;
        ensure!(!coarse, "{name}: coarse clocks need no clocksource");
        has_fallen |= fallen;
    }
    if !has_fallen {
        println!("note: the vDSO reads all of {others:?}: none that makes it fall back is here");
    }
    let original = kept.0.clone();
    drop(kept);
    let (current, _) = here();
    ensure!(current.as_deref() == Some(&original), "the clocksource was not put back: {current:?}");
    Ok(())
}
