use std::fs::File;
use std::path::PathBuf;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

use super::*;
use crate::fake::{FAILING, Fake, REFUSED};
use crate::levels::Asked;
use crate::plan::{Plan, UnderLoad};
use crate::preset::{Preset, Requests};
use crate::results::folder::{Refused, merge};
use crate::results::manifest::{By, Manifest, Run};
use crate::results::tables::FILES;

/// A folder that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = format!("eigentime-study-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records everything, and asks to stop after a number of steps.
#[derive(Default)]
struct Notes {
    said: Vec<String>,
    kept: usize,
    done: Duration,
    stop_after: Option<(usize, Stop)>,
}

impl Watch for Notes {
    fn say(&mut self, text: &str) {
        self.said.push(text.to_owned());
    }

    fn doing(&mut self, _: &str, done: Duration, all: Duration) {
        assert!(done <= all, "{done:?} of {all:?}");
        self.done = done;
        if let Some((after, stop)) = &mut self.stop_after {
            match after.checked_sub(1) {
                Some(less) => *after = less,
                None => stop.ask(),
            }
        }
    }

    fn kept(&mut self, _: &Head, _: &Record) {
        self.kept += 1;
    }
}

fn by() -> By {
    let text = str::to_owned;
    By { machine: text("m"), kernel: text("k"), eigentime: text("e"), probe: text("p") }
}

/// Everything in the quick preset under two loads, at levels with these names.
fn plan(levels: &[&str], kinds: &[&str]) -> Plan {
    let preset = Preset::named("quick").unwrap();
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let requests = Requests { kinds, records: Some(5), count: Some(7), ..Requests::default() };
    let under = |load| UnderLoad { load, measurements: preset.measurements(load, &requests) };
    let level = |name: &&str| {
        let (name, prefix) = ((*name).to_owned(), vec!["x".to_owned()]);
        (&Asked::Command { name, prefix }).into()
    };
    Plan {
        preset: "quick".into(),
        levels: levels.iter().map(level).collect(),
        blocks: 2,
        seed: 3,
        cpu: None,
        loads: vec![under(Load::Idle), under(Load::Cpu)],
    }
}

fn study(out: &std::path::Path, levels: &[Fake], kinds: &[&str], notes: &mut Notes) -> Run {
    let names: Vec<_> = levels.iter().map(|level| level.name).collect();
    let folder = Folder::open(out, plan(&names, kinds), by(), None).unwrap();
    let stop = notes.stop_after.as_ref().map_or_else(Stop::default, |(_, stop)| stop.clone());
    let levels = levels.iter().map(|level| Box::new(level.clone()) as Box<dyn Level>).collect();
    Study { levels, named: true, folder, stop, watch: notes }.run().unwrap().run
}

fn reader(folder: &std::path::Path, file: &str) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(folder.join(file)).unwrap()).unwrap()
}

fn rows(folder: &std::path::Path, file: &str) -> i64 {
    reader(folder, file).metadata().file_metadata().num_rows()
}

#[test]
fn everything_is_measured_and_kept() {
    let scratch = Scratch::new();
    let levels = [Fake::named("a"), Fake::named("b")];
    let out = scratch.file("out");
    let kinds = ["read", "sleep", "events", "warp"];
    let run = study(&out, &levels, &kinds, &mut Notes::default());
    assert_eq!(run.state, State::Complete, "{:?}", run.failed);
    assert_eq!(run.steps_done, run.steps);
    assert!(!out.join("journal").exists());
    // Both blocks, loads and levels; 6 kinds of readings with two buckets each; 7 methods of
    // sleeping; events of four sources, as the fifth is unavailable.
    assert_eq!(rows(&out, "sleeps.parquet"), 7 * 7 * 4);
    assert_eq!(rows(&out, "events.parquet"), 7 * 4 * 4);
    assert_eq!(rows(&out, "reads.parquet"), 2 * 6 * 2 * 4);
    assert_eq!(rows(&out, "warps.parquet"), 2 * 4);
    assert_eq!(rows(&out, "loads.parquet"), 2 * 4);
    assert_eq!(rows(&out, "calls.parquet"), 0);
    assert_eq!(run.skipped.len(), 4);
    assert!(run.skipped.iter().all(|skip| skip.why == "no module"));
    assert_eq!(run.levels["a"].notes["made"], "up");
    assert!(run.levels["b"].facts.is_some());
    let counts: Vec<_> = run.summary.rows.iter().map(|row| row.count).collect();
    // 4 and 3 events have 3 and 2 intervals.
    assert!(counts.iter().all(|count| [7, 5].contains(count)), "{counts:?}");
    let manifest = Manifest::read(&out).unwrap().unwrap();
    assert_eq!(manifest.runs, [run]);
}

