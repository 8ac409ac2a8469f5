//! The level `vm`: a virtual machine with the probe as its only program. With QEMU's translator,
//! which works everywhere, and with KVM if machines start with it.

mod ends;
mod missing;

use std::path::Path;
use std::time::Duration;

use eigentime_probe::Record;
use eigentime_probe::record::{Calls, Events, Served};
use eigentime_study::levels::vm::{Accelerator, Settings, Vm};
use eigentime_study::session::Session;
use eigentime_study::stop::Stop;

use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace::{probe, products};

pub use ends::hold_if_asked;

/// How long a measurement of a few calls may take in an emulated machine that shares its processor.
const LIMIT: Duration = Duration::from_secs(120);

/// Clocks of virtual machines, the arguments that make the kernel use them, and what then serves
/// readings. The vDSO can read the processor's counter, but nothing behind a port or a bus.
const CLOCKS: [(&str, &str, Served); 4] = [
    ("acpi_pm", "clocksource=acpi_pm", Served::SystemCall),
    ("hpet", "clocksource=hpet", Served::SystemCall),
    (COARSE, "hpet=disable pmtmr=0 tsc=unstable", Served::SystemCall),
    ("tsc", "tsc=reliable clocksource=tsc", Served::Vdso),
];

/// A clock of whole ticks, with which nothing can be measured.
const COARSE: &str = "jiffies";

/// The mount point of its disk.
const FOLDER: &str = "/scratch";

/// Calls of the vDSO that are measured.
const METRICS: [&str; 3] =
    ["vdso_clock_gettime_monotonic", "vdso_clock_gettime_boottime", "vdso_gettimeofday"];

/// Clocks that the vDSO reads by itself, if it can read their source.
const READ_BY_THE_VDSO: [&str; 3] = ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME"];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = needs();
    suite.test("vm::tcg::measures", &needs, || {
        let mut session = open(with_all_processors())?;
        expect_note(&session, "accelerator", "tcg")?;
        expect_note(&session, "kernel", &release()?)?;
        measures(&mut session)
    });
    let with_kvm = || {
        let settings = Settings { accelerator: Some(Accelerator::Kvm), ..settings() };
        open(settings).map_err(|broken| {
            format!("KVM by which machines start: {}", broken.0.replace('\n', " "))
        })
    };
    suite.test("vm::tcg::loads", &needs, || loads(&mut open(with_all_processors())?));
    suite.prepared_test("vm::kvm::measures", &needs, with_kvm, |mut session| {
        expect_note(&session, "accelerator", "kvm")?;
        measures(&mut session)
    });
    suite.test("vm::without_an_accelerator_named", &needs, || {
        let session = open(settings())?;
        let by = session.notes.get("accelerator").map(String::as_str);
        let why_not = session.notes.get("kvm");
        ensure!(matches!(by, Some("kvm" | "tcg")), "by {by:?}");
        // Whichever it is, the note says why it was not the better one.
        ensure!((by == Some("tcg")) == why_not.is_some(), "by {by:?}, not by KVM: {why_not:?}");
        Ok(())
    });
    for (name, append, served) in CLOCKS {
        suite.test(format!("vm::oracle::{name}"), &needs, move || oracle(name, append, served));
    }
    ends::add(suite, &needs);
    missing::add(suite, &needs);
}

/// What `make test` has put in place, if it could.
fn needs() -> Vec<Need> {
    let kernel = products().join("share/eigentime/vm/vmlinuz");
    let has_probe = probe().is_file();
    vec![
        Need::Tool("qemu-system-x86_64"),
        Need::Other(kernel.is_file(), format!("{} (make vm)", kernel.display())),
        Need::Other(has_probe, format!("{} (make build)", probe().display())),
    ]
}

/// The default level for the command under test.
fn settings() -> Settings {
    Settings {
        kernel: Some(products().join("share/eigentime/vm/vmlinuz")),
        ..Settings::new(&probe())
    }
}

/// With QEMU's translator, and as many processors as this machine has.
fn with_all_processors() -> Settings {
    Settings { accelerator: Some(Accelerator::Tcg), ..settings() }
}

/// With QEMU's translator and one processor: where processors notify each other, one may wait for a
/// lost notification.
fn emulated() -> Settings {
    Settings { processors: 1, ..with_all_processors() }
}

fn release() -> Result<String, Broken> {
    let text = std::fs::read_to_string(products().join("share/eigentime/vm/version"))?;
    Ok(text.trim().to_owned())
}

fn open(settings: Settings) -> Result<Session, Broken> {
    Ok(Session::open(&Vm::from(settings), &Stop::default(), |_| {})?)
}

fn expect_note(session: &Session, name: &str, expected: &str) -> Outcome {
    let found = session.notes.get(name);
    ensure!(found.is_some_and(|it| it == expected), "{name}: {found:?} instead of {expected}");
    Ok(())
}

