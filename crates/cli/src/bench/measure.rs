//! A study, from the options to its table.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use eigentime_container::program;
use eigentime_probe::record::Skipped;
use eigentime_study::levels::{Asked, Tools, rootfs};
use eigentime_study::load::Load;
use eigentime_study::plan::{Plan, UnderLoad};
use eigentime_study::preset::Requests;
use eigentime_study::results::folder::Folder;
use eigentime_study::results::manifest::{By, Run, Skip, State, now};
use eigentime_study::stop::Stop;
use eigentime_study::study::Study;
use eigentime_study::summary::Column;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;

use super::args::MeasureOptions;
use super::screen::Screen;
use super::sense;

/// The program that measures.
const PROBE: &str = "eigentime-probe";

/// The exit status if something requested could not be measured.
const NOT_ALL: i32 = 1;

/// The exit status after Ctrl-C, as in shells.
const INTERRUPTED: i32 = 128 + SIGINT;

/// Measures, and returns the exit status.
pub fn run(options: &MeasureOptions) -> i32 {
    measure(options).unwrap_or_else(|reason| {
        eprintln!("eigentime: {reason}");
        i32::from(crate::FAILED)
    })
}

fn measure(options: &MeasureOptions) -> Result<i32, String> {
    let levels = levels(options)?;
    let plan = plan(options, &levels)?;
    sense::check(options, &levels, &plan)?;
    let eigentime = env::current_exe().map_err(|cause| {
        format!(
            "cannot find its own executable: {cause}\n\
             help: mount /proc, through which it is found"
        )
    })?;
    let probe = probe(options, &eigentime)?;
    let by = By::here(options.machine.as_deref(), &probe)
        .map_err(|cause| format!("{}: {cause}", probe.display()))?;
    let out = options.out.clone().unwrap_or_else(unnamed);
    let tools = Tools {
        probe,
        eigentime,
        folder: options.load_folder.clone(),
        kernel: options.vm_kernel.clone(),
        accelerator: options.vm_accelerator.map(Into::into),
    };
    let folder =
        Folder::open(&out, plan, by, options.seed).map_err(|refused| match options.out {
            None => format!(
                "{refused}\n\
                 help: use --out to name a folder that this user may write to"
            ),
            Some(_) => refused.to_string(),
        })?;
    if folder.journal.is_none() {
        if let Some(reason) = complete_without(options, &folder) {
            return Err(reason);
        }
        eprintln!("eigentime: {} is complete already", out.display());
        return end(options, &folder);
    }
    let stop = stop_by_signals().map_err(|cause| format!("cannot await signals: {cause}"))?;
    let mut screen = Screen::new(options.json.then(|| folder.source()));
    let study = Study {
        levels: levels.iter().map(|level| level.level(&tools)).collect(),
        named: !options.level.is_empty(),
        folder,
        stop,
        watch: &mut screen,
    };
    let folder = study.run();
    screen.clear();
    let folder = folder.map_err(|cause| format!("results cannot be kept: {cause}"))?;
    let status = end(options, &folder)?;
    match screen.unprinted {
        None => Ok(status),
        Some(cause) => Err(not_printed("records", &cause, &folder)),
    }
}

/// The error for output that could not be printed, with the place of the data.
fn not_printed(what: &str, cause: &io::Error, folder: &Folder) -> String {
    let path = folder.path().display();
    format!("{what} cannot be printed: {cause}\nhelp: what was measured is in {path}")
}

/// What a complete run lacks of the current request: it was started with a preset, whose levels are
/// omitted if unavailable.
fn complete_without(options: &MeasureOptions, folder: &Folder) -> Option<String> {
    let named: Vec<_> = options.level.iter().flat_map(|levels| &levels.0).collect();
    let (level, why) = named.iter().find_map(|level| {
        let why = folder.run.levels.get(level.name())?.unavailable.as_ref()?;
        Some((level.name(), why))
    })?;
    let out = folder.path().display();
    Some(format!(
        "{out} is complete without level {level}, which was not available: {why}\n\
         help: measure {level} into another folder, and merge both with `eigentime bench merge`"
    ))
}

