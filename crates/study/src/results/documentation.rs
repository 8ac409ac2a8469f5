//! The parts of `docs/bench` that are generated from the code.

use std::fmt::Write as _;

use eigentime_probe::metrics::{Metric, of_a_study};

use super::manifest::Manifest;
use super::tables::FILES;

/// The schema of the manifest: `docs/bench/manifest.schema.json`.
///
/// # Panics
/// Never: a schema is plain data.
#[must_use]
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Manifest);
    schema.insert("title".into(), "Manifest of eigentime bench".into());
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain data");
    text.push('\n');
    text
}

/// The columns of all tables: `docs/bench/columns.md`.
#[must_use]
pub fn columns() -> String {
    let mut text = String::from(
        "# Columns of the results\n\n\
         Generated from the source by `make docs`; [the guide](README.md) explains how to use them. Units are\n\
         at the end of the names: `_ns` nanoseconds, `_ticks` ticks of the processor's counter.\n",
    );
    let common: Vec<_> = FILES[0].1.iter().filter(|column| is_common(column)).collect();
    let mut table = |title: &str, columns: &[&(&str, &str)]| {
        let _ = write!(text, "\n## {title}\n\n| column | |\n|---|---|\n");
        for (name, meaning) in columns {
            let _ = writeln!(text, "| `{name}` | {meaning} |");
        }
    };
    table("In every table", &common);
    for (file, columns) in FILES {
        let own: Vec<_> = columns.iter().filter(|column| !is_common(column)).collect();
        table(&format!("`{file}`"), &own);
    }
    text.push_str(
        "\n## Metrics\n\n\
         `metrics` in `manifest.json`: what the names in rows mean, by kind. Lower values are better; for\n\
         intervals between events, values closer to the requested interval.\n\n\
         | kind | name | column | unit | |\n|---|---|---|---|---|\n",
    );
    for Metric { kind, name, column, unit, meaning, .. } in of_a_study() {
        let _ = writeln!(text, "| {kind} | `{name}` | `{column}` | {unit} | {meaning} |");
    }
    text
}

fn is_common(column: &(&str, &str)) -> bool {
    FILES.iter().all(|(_, columns)| columns.contains(column))
}

#[cfg(test)]
mod tests {
    #[test]
    fn documentation_is_what_the_code_says() {
        let kept = include_str!("../../../../docs/bench/manifest.schema.json");
        assert!(kept == super::schema(), "docs/bench/manifest.schema.json is old: make docs");
        let kept = include_str!("../../../../docs/bench/columns.md");
        assert!(kept == super::columns(), "docs/bench/columns.md is old: make docs");
    }
}
