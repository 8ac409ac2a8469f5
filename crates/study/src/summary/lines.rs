//! The remarks beside the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use eigentime_probe::record;

use super::cells::length;
use super::table::Column;
use super::{Row, Summary, Warps};
use crate::levels::LevelFacts;
use crate::load::Load;

/// The share of all processors' time, in percent, that others may use on a machine that still
/// counts as idle.
pub const BUSY_PERCENT: f64 = 10.0;

/// The number of readings to compare before a clock is reported never to go backwards: this many
/// for each.
pub const ENOUGH_READINGS: u64 = 1_000;

/// The observations of a load.
#[derive(Debug, Default)]
pub struct Looks {
    /// For idle, the activity of others before anything was measured, in percent.
    others: Vec<f64>,
    all: u64,
    not_loading: u64,
    why: Option<String>,
}

impl Looks {
    /// Adds a record; only the first one of a load comes before the measurements, which keep a
    /// processor busy themselves.
    pub fn add(&mut self, it: &record::Load, is_first: bool) {
        if is_first {
            self.others.push(it.cpu_percent);
        }
        self.all += 1;
        if !it.is_loading {
            self.not_loading += 1;
            self.why.get_or_insert_with(|| it.how.clone());
        }
    }
}

/// Reservations about the numbers, a sentence each.
pub fn remarks(rows: &[Row], looks: &BTreeMap<(Load, String), Looks>) -> Vec<String> {
    let mut remarks: Vec<_> = busy(looks).into_iter().collect();
    for ((load, level), it) in looks.iter().filter(|(_, it)| it.not_loading > 0) {
        remarks.push(format!(
            "load {} did not load in {} of {} looks ({level}): {}",
            load.name(),
            it.not_loading,
            it.all,
            it.why.as_deref().unwrap_or_default()
        ));
    }
    let mut not_granted: BTreeMap<&str, [BTreeSet<&str>; 2]> = BTreeMap::new();
    for row in rows {
        for what in &row.degradation {
            let kind = row.measurement.split(' ').next().unwrap_or_default();
            let [kinds, levels] = not_granted.entry(what).or_default();
            kinds.insert(kind);
            levels.insert(&row.level);
        }
    }
    for (what, places) in not_granted {
        let [kinds, levels] = places.map(|all| all.into_iter().collect::<Vec<_>>().join(", "));
        remarks.push(format!("not granted ({kinds}; {levels}): {what}"));
    }
    remarks
}

fn busy(looks: &BTreeMap<(Load, String), Looks>) -> Option<String> {
    let idle = looks.iter().filter(|((load, _), _)| *load == Load::Idle);
    let busy = idle.filter_map(|((_, level), it)| {
        let most = it.others.iter().copied().fold(0.0, f64::max);
        (most > BUSY_PERCENT).then_some((level.as_str(), most))
    });
    let (levels, percents): (Vec<_>, Vec<_>) = busy.unzip();
    let most = percents.into_iter().max_by(f64::total_cmp)?;
    Some(format!(
        "others kept the processors up to {most:.0} % busy while idle was measured ({}): compare \
         medians, or run again",
        levels.join(", ")
    ))
}

/// The first line of a reason, with the last one if it introduces more.
fn in_short(why: &str) -> String {
    let mut lines = why.lines();
    match (lines.next().unwrap_or_default(), lines.last()) {
        (first, Some(last)) if first.ends_with(':') => format!("{first} {last}"),
        (first, None) if first.ends_with(':') => first.trim_end_matches([':']).to_owned(),
        (first, _) => first.to_owned(),
    }
}

/// Reservations about the numbers of levels.
pub fn remarks_of_levels(levels: &BTreeMap<String, LevelFacts>) -> Vec<String> {
    let translated = levels.iter().filter(|(_, facts)| {
        facts.notes.get("accelerator").is_some_and(|accelerator| accelerator == "tcg")
    });
    let say = |(level, facts): (&String, &LevelFacts)| {
        let why = match facts.notes.get("kvm") {
            Some(why) => format!("KVM was not used: {}", in_short(why)),
            None => "KVM was not asked for".to_owned(),
        };
        format!(
            "{level} is run by QEMU's translator (tcg), which says nothing about virtual machines \
             in general; {why}"
        )
    };
    translated.map(say).collect()
}

