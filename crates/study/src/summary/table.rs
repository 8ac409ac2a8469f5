//! Formats rows as text.

use std::collections::BTreeMap;

use eigentime_probe::metrics::CALLS;

use super::cells::{Form, Kind, Unit};
use super::{Row, Summary};
use crate::levels::LevelFacts;
use crate::load::Load;
use crate::measurement::asked_ns;

/// A level and its heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The level's name.
    pub level: String,
    /// The heading: `vm (tcg)`.
    pub title: String,
}

impl Column {
    /// The column of a level with these facts.
    #[must_use]
    pub fn of(level: &str, facts: Option<&LevelFacts>) -> Self {
        let accelerator = facts.and_then(|facts| facts.notes.get("accelerator"));
        let title = match accelerator {
            Some(accelerator) => format!("{level} ({accelerator})"),
            None => level.to_owned(),
        };
        Self { level: level.to_owned(), title }
    }
}

/// The sections, in order.
const KINDS: [Kind; 5] = [
    Kind { word: "calls", title: "calls", wide: Form::Mean, narrow: Form::Mean },
    Kind { word: ASLEEP, title: "calls, asked for 100 ms", wide: Form::Mean, narrow: Form::Mean },
    Kind { word: "read", title: "read", wide: Form::Tail, narrow: Form::Median },
    Kind { word: "sleep", title: "sleep, late by", wide: Form::Tail, narrow: Form::Median },
    Kind {
        word: "events",
        title: "events, from one to the next",
        wide: Form::Mean,
        narrow: Form::Mean,
    },
];

/// Calls that sleep.
const ASLEEP: &str = "calls that sleep";

/// Between columns.
const GAP: &str = "  ";

impl Summary {
    /// The text: remarks first, then a table for each load and kind of measurement, `width`
    /// characters wide if possible. Measurements are rows and levels columns, or rows as well if
    /// there is no room. It only has counts and quantiles: verdicts are those of `eigentime
    /// report`.
    #[must_use]
    pub fn table(&self, columns: &[Column], width: usize) -> String {
        let mut text = String::new();
        for remark in &self.remarks {
            text += &format!("note: {remark}\n");
        }
        for load in Load::ALL {
            for kind in &KINDS {
                let is_here = |row: &&Row| row.load == load && row.kind() == kind.word;
                let rows: Vec<_> = self.rows.iter().filter(is_here).collect();
                if !rows.is_empty() {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text += &Section { load, kind, rows, columns }.text(width);
                }
            }
        }
        if !self.warps.is_empty() && !text.is_empty() {
            text.push('\n');
        }
        text + &self.warp_lines(columns)
    }
}

/// The table of one load and one kind of measurement.
struct Section<'a> {
    load: Load,
    kind: &'a Kind,
    rows: Vec<&'a Row>,
    columns: &'a [Column],
}