/// The output of a run, after the notes on how it was made.
fn run(session: &mut Session, arguments: &[&str]) -> Result<Vec<Record>, Broken> {
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let mut records = Vec::new();
    session.run(&arguments, LIMIT, |record| records.push(record))?;
    Ok(records)
}

/// Measures calls, and events in the kernel by both sources.
fn measures(session: &mut Session) -> Outcome {
    let records =
        run(session, &["calls", "--metric", "clock_getres", "--records", "2", "--calls", "1000"])?;
    let calls = records.iter().filter(|it| matches!(it, Record::Calls(Calls { calls: 1000, .. })));
    ensure!(calls.count() == 2, "not two records of calls: {records:?}");

    for source in ["hrtimer", "bpf_timer"] {
        let events = events(session, source)?;
        let all = events.at_ns.len() as u64 + events.missed;
        ensure!(events.place == "kernel", "{source}: timed in {}", events.place);
        ensure!(all == 200, "{source}: {all} events instead of 200");
        ensure!(events.at_ns.is_sorted(), "{source}: out of order: {:?}", events.at_ns);
        let early = events.at_ns.iter().find(|at| **at < 0);
        ensure!(early.is_none(), "{source}: an event before the first was due: {early:?}");
        // 200 deadlines, each a millisecond after the one before: the last event that came was due
        // when at least the missed ones were over.
        let last = events.at_ns.last().copied().unwrap_or_default();
        let least = (events.at_ns.len() as i64 - 1) * 1_000_000;
        ensure!(last >= least, "{source}: the last of {all} came after {last} ns");
    }
    let bpf = events(session, "bpf_timer")?;
    let release = release()?;
    let mut numbers = release.split('.').map_while(|it| it.parse::<u32>().ok());
    let pins = (numbers.next(), numbers.next()) >= (Some(6), Some(7));
    ensure!(bpf.degradation.is_empty() == pins, "on Linux {release}: {:?}", bpf.degradation);
    Ok(())
}

fn events(session: &mut Session, source: &str) -> Result<Events, Broken> {
    let asked = ["events", "--source", source, "--interval", "1000000", "--count", "200"];
    let records = run(session, &asked)?;
    let found = records.iter().find_map(|it| match it {
        Record::Events(events) => Some(events.clone()),
        _ => None,
    });
    found.ok_or_else(|| Broken(format!("no events by {source}: {records:?}")))
}

/// The oracle is right about clocks that the vDSO cannot serve, and about one that it can: where
/// the probe asks it before it measures, and where the doctor does.
fn oracle(clocksource: &str, append: &str, expected: Served) -> Outcome {
    let mut session = open(Settings { append: Some(append.to_owned()), ..emulated() })?;
    for metric in METRICS.iter().filter(|_| clocksource != COARSE) {
        let records =
            run(&mut session, &["calls", "--metric", metric, "--records", "1", "--calls", "100"])?;
        let served = records.iter().find_map(|it| match it {
            Record::Calls(calls) => Some(calls.served),
            _ => None,
        });
        ensure!(served == Some(expected), "{append}: {metric} served by {served:?}: {records:?}");
    }
    let records = run(&mut session, &["facts", "--quick"])?;
    let report = serde_json::to_value(&records)?;
    let mut looked = 0;
    for finding in report[0]["findings"].as_array().into_iter().flatten() {
        for fact in finding["facts"].as_array().into_iter().flatten() {
            let name = fact["name"].as_str().unwrap_or_default();
            let clock = fact["labels"]["clock"].as_str().unwrap_or_default();
            let is_read = fact["labels"]["function"] == "clock_gettime";
            if name == "clock_falls_back" && is_read && READ_BY_THE_VDSO.contains(&clock) {
                looked += 1;
                let falls_back = fact["flag"].as_bool();
                ensure!(falls_back == Some(expected == Served::SystemCall), "{append}: {fact}");
            }
        }
    }
    ensure!(looked == READ_BY_THE_VDSO.len(), "the doctor has looked at {looked} clocks: {report}");
    Ok(())
}

/// Each load loads its resource; the disk is the machine's own.
fn loads(session: &mut Session) -> Outcome {
    for load in ["cpu", "io", "network"] {
        let records = run(session, &["load", load, "--folder", FOLDER, "--seconds", "2"])?;
        let last = records.iter().rev().find_map(|it| match it {
            Record::Load(load) => Some(load),
            _ => None,
        });
        ensure!(last.is_some_and(|it| it.is_loading), "{load}: {records:?}");
    }
    Ok(())
}

/// A file that is not a kernel.
fn no_kernel() -> &'static Path {
    Path::new("/bin/sh")
}
