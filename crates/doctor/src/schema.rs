//! The JSON schema of the report, generated from its types.

use schemars::generate::SchemaSettings;

use crate::Report;

/// The schema as stored in `docs/doctor/schema.json`: that of the written form, which has all
/// fields that older reports may lack.
///
/// # Panics
/// Never: schemas are plain data.
pub fn text() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Report>();
    schema.insert("title".into(), "What eigentime doctor --json prints".into());
    let text = serde_json::to_string_pretty(&schema).expect("schemas are plain data");
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Finding, Machine, Options, Topic, Unknown, Verdict};

    const KEPT: &str = include_str!("../../../docs/doctor/schema.json");

    fn kept() -> jsonschema::Validator {
        let schema = serde_json::from_str(KEPT).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    }

    fn ensure_valid(report: &Report) {
        let report = serde_json::to_value(report).unwrap();
        let errors: Vec<_> = kept().iter_errors(&report).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{report:#}");
    }

    #[test]
    fn the_kept_schema_is_that_of_the_types() {
        assert!(KEPT == text(), "docs/doctor/schema.json is not what the types say: make docs");
    }

    #[test]
    fn every_kind_of_value_and_verdict_is_valid() {
        let finding = |verdict| {
            let finding = Finding::new(verdict, "found")
                .line("line")
                .advise("do", "risk")
                .advise("do", "")
                .fact("made_up_count", 1_u64)
                .fact("made_up_number", 1.5)
                .fact("made_up_flag", true)
                .fact("made_up_text", "text")
                .fact("made_up_unknown", Unknown::because("why"))
                .fact_of("made_up_labelled", &[("clock", "CLOCK_TAI")], f64::NAN);
            Finding { key: "key".into(), topic: Topic::Containers, ..finding }
        };
        let verdicts = [Verdict::Ok, Verdict::Note, Verdict::Warning, Verdict::Problem];
        let report = Report::of(verdicts.map(finding).into());
        ensure_valid(&report);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }

    #[test]
    fn what_is_empty_is_written_and_need_not_be_read() {
        const LISTS: [&str; 4] = ["lines", "advice", "links", "facts"];
        let report = Report::of(vec![Finding::ok("found")]);
        let mut json = serde_json::to_value(&report).unwrap();
        assert!(kept().is_valid(&json));
        for list in LISTS {
            let removed = json["findings"][0].as_object_mut().unwrap().remove(list);
            assert_eq!(removed, Some(serde_json::json!([])), "{list}");
            assert!(!kept().is_valid(&json), "{list}");
        }
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    }

    #[test]
    fn what_is_said_of_this_machine_is_valid() {
        let options = Options {
            warp: Duration::from_millis(10),
            wake_ups: Duration::from_millis(10),
            costs: Duration::from_millis(1),
            ..Options::default()
        };
        ensure_valid(&crate::examine(&Machine::default(), &options, |_| {}));
    }

    #[test]
    fn something_else_is_not_valid() {
        let other = serde_json::json!({"schema": 1, "version": "1", "verdict": "fine"});
        assert!(!kept().is_valid(&other));
    }
}