/// The requested levels, or else the preset's.
fn levels(options: &MeasureOptions) -> Result<Vec<Asked>, String> {
    let mut levels: Vec<_> = options.level.iter().flat_map(|levels| &levels.0).cloned().collect();
    if levels.is_empty() {
        levels = options.preset.levels.to_vec();
    }
    for (index, level) in levels.iter().enumerate() {
        if levels[..index].iter().any(|other| other.name() == level.name()) {
            return Err(format!("level {} is asked for twice", level.name()));
        }
    }
    Ok(levels)
}

fn plan(options: &MeasureOptions, levels: &[Asked]) -> Result<Plan, String> {
    let mut loads = options.load.clone();
    loads.sort();
    loads.dedup();
    if loads.is_empty() {
        loads = options.preset.loads.to_vec();
    }
    let requests = requests(options);
    let under = |load: Load| {
        let measurements = options.preset.measurements(load, &requests);
        UnderLoad { load, measurements }
    };
    let loads: Vec<_> = loads.into_iter().map(under).collect();
    if loads.iter().all(|load| load.measurements.is_empty()) {
        return Err(
            "nothing is left to measure: the names given belong to other measurements".into()
        );
    }
    Ok(Plan {
        preset: options.preset.name.to_owned(),
        levels: levels.iter().map(Into::into).collect(),
        blocks: options.blocks.unwrap_or(options.preset.blocks),
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..)),
        cpu: options.cpu,
        loads,
    })
}

fn requests(options: &MeasureOptions) -> Requests {
    let it = &options.requests;
    Requests {
        kinds: options.kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        metrics: it.metric.clone(),
        sources: it.source.clone(),
        caches: it.cache.clone(),
        methods: it.method.clone(),
        intervals: it.interval.clone(),
        slacks: it.slack.clone(),
        policies: it.policy.clone(),
        records: it.records,
        calls: it.calls,
        count: it.count,
        warp: it.warp,
    }
}

/// The named probe, or else the one beside this program, or else one on PATH.
fn probe(options: &MeasureOptions, own: &Path) -> Result<PathBuf, String> {
    let absolute = |file: &Path| std::path::absolute(file).map_err(|error| error.to_string());
    if let Some(file) = &options.probe {
        return match program::is_program(file) {
            true => absolute(file),
            false => Err(format!("{} is no program", file.display())),
        };
    }
    let beside = own.with_file_name(PROBE);
    let found =
        Some(beside).filter(|file| program::is_program(file)).or_else(|| program::find(PROBE));
    absolute(&found.ok_or_else(|| {
        format!(
            "{PROBE} is neither beside this program nor on PATH\n\
             help: install it there, or name it with --probe"
        )
    })?)
}

/// The default folder for results.
fn unnamed() -> PathBuf {
    let time: String = now().chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
    format!("eigentime-bench-{time}").into()
}

/// Makes termination signals stop the study; the second one ends this process at once, and with it
/// everything that it has started.
fn stop_by_signals() -> io::Result<Stop> {
    // A write to a probe that has ended must fail. This program starts at C's `main`, so Rust has
    // not arranged that.
    signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let stop = Stop::default();
    let asked = stop.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if asked.is_asked() {
                rootfs::sweep();
                std::process::exit(128 + signal);
            }
            asked.ask();
            eprintln!("eigentime: stopping; interrupt again to stop at once");
        }
    });
    Ok(stop)
}