impl Section<'_> {
    fn text(&self, width: usize) -> String {
        // The terminal may wrap the heading.
        let fits = |text: &String| text.lines().skip(1).all(|line| line.chars().count() <= width);
        // Deadlines slept through must not be omitted.
        let forms = [Some(self.kind.wide), Some(self.kind.narrow).filter(|_| !self.has_tail())];
        let beside = forms.into_iter().flatten().map(|form| self.beside(form)).find(fits);
        beside.unwrap_or_else(|| self.below(self.kind.wide))
    }

    fn has_tail(&self) -> bool {
        self.rows.iter().any(|row| row.corrected_p99_ns.is_some())
    }

    fn heading(&self, form: Form) -> String {
        let through = match form == Form::Tail && self.has_tail() {
            true => " (in brackets: with the deadlines that were slept through)",
            false => "",
        };
        let (load, kind) = (self.load.name(), self.kind.title);
        format!("load {load}, {kind}: {}{through}\n", form.heading())
    }

    /// With levels side by side.
    fn beside(&self, form: Form) -> String {
        let columns: Vec<_> = self.columns().collect();
        let titles = columns.iter().map(|column| column.title.clone());
        let mut lines: Vec<Vec<_>> =
            vec![[String::new(), String::new()].into_iter().chain(titles).collect()];
        for name in self.names() {
            let unit = self.unit(name);
            let cells = columns.iter().map(|column| {
                self.cell(name, column, unit, form).unwrap_or_else(|| "–".to_owned())
            });
            let begin = [short(name).to_owned(), unit.name.to_owned()];
            lines.push(begin.into_iter().chain(cells).collect());
        }
        self.heading(form) + &aligned(&lines, 2)
    }

    /// With levels below one another.
    fn below(&self, form: Form) -> String {
        let mut lines = Vec::new();
        for name in self.names() {
            let unit = self.unit(name);
            let mut begin = short(name);
            for column in self.columns() {
                if let Some(cell) = self.cell(name, column, unit, form) {
                    let begin = std::mem::take(&mut begin).to_owned();
                    lines.push(vec![begin, column.title.clone(), unit.name.to_owned(), cell]);
                }
            }
        }
        self.heading(form) + &aligned(&lines, 4)
    }

    /// Levels with results here.
    fn columns(&self) -> impl Iterator<Item = &Column> {
        let has = |column: &&Column| self.rows.iter().any(|row| row.level == column.level);
        self.columns.iter().filter(has)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let names: BTreeMap<_, _> =
            self.rows.iter().map(|row| (row.place(), row.measurement.as_str())).collect();
        names.into_values()
    }

    fn find(&self, name: &str, level: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.level == level && row.measurement == name).copied()
    }

    /// The unit of a row, common to all levels.
    fn unit(&self, name: &str) -> Unit {
        let rows = self.rows.iter().filter(|row| row.measurement == name);
        Unit::of(rows.filter_map(|row| row.numbers).map(|it| it.median_ns))
    }

    fn cell(&self, name: &str, column: &Column, unit: Unit, form: Form) -> Option<String> {
        Some(self.find(name, &column.level)?.cell(unit, form))
    }
}

/// The name of a measurement without its kind.
fn short(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, rest)| rest)
}

impl Row {
    fn kind(&self) -> &str {
        match self.measurement.split_once(' ') {
            Some(("calls", metric)) if asked_ns(metric).is_some() => ASLEEP,
            Some((kind, _)) => kind,
            None => &self.measurement,
        }
    }

    /// Its position in the section: metrics as in the paper, sleeps by method, then interval.
    fn place(&self) -> (usize, &str, Option<u64>, &str) {
        let rest = short(&self.measurement);
        let metric = CALLS.iter().position(|known| known.name == rest);
        let way = rest.split(' ').next().unwrap_or_default();
        (metric.unwrap_or(CALLS.len()), way, self.interval_ns, rest)
    }
}

