//! The output.

use std::fmt::Write;

use serde::Serialize;

use crate::judge::Verdict;
use crate::probes::{self, GROUPS};
use crate::timelines::TIMELINES;

/// The result for one interface in one timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number in the table.
    pub interface: usize,
    /// The timeline's number.
    pub timeline: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// The measurement.
    pub detail: String,
}

impl Record {
    /// Creates a record.
    #[must_use]
    pub fn new(interface: usize, timeline: usize, verdict: Verdict, detail: String) -> Self {
        Self { interface, timeline, verdict, detail }
    }
}

/// The number of each verdict.
#[must_use]
pub fn counts(records: &[Record]) -> [(Verdict, usize); Verdict::ALL.len()] {
    Verdict::ALL
        .map(|verdict| (verdict, records.iter().filter(|record| record.verdict == verdict).count()))
}

/// The release of the running kernel.
fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

#[derive(Serialize)]
struct JsonReport<'a> {
    kernel: String,
    timelines: Vec<JsonTimeline>,
    results: Vec<JsonResult<'a>>,
    counts: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct JsonTimeline {
    name: &'static str,
    options: &'static [&'static str],
}

#[derive(Serialize)]
struct JsonResult<'a> {
    interface: &'static str,
    kind: &'static str,
    timeline: &'static str,
    verdict: Verdict,
    detail: &'a str,
    reason: Option<&'static str>,
    calls: &'static [&'static str],
}

/// Formats the results as JSON.
#[must_use]
pub fn json(records: &[Record]) -> String {
    let interfaces: Vec<_> = probes::all().collect();
    let results = records.iter().map(|record| {
        let (kind, interface) = interfaces[record.interface];
        JsonResult {
            interface: interface.name,
            kind,
            timeline: TIMELINES[record.timeline].name,
            verdict: record.verdict,
            detail: &record.detail,
            reason: interface.reason(),
            calls: interface.rows,
        }
    });
    let counted = counts(records).into_iter();
    let report = JsonReport {
        kernel: kernel(),
        timelines: TIMELINES
            .iter()
            .map(|timeline| JsonTimeline { name: timeline.name, options: timeline.options })
            .collect(),
        results: results.collect(),
        counts: counted.map(|(verdict, count)| (verdict.name().into(), count.into())).collect(),
    };
    let mut text = serde_json::to_string_pretty(&report).expect("it is plain data");
    text.push('\n');
    text
}

/// The meaning of the words in the table.
const LEGEND: &str = "\
translated: it follows the timeline; native: it is right by itself; not: it is not virtualized,
for the reason below; an empty cell: trying it there would say nothing
";

/// The width of a verdict's column.
const COLUMN: usize = 12;

/// Formats the results as a table.
#[must_use]
pub fn table(records: &[Record]) -> String {
    let mut text = format!("Linux {}. The timelines:\n", kernel());
    for timeline in &TIMELINES {
        let _ =
            writeln!(text, "  {:<10} eigentime run {}", timeline.name, timeline.options.join(" "));
    }
    text.push_str(LEGEND);
    let mut shown = records.iter().map(|record| interface_name(record).chars().count());
    let width = shown.by_ref().max().unwrap_or(0);
    let mut first = 0;
    for group in &GROUPS {
        let numbers = first..first + group.interfaces.len();
        first = numbers.end;
        let of_group = |record: &&Record| numbers.contains(&record.interface);
        let records: Vec<_> = records.iter().filter(of_group).collect();
        if !records.is_empty() {
            write_group(&mut text, group.name, &records, width);
        }
    }
    let counts = counts(records).map(|(verdict, count)| format!("{count} {}", verdict.name()));
    let _ = writeln!(text, "\n{}", counts.join(", "));
    text
}

fn interface_name(record: &Record) -> &'static str {
    probes::all().nth(record.interface).map_or("?", |(_, interface)| interface.name)
}

/// Writes one heading, its lines, and their notes.
fn write_group(text: &mut String, name: &str, records: &[&Record], width: usize) {
    let _ = write!(text, "\n{name:<width$}");
    for timeline in &TIMELINES {
        let _ = write!(text, "  {:<COLUMN$}", timeline.name);
    }
    trim_line(text);
    let mut notes: Vec<String> = Vec::new();
    let mut rest = records;
    while let Some(record) = rest.first() {
        let same = rest.iter().take_while(|other| other.interface == record.interface).count();
        let (line, others) = rest.split_at(same);
        rest = others;
        let _ = write!(text, "{:<width$}", interface_name(record));
        for timeline in 0..TIMELINES.len() {
            let found = line.iter().find(|record| record.timeline == timeline);
            let cell = found.map_or(String::new(), |record| cell(record, &mut notes));
            let _ = write!(text, "  {cell:<COLUMN$}");
        }
        trim_line(text);
    }
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "  [{}] {note}", number + 1);
    }
}

/// Ends a line without trailing spaces.
fn trim_line(text: &mut String) {
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

/// A verdict with the number of its note.
fn cell(record: &Record, notes: &mut Vec<String>) -> String {
    let name = record.verdict.name();
    let Some(note) = note(record) else { return name.into() };
    let number = notes.iter().position(|other| *other == note).unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    });
    // The full name would be wider than everything else; the note contains it.
    let name = if record.verdict == Verdict::NotVirtualized { "not" } else { name };
    format!("{name} [{}]", number + 1)
}

/// The note on a verdict.
fn note(record: &Record) -> Option<String> {
    let interface = probes::all().nth(record.interface)?.1;
    match record.verdict {
        Verdict::Translated | Verdict::Native => None,
        Verdict::NotVirtualized => {
            interface.reason().map(|reason| format!("not virtualized: {reason}"))
        }
        Verdict::Skipped => Some(format!("skipped: {}", record.detail)),
        Verdict::Failed => Some(format!("FAILED: {}", record.detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Record> {
        let rdtsc = probes::all().position(|(_, one)| one.name == "RDTSC").expect("it is there");
        vec![
            Record::new(0, 0, Verdict::Translated, "x".into()),
            Record::new(0, 2, Verdict::Failed, "slow".into()),
            Record::new(rdtsc, 2, Verdict::NotVirtualized, "y".into()),
        ]
    }

    #[test]
    fn tables_have_a_line_per_interface() {
        let text = table(&some());
        let lines: Vec<_> =
            text.lines().filter(|line| line.starts_with("CLOCK_REALTIME")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(lines[0].contains("translated") && lines[0].ends_with("FAILED [1]"), "{text}");
        assert!(text.contains("[1] FAILED: slow"), "{text}");
        assert!(text.contains("it runs at the host's rate"), "{text}");
        let summary = "1 translated, 0 native, 1 not virtualized, 0 skipped, 1 FAILED\n";
        assert!(text.ends_with(summary), "{text}");
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
    }

    #[test]
    fn json_holds_the_same() {
        let value: serde_json::Value = serde_json::from_str(&json(&some())).expect("it is JSON");
        assert_eq!(value["counts"]["FAILED"], 1);
        assert_eq!(value["results"][1]["verdict"], "FAILED");
        assert_eq!(value["results"][1]["timeline"], "fast");
        assert_eq!(value["results"][2]["kind"], "reads");
        assert!(value["results"][2]["reason"].as_str().is_some_and(|text| text.contains("host")));
        assert!(value["results"][0]["reason"].is_null());
    }
}