/// Prints the results, and returns the exit status.
fn end(options: &MeasureOptions, folder: &Folder) -> Result<i32, String> {
    let run = &folder.run;
    let columns =
        run.plan.levels.iter().map(|level| Column::of(&level.name, run.levels.get(&level.name)));
    let columns: Vec<_> = columns.collect();
    if options.json {
        for remark in &run.summary.remarks {
            eprintln!("note: {remark}");
        }
    } else {
        print(&run.summary.table(&columns, width()))
            .map_err(|cause| not_printed("the table", &cause, folder))?;
    }
    for line in not_measured(&run.skipped) {
        eprintln!("not measured: {line}");
    }
    let path = folder.path().display();
    let done = format!("{} of {} steps are done", run.steps_done, run.steps);
    match run.state {
        State::Complete => eprintln!("results: {path}"),
        State::Interrupted | State::Running => {
            eprintln!("interrupted: {done}; run the same command with --out {path} to resume");
            return Ok(INTERRUPTED);
        }
        State::Incomplete => {
            eprintln!("incomplete: {}", left(run));
            eprintln!("help: run the same command with --out {path} to retry");
        }
    }
    Ok(if is_all(options, run) { 0 } else { NOT_ALL })
}

/// What is left of an incomplete run: steps, levels, or other failures.
fn left(run: &Run) -> String {
    let missed: Vec<_> =
        run.levels.iter().filter(|(_, level)| level.unavailable.is_some()).collect();
    let mut left = Vec::new();
    if run.steps_done < run.steps {
        left.push(format!("{} of {} steps are done", run.steps_done, run.steps));
    }
    for (name, _) in missed {
        left.push(format!("level {name} could not be reached"));
    }
    if left.is_empty() {
        let failed: BTreeSet<_> = run.failed.iter().map(|skip| skip.what.as_str()).collect();
        let failed: Vec<_> = failed.into_iter().collect();
        left.push(format!("all steps are done, but this failed: {}", failed.join(", ")));
    }
    left.join("; ")
}

/// Whether everything requested by name has been measured, and anything at all.
fn is_all(options: &MeasureOptions, run: &Run) -> bool {
    let it = &options.requests;
    let unavailable = run.levels.values().any(|level| level.unavailable.is_some());
    let is_policy = |skip: &Skip| {
        let refused = Skipped::policy(&skip.what);
        refused.is_some_and(|refused| it.policy.iter().any(|named| named == refused))
    };
    let is_missed = |skip: &Skip| {
        let named = [&it.metric, &it.source, &it.method].into_iter().flatten();
        // The description of a skip begins with its name: `clock_gettime_raw cold`.
        let word = skip.what.split(' ').next().unwrap_or_default();
        named.into_iter().any(|name| name == word)
            || options.load.iter().any(|load| load.name() == word)
            || is_policy(skip)
    };
    run.state == State::Complete
        && run.steps > 0
        && (options.level.is_empty() || !unavailable)
        && !run.skipped.iter().any(is_missed)
}

/// What was not measured for the same reason, in one line; the manifest has all of them.
fn not_measured(skipped: &[Skip]) -> Vec<String> {
    #[derive(Default)]
    struct Places<'a> {
        levels: BTreeSet<&'a str>,
        loads: BTreeSet<Load>,
    }
    let mut reasons: BTreeMap<(&str, &str), Places<'_>> = BTreeMap::new();
    for skip in skipped {
        let why = skip.why.lines().next().unwrap_or_default();
        let places = reasons.entry((&skip.what, why)).or_default();
        places.levels.insert(&skip.level);
        places.loads.extend(skip.load);
    }
    let line = |((what, why), places): (_, Places<'_>)| {
        let levels: Vec<_> = places.levels.into_iter().collect();
        let loads: Vec<_> = places.loads.into_iter().map(Load::name).collect();
        format!("{what} ({}; {}): {why}", levels.join(", "), loads.join(", "))
    };
    reasons.into_iter().map(line).collect()
}

/// The maximum width of the table.
fn width() -> usize {
    /// If unknown: output in a file is read in an editor.
    const USUAL: usize = 100;
    terminal_size::terminal_size().map_or(USUAL, |(columns, _)| usize::from(columns.0))
}

fn print(text: &str) -> io::Result<()> {
    use io::Write as _;
    let mut to = io::stdout().lock();
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        // If the reader is gone, the manifest has the data.
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