/// Aligned columns; the first ones are flush left.
fn aligned(lines: &[Vec<String>], flush_left: usize) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let padding = " ".repeat(width - cell.chars().count());
            match column < flush_left {
                true => format!("{cell}{padding}"),
                false => format!("{padding}{cell}"),
            }
        });
        text += cells.collect::<Vec<_>>().join(GAP).trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Numbers;
    use super::*;

    fn row(level: &str, measurement: &str, median: f64, mad: f64) -> Row {
        Row {
            load: Load::Idle,
            level: level.into(),
            measurement: measurement.into(),
            interval_ns: None,
            served: vec!["vdso".into()],
            count: 5,
            came: None,
            numbers: Some(Numbers {
                mean_ns: median + 1.0,
                sd_ns: 40_543.0,
                median_ns: median,
                mad_ns: mad,
                p99_ns: 2.0 * median,
                max_ns: 9.0 * median,
            }),
            missed: 0,
            corrected_p99_ns: None,
            degradation: Vec::new(),
        }
    }

    fn table(rows: Vec<Row>, width: usize) -> String {
        let columns = ["baseline", "namespace", "vm"].map(|level| Column::of(level, None));
        Summary { rows, ..Summary::default() }.table(&columns, width)
    }

    fn line<'a>(text: &'a str, begin: &str) -> &'a str {
        text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn what_has_a_tail_is_shown_by_medians() {
        let text = table(vec![row("baseline", "read tsc, hot", 310.0, 4.0)], 100);
        assert!(text.contains("load idle, read: median ±MAD / p99"), "{text}");
        assert!(line(&text, "tsc, hot").ends_with("ns  310 ±4.0 / 620 / 2790"), "{text}");
        assert!(!text.contains("40543"), "{text}");
    }

    #[test]
    fn levels_stand_side_by_side_without_a_verdict() {
        let rows = vec![
            row("baseline", "calls gettimeofday", 100.0, 1.0),
            row("namespace", "calls gettimeofday", 101.0, 0.5),
            row("vm", "calls gettimeofday", 202.0, 0.5),
        ];
        let text = table(rows, 200);
        assert!(line(&text, "gettimeofday").ends_with("(202)"), "{text}");
        assert!(!text.contains(['≈', '%']), "{text}");
    }

    #[test]
    fn one_event_is_shown_with_those_that_were_missed() {
        let alone = |level: &str, came, missed| Row {
            count: 0,
            came: Some(came),
            missed,
            numbers: None,
            ..row(level, "events ticker 50 µs", 0.0, 0.0)
        };
        let text = table(vec![alone("baseline", 1, 4_499)], 100);
        assert!(line(&text, "ticker 50 µs").ends_with("1 event, 4499 missed"), "{text}");
        let rows = vec![row("baseline", "events ticker 50 µs", 50_000.0, 1.0), alone("vm", 2, 0)];
        let text = table(rows, 100);
        assert!(line(&text, "ticker 50 µs").contains("µs"), "{text}");
        assert!(line(&text, "ticker 50 µs").ends_with("2 events, 0 missed"), "{text}");
    }

    #[test]
    fn a_row_has_one_unit() {
        let rows = vec![
            row("baseline", "sleep epoll 1 ms", 9_000.0, 1.0),
            row("vm", "sleep epoll 1 ms", 75_000_000.0, 1.0),
        ];
        let text = table(rows, 200);
        let line = line(&text, "epoll 1 ms");
        assert!(line.contains(" ns ") && !line.contains("ms ±") && !line.contains("µs"), "{text}");
    }

    #[test]
    fn it_is_as_wide_as_the_terminal() {
        let mut rows: Vec<_> = ["baseline", "namespace", "vm"]
            .map(|level| row(level, "sleep clock_nanosleep 100 µs, fifo:50", 58_000.0, 1_200.0))
            .into();
        for (width, heading) in [(200, "max"), (100, "±MAD")] {
            let text = table(rows.clone(), width);
            let mut lines = text.lines().skip(2);
            assert!(lines.all(|line| line.chars().count() <= width), "{width}: {text}");
            assert!(line(&text, "load idle").ends_with(heading), "{width}: {text}");
        }
        let text = table(rows.clone(), 60);
        assert!(text.lines().any(|line| line.trim_start().starts_with("namespace  µs")), "{text}");
        // Deadlines slept through are not omitted for lack of room.
        rows[1].missed = 419;
        rows[1].count = 419;
        rows[1].corrected_p99_ns = Some(750_000.0);
        let text = table(rows, 100);
        assert!(text.contains("/ 116 (750) / 522 419 missed"), "{text}");
        assert!(text.lines().skip(2).all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn calls_of_three_levels_fit() {
        let long: Vec<_> = CALLS.iter().map(|it| format!("calls {}", it.name)).collect();
        let rows = long.iter().flat_map(|name| {
            ["baseline", "namespace", "vm"].map(|level| {
                let median = if level == "vm" { 1_140.0 } else { 1_040.0 };
                let mut row = row(level, name, median, 1.0);
                row.numbers.as_mut().unwrap().sd_ns = 1.2;
                row
            })
        });
        let text = table(rows.collect(), 100);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(line(&text, "vdso_clock_gettime_monotonic").ends_with("(1140)"), "{text}");
        let asleep = text.lines().position(|line| line.contains("asked for 100 ms")).unwrap();
        assert!(text.lines().nth(asleep + 2).unwrap().starts_with("clock_nanosleep"), "{text}");
    }

    #[test]
    fn a_system_call_in_place_of_the_vdso_is_marked() {
        for (name, marked) in [
            ("calls vdso_gettimeofday", true),
            ("read clock_gettime, hot", true),
            ("read clock_gettime_raw, hot", false),
            ("calls gettimeofday", false),
        ] {
            let mut row = row("baseline", name, 300.0, 1.0);
            row.served = vec!["system_call".into()];
            let text = table(vec![row], 100);
            assert_eq!(text.contains(" system call"), marked, "{text}");
        }
    }

    #[test]
    fn a_virtual_machine_says_what_it_is() {
        let mut facts = LevelFacts::default();
        facts.notes.insert("accelerator".into(), "tcg".into());
        assert_eq!(Column::of("vm", Some(&facts)).title, "vm (tcg)");
        assert_eq!(Column::of("baseline", None).title, "baseline");
    }
}
