//! Loads that keep the machine busy during measurements.
//!
//! A load is one process with some threads, so nothing of it remains, however it ends. It checks
//! its own effect before it reports: the first record comes when the load is seen to work, or after
//! a timeout, which the record reports.
//!
//! - `load`: the definition of a load, a row of a table.
//! - `idle`, `cpu`, `io`, `network`: the loads.
//! - `activity`: the activity of the whole machine.
//! - `until`: when a load ends.

mod activity;
mod cpu;
mod idle;
mod io;
mod load;
mod network;
mod until;

use std::error::Error;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use eigentime_probe::Record;
use eigentime_probe::record::{self, Skipped};

use crate::output::Output;
use crate::setting::usual_cpu;
use activity::{Activity, Watch};
use load::{Judgement, Load, Unable};
use until::Until;

/// Options of `eigentime-probe load`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What to keep busy
    #[arg(value_parser = names())]
    load: String,
    /// For io: a folder on a disk, for an unnamed temporary file
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// For io: a block device to read instead; nothing is ever written to it
    #[arg(long, value_name = "DEV", conflicts_with = "folder")]
    device: Option<PathBuf>,
    /// For io: count the disk's interrupts on this processor, the one that is measured; "auto" is
    /// the default processor of measurements
    #[arg(long, value_name = "CPU|auto")]
    measured_cpu: Option<MeasuredCpu>,
    /// How long to continue after the first record [default: until SIGTERM]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
}

/// A processor, or the one that measurements are made on.
#[derive(Clone, Copy, Debug)]
struct MeasuredCpu(usize);

impl FromStr for MeasuredCpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cpu = match text {
            "auto" => usual_cpu().ok_or("which processors are allowed is not known")?,
            number => number.parse().map_err(|_| "a processor's number, or auto")?,
        };
        Ok(Self(cpu))
    }
}

/// All of them.
const LOADS: &[Load] = &[
    Load { name: "idle", start: idle::start },
    Load { name: "cpu", start: cpu::start },
    Load { name: "io", start: io::start },
    Load { name: "network", start: network::start },
];

/// How long to observe before anything is started.
const BEFORE: Duration = Duration::from_millis(300);
/// How long to observe before the first record, each time: short, since the caller waits for it.
const FIRST: Duration = Duration::from_millis(500);
/// How long to wait for it to take effect.
const PATIENCE: Duration = Duration::from_secs(5);
/// From one record to the next.
const EACH: Duration = Duration::from_secs(1);

/// Loads until it is told to end, and prints its activity.
///
/// # Errors
/// When something fails that should work.
pub fn run(options: &Options, output: &mut Output) -> Result<(), Box<dyn Error>> {
    let load = LOADS.iter().find(|it| it.name == options.load).ok_or("there is no such load")?;
    let until = Until::new()?;
    let mut watch = Watch::start();
    if until.wait(BEFORE)? {
        return Ok(());
    }
    let before = watch.look();
    let mut running = match (load.start)(options) {
        Ok(running) => running,
        Err(Unable::Needs(why)) => {
            output.put(&Record::Skipped(Skipped { what: load.name.to_owned(), why }))?;
            return Ok(());
        }
        Err(Unable::Failed(error)) => return Err(format!("{}: {error}", load.name).into()),
    };
    // Excludes the start.
    let mut now = watch.look();
    running.judge(&now);
    let (begun, mut first) = (Instant::now(), None);
    while !until.wait(if first.is_some() { EACH } else { FIRST })? {
        now = watch.look();
        let judgement = running.judge(&now);
        if first.is_none() && !judgement.is_loading && begun.elapsed() < PATIENCE {
            continue;
        }
        if !put(output, load, judgement, &now, &before)? {
            break;
        }
        let first = *first.get_or_insert_with(Instant::now);
        let seconds = options.seconds.map(|it| Duration::from_secs(it.into()));
        // The last record covers the last second and comes slightly after it.
        if seconds.is_some_and(|it| first.elapsed() >= it) {
            break;
        }
    }
    Ok(())
}

fn names() -> clap::builder::PossibleValuesParser {
    LOADS.iter().map(|load| load.name).collect::<Vec<_>>().into()
}

/// Prints a record; returns whether the output is still open.
fn put(
    output: &mut Output,
    load: &Load,
    judgement: Judgement,
    now: &Activity,
    before: &Activity,
) -> std::io::Result<bool> {
    match output.put(&Record::Load(recorded(load, judgement, now, before))) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        printed => printed.map(|()| true),
    }
}

fn recorded(load: &Load, it: Judgement, now: &Activity, before: &Activity) -> record::Load {
    let mut numbers = it.numbers;
    numbers.extend(before.cpu_percent.map(|it| ("cpu_percent_before".to_owned(), it)));
    for (name, number) in [
        ("context_switches_per_second_before", before.switches_per_second),
        ("interrupts_per_second_before", before.interrupts_per_second),
    ] {
        numbers.insert(name.to_owned(), number);
    }
    let how = match now.cpu_percent {
        Some(_) => it.how,
        None => format!("{}; /proc/stat does not say what the machine does", it.how),
    };
    record::Load {
        load: load.name.to_owned(),
        is_loading: it.is_loading,
        how,
        looked_ns: u64::try_from(now.elapsed.as_nanos()).unwrap_or(u64::MAX),
        cpu_percent: now.cpu_percent.unwrap_or(0.0),
        context_switches_per_second: now.switches_per_second,
        interrupts_per_second: now.interrupts_per_second,
        numbers,
    }
}