#[test]
fn columns_are_what_is_documented_and_measured() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let run = study(&out, &[Fake::named("a")], &["events"], &mut Notes::default());
    for (file, columns) in FILES {
        let schema = reader(&out, file);
        let schema = schema.metadata().file_metadata().schema().get_fields().to_vec();
        let names: Vec<_> = schema.iter().map(|field| field.name().to_owned()).collect();
        assert_eq!(names, columns.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{file}");
    }
    let place = |name: &str| {
        let (_, columns) = FILES.iter().find(|(file, _)| *file == "events.parquet").unwrap();
        columns.iter().position(|(column, _)| *column == name).unwrap()
    };
    let mut orders = BTreeSet::new();
    for row in reader(&out, "events.parquet") {
        let row = row.unwrap();
        assert_eq!(row.get_string(place("run")).unwrap(), &run.run);
        assert_eq!(row.get_string(place("level")).unwrap(), "a");
        assert_eq!(row.get_string(place("degradation")).unwrap(), "one; two");
        assert_eq!(row.get_uint(place("cpu")).unwrap(), 1);
        let is_first = row.get_ulong(place("event")).unwrap() == 0;
        assert_eq!(row.is_null(place("after_ns")).unwrap(), is_first);
        let interval = row.get_ulong(place("interval_ns")).unwrap();
        if !is_first {
            assert_eq!(row.get_long(place("after_ns")).unwrap().cast_unsigned(), interval);
        }
        orders.insert(row.get_uint(place("order")).unwrap());
    }
    assert_eq!(orders.len(), 4 * 4);
}

#[test]
fn what_was_interrupted_goes_on_and_nothing_is_measured_twice() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let levels = [Fake::named("a"), Fake::named("b")];
    let mut notes = Notes { stop_after: Some((20, Stop::default())), ..Notes::default() };
    let first = study(&out, &levels, &["sleep"], &mut notes);
    assert_eq!(first.state, State::Interrupted);
    assert!(first.steps_done > 0 && first.steps_done < first.steps);
    // The existing results are already usable.
    assert!(rows(&out, "sleeps.parquet") > 0);
    let second = study(&out, &levels, &["sleep"], &mut Notes::default());
    assert_eq!(second.state, State::Complete);
    assert_eq!((second.run, second.sessions.len()), (first.run, 2));
    assert_eq!(rows(&out, "sleeps.parquet"), 7 * 7 * 4);
    let third = study(&out, &levels, &["sleep"], &mut Notes::default());
    assert_eq!(third.sessions.len(), 2);
}

#[test]
fn a_probe_that_dies_costs_its_step_only() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let fragile = Fake { dies_with: Some("warp"), once: true, ..Fake::named("a") };
    let run =
        study(&out, std::slice::from_ref(&fragile), &["sleep", "warp"], &mut Notes::default());
    assert_eq!(run.state, State::Incomplete);
    assert_eq!((run.steps - run.steps_done, run.failed.len()), (1, 1));
    assert!(run.failed[0].why.contains("level a: the probe has ended"), "{:?}", run.failed);
    let run = study(&out, &[fragile], &["sleep", "warp"], &mut Notes::default());
    assert_eq!((run.state, run.failed.len()), (State::Complete, 0));
}

#[test]
fn a_policy_that_is_refused_is_skipped_and_any_other_failure_is_one() {
    let run = |policy: &str| {
        let scratch = Scratch::new();
        let out = scratch.file("out");
        let requests = Requests {
            kinds: vec!["sleep".into()],
            methods: vec!["epoll".into()],
            policies: vec![policy.into()],
            ..Requests::default()
        };
        let measurements = Preset::named("quick").unwrap().measurements(Load::Idle, &requests);
        let mut plan = plan(&["a"], &[]);
        plan.loads = vec![UnderLoad { load: Load::Idle, measurements }];
        let levels: Vec<Box<dyn Level>> = vec![Box::new(Fake::named("a"))];
        let folder = Folder::open(&out, plan, by(), None).unwrap();
        let (stop, mut notes) = (Stop::default(), Notes::default());
        Study { levels, named: true, folder, stop, watch: &mut notes }.run().unwrap().run
    };
    let refused = run(REFUSED);
    assert_eq!((refused.state, refused.failed.len()), (State::Complete, 0));
    let [skip] = &refused.skipped[..] else { panic!("{:?}", refused.skipped) };
    assert_eq!((skip.what.as_str(), skip.why.as_str()), ("policy fifo:50", "no rights"));
    let failed = run(FAILING);
    assert_eq!((failed.state, failed.steps_done), (State::Incomplete, 0));
    // In both blocks.
    assert_eq!((failed.failed.len(), failed.skipped.len()), (2, 0), "{:?}", failed.failed);
}