impl Summary {
    /// A line for the clocks of each level that never went backwards, and one for each that did.
    pub(super) fn warp_lines(&self, columns: &[Column]) -> String {
        let mut text = String::new();
        for Column { level, title } in columns {
            let all: Vec<_> = self.warps.iter().filter(|it| it.level == *level).collect();
            let (bad, good): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.backwards > 0);
            let (good, few): (Vec<_>, Vec<_>) =
                good.into_iter().partition(|it| it.readings >= ENOUGH_READINGS);
            if let (Some(sharpest), Some(dullest)) = (
                good.iter().min_by(|one, other| one.visible().total_cmp(&other.visible())),
                good.iter().max_by(|one, other| one.visible().total_cmp(&other.visible())),
            ) {
                let seen = [sharpest, dullest]
                    .map(|it| format!("{} ({})", length(it.visible()), it.clock));
                let clocks = good.iter().map(|it| it.clock.as_str()).collect::<BTreeSet<_>>();
                let seen = match clocks.len() {
                    1 => format!("{} back", seen[1]),
                    _ => format!("{} to {} back", seen[0], seen[1]),
                };
                let count = match clocks.len() {
                    1 => "1 clock".to_owned(),
                    count => format!("{count} clocks"),
                };
                let _ = writeln!(
                    text,
                    "never went backwards, {title}: {count}; would be seen from {seen}"
                );
            }
            for it in few {
                let _ = writeln!(
                    text,
                    "too little to say, {title}, {}: {} {} readings compared, of {ENOUGH_READINGS}",
                    it.load.name(),
                    it.clock,
                    it.readings,
                );
            }
            for it in bad {
                let _ = writeln!(
                    text,
                    "WENT BACKWARDS, {title}, {}: {} {} times in {} readings, by {} at most",
                    it.load.name(),
                    it.clock,
                    it.backwards,
                    it.readings,
                    length(it.worst_ns),
                );
            }
        }
        text
    }
}

impl Warps {
    fn visible(&self) -> f64 {
        self.smallest_visible_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warps(clock: &str, readings: u64, backwards: u64, visible: f64) -> Warps {
        Warps {
            load: Load::Idle,
            level: "vm".into(),
            clock: clock.into(),
            readings,
            backwards,
            worst_ns: 7.0 * backwards as f64,
            smallest_visible_ns: visible,
        }
    }

    #[test]
    fn clocks_of_a_level_are_one_line_unless_they_went_backwards() {
        let warps = vec![
            warps("tsc", 5_000, 0, 26.0),
            warps("CLOCK_REALTIME_COARSE", 5_000, 0, 4e6),
            warps("CLOCK_TAI", 999, 0, 90.0),
            warps("CLOCK_REALTIME", 9, 2, 90.0),
        ];
        let summary = Summary { warps, ..Summary::default() };
        let text = summary.table(&[Column::of("vm", None)], 100);
        let lines: Vec<_> = text.lines().collect();
        let expected = [
            "never went backwards, vm: 2 clocks; would be seen from 26 ns (tsc) to 4 ms \
             (CLOCK_REALTIME_COARSE) back",
            "too little to say, vm, idle: CLOCK_TAI 999 readings compared, of 1000",
            "WENT BACKWARDS, vm, idle: CLOCK_REALTIME 2 times in 9 readings, by 14 ns at most",
        ];
        assert_eq!(lines, expected);
    }

    fn look(is_loading: bool, cpu_percent: f64) -> record::Load {
        record::Load {
            load: "x".into(),
            is_loading,
            how: "something limits them".into(),
            looked_ns: 1,
            cpu_percent,
            context_switches_per_second: 0.0,
            interrupts_per_second: 0.0,
            numbers: BTreeMap::new(),
        }
    }

    #[test]
    fn an_idle_machine_that_is_not_is_said() {
        let of = |first: f64| {
            let mut looks = Looks::default();
            looks.add(&look(true, first), true);
            // The measurement itself.
            looks.add(&look(true, 100.0), false);
            remarks(&[], &BTreeMap::from([((Load::Idle, "baseline".to_owned()), looks)]))
        };
        assert!(of(BUSY_PERCENT).is_empty());
        let [said] = &of(97.4)[..] else { panic!("not said") };
        assert!(said.contains("97 % busy while idle was measured (baseline)"), "{said}");
    }

    #[test]
    fn a_load_that_stops_loading_is_said() {
        let mut looks = Looks::default();
        looks.add(&look(true, 100.0), true);
        looks.add(&look(false, 100.0), false);
        let said = remarks(&[], &BTreeMap::from([((Load::Cpu, "vm".to_owned()), looks)]));
        assert_eq!(said, ["load cpu did not load in 1 of 2 looks (vm): something limits them"]);
    }

    #[test]
    fn a_translated_machine_says_why() {
        let mut facts = LevelFacts::default();
        facts.notes.insert("accelerator".into(), "tcg".into());
        facts.notes.insert("kvm".into(), "/dev/kvm: it is not there\nmore".into());
        let levels = BTreeMap::from([("vm".to_owned(), facts), Default::default()]);
        let [said] = &remarks_of_levels(&levels)[..] else { panic!("not one") };
        assert!(said.ends_with("KVM was not used: /dev/kvm: it is not there"), "{said}");
    }

    #[test]
    fn what_a_reason_announces_is_said_with_it() {
        assert_eq!(
            in_short("it ended; its last words:\none\ntwo"),
            "it ended; its last words: two"
        );
        assert_eq!(in_short("it ended; its last words:\n"), "it ended; its last words");
        assert_eq!(in_short("it is not there\nmore"), "it is not there");
    }
}