#[test]
fn a_level_that_always_fails_is_left_alone() {
    let scratch = Scratch::new();
    let fragile = Fake { dies_with: Some("sleep"), ..Fake::named("a") };
    let started = fragile.started.clone();
    let run = study(&scratch.file("out"), &[fragile], &["sleep"], &mut Notes::default());
    assert_eq!((run.state, run.steps_done), (State::Incomplete, 0));
    // Once for the check, then for each load.
    assert_eq!(started.load(std::sync::atomic::Ordering::SeqCst), 1 + 2 * FAILURES);
}

#[test]
fn what_cannot_be_had_is_said() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let none = Fake { unavailable: Some("no such place"), ..Fake::named("none") };
    let calm = Fake { unloaded: Some("cpu"), ..Fake::named("calm") };
    let mut notes = Notes::default();
    let run = study(&out, &[none, calm], &["sleep", "calls"], &mut notes);
    assert!(notes.said.iter().any(|said| said.contains("level none is left out: no such place")));
    assert!(notes.said.iter().any(|said| said.contains("calm without load cpu: there is no disk")));
    assert!(run.levels["none"].unavailable.is_some());
    let skipped: Vec<_> = run.skipped.iter().map(|skip| (skip.load, skip.what.as_str())).collect();
    assert_eq!(skipped, [(Some(Load::Cpu), "cpu")]);
    // The failing metric, in both blocks; there are 5 records of each.
    assert_eq!((run.state, run.failed.len()), (State::Incomplete, 2));
    assert_eq!(rows(&out, "calls.parquet"), 14 * 5);
    assert_eq!(rows(&out, "loads.parquet"), 2 + 1);
}

#[test]
fn nothing_is_not_complete() {
    let scratch = Scratch::new();
    let none = Fake { unavailable: Some("no such place"), ..Fake::named("none") };
    let run = study(&scratch.file("out"), &[none], &["sleep"], &mut Notes::default());
    assert_eq!((run.state, run.steps), (State::Incomplete, 0));
    let run =
        study(&scratch.file("out"), &[Fake::named("none")], &["sleep"], &mut Notes::default());
    assert_eq!(run.state, State::Complete);
}

#[test]
fn a_level_that_was_named_is_tried_again() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let down = Fake { unavailable: Some("it is down"), ..Fake::named("b") };
    let first = study(&out, &[Fake::named("a"), down], &["sleep"], &mut Notes::default());
    assert_eq!((first.state, first.steps_done), (State::Incomplete, first.steps));
    let up = [Fake::named("a"), Fake::named("b")];
    let second = study(&out, &up, &["sleep"], &mut Notes::default());
    assert_eq!((second.state, second.steps), (State::Complete, 2 * first.steps));
    assert_eq!(rows(&out, "sleeps.parquet"), 7 * 7 * 4);
    assert_eq!(second.levels["b"].unavailable, None);
}

#[test]
fn a_level_of_the_presets_is_left_out() {
    let scratch = Scratch::new();
    let down = Fake { unavailable: Some("no runtime"), ..Fake::named("b") };
    let folder = Folder::open(&scratch.file("out"), plan(&["a", "b"], &["sleep"]), by(), None);
    let levels: Vec<Box<dyn Level>> = vec![Box::new(Fake::named("a")), Box::new(down)];
    let (folder, stop) = (folder.unwrap(), Stop::default());
    let mut notes = Notes::default();
    let study = Study { levels, named: false, folder, stop, watch: &mut notes };
    assert_eq!(study.run().unwrap().run.state, State::Complete);
}

#[test]
fn another_plan_is_refused_and_says_why() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let refused = |plan, by, seed| Folder::open(&out, plan, by, seed).unwrap_err().to_string();
    let folder = Folder::open(&out, plan(&["a"], &["sleep"]), by(), None).unwrap();
    let busy = Folder::open(&out, plan(&["a"], &["sleep"]), by(), None);
    assert!(matches!(busy, Err(Refused::Busy(_))));
    drop(folder);
    let why = refused(plan(&["a", "b"], &["sleep"]), by(), Some(4));
    assert!(why.contains("levels: a there, a, b asked for"), "{why}");
    assert!(why.contains("seed: 3 there, 4 asked for"), "{why}");
    let other = By { kernel: "newer".into(), ..by() };
    let why = refused(plan(&["a"], &["sleep"]), other, None);
    assert!(why.contains("kernel: k there, newer here"), "{why}");
    std::fs::write(scratch.file("letter"), "Dear").unwrap();
    let other = Folder::open(&scratch.0, plan(&["a"], &["sleep"]), by(), None);
    assert!(matches!(other, Err(Refused::Other(_))));
}

#[test]
fn a_step_that_was_being_written_is_made_again() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    drop(Folder::open(&out, plan(&["a"], &["sleep"]), by(), None).unwrap());
    std::fs::write(out.join("journal/0000000.unfinished"), "{\"st").unwrap();
    std::fs::write(out.join("manifest.json.unfinished"), "{").unwrap();
    let run = study(&out, &[Fake::named("a")], &["sleep"], &mut Notes::default());
    assert_eq!((run.state, run.sessions.len()), (State::Complete, 2));
    assert_eq!(run.sessions[0].end, None);
    assert_eq!(rows(&out, "sleeps.parquet"), 7 * 7 * 2);
}

#[test]
fn a_damaged_file_costs_its_step_only() {
    let scratch = Scratch::new();
    let out = scratch.file("out");
    let mut notes = Notes { stop_after: Some((20, Stop::default())), ..Notes::default() };
    let first = study(&out, &[Fake::named("a")], &["sleep"], &mut notes);
    assert_eq!(first.state, State::Interrupted);
    // In the middle of a record's line.
    let files = || std::fs::read_dir(out.join("journal")).unwrap().map(|file| file.unwrap().path());
    let file =
        files().find(|file| std::fs::read_to_string(file).unwrap().contains("miss_ns")).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.find("miss_ns").unwrap()]).unwrap();
    // And another one, which contains no text.
    let is_another =
        |it: &PathBuf| it.extension().is_some_and(|extension| extension == "jsonl") && *it != file;
    let other = files().find(is_another).unwrap();
    std::fs::write(&other, b"\xff\xfe\n").unwrap();
    let mut notes = Notes::default();
    let second = study(&out, &[Fake::named("a")], &["sleep"], &mut notes);
    assert_eq!(second.state, State::Complete);
    for file in [&file, &other] {
        let begin = format!("{}: ", file.display());
        let said = notes.said.iter().find(|said| said.starts_with(&begin));
        assert!(said.is_some_and(|it| it.ends_with("measured again")), "{:?}", notes.said);
    }
    assert_eq!(rows(&out, "sleeps.parquet"), 7 * 7 * 2);
}

#[test]
fn runs_become_one_folder() {
    let scratch = Scratch::new();
    let folders = ["one", "two"].map(|name| scratch.file(name));
    let runs = folders.each_ref().map(|folder| {
        study(folder, &[Fake::named("a")], &["sleep", "read"], &mut Notes::default())
    });
    let both = scratch.file("both");
    assert_eq!(merge(&folders, &both).unwrap(), 2);
    assert_eq!(Manifest::read(&both).unwrap().unwrap().runs, runs);
    for file in ["sleeps.parquet", "reads.parquet", "warps.parquet"] {
        assert_eq!(rows(&both, file), 2 * rows(&folders[0], file), "{file}");
    }
    let names: BTreeSet<_> = reader(&both, "sleeps.parquet")
        .into_iter()
        .map(|row| row.unwrap().get_string(0).unwrap().clone())
        .collect();
    assert_eq!(names, runs.map(|run| run.run).into_iter().collect());
    // Merged results can be merged again, but not measured into, and no run may occur twice.
    let third = scratch.file("third");
    let again = merge(&[both.clone(), folders[0].clone()], &third).unwrap_err().to_string();
    assert!(again.contains("/both already: "), "{again}");
    let twice = merge(&[folders[0].clone(), scratch.file("./one")], &third).unwrap_err();
    assert!(twice.to_string().contains("this folder is named twice"), "{twice}");
    // A failure leaves nothing behind that blocks the next attempt.
    std::fs::rename(folders[1].join("loads.parquet"), scratch.file("aside")).unwrap();
    assert!(merge(&folders, &third).is_err());
    assert!(!third.exists());
    std::fs::rename(scratch.file("aside"), folders[1].join("loads.parquet")).unwrap();
    assert_eq!(merge(&folders, &third).unwrap(), 2);
    assert!(merge(&folders, &both).unwrap_err().to_string().contains("is not empty"));
    let into = Folder::open(&both, plan(&["a"], &["sleep"]), by(), None);
    assert!(matches!(into, Err(Refused::Merged(_))));
    assert!(merge(std::slice::from_ref(&scratch.0), &third).is_err());
}
