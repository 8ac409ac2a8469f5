//! The command line of `eigentime bench`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use eigentime_container::spec::bundle::Volume;
use eigentime_study::levels::Asked;
use eigentime_study::levels::vm::Accelerator;
use eigentime_study::load::Load;
use eigentime_study::measurement::CACHES;
use eigentime_study::metrics::{CALLS, EVENTS, Metric, READS, SLEEPS, names};
use eigentime_study::preset::{PRESETS, Preset};
use eigentime_timeline::Nanos;
use eigentime_timeline::text::parse_offset;

use crate::values::{parse_span, parse_volume};

/// The end of the help text.
pub const NOTES: &str = "\
Levels:
  baseline        this host
  namespace       a time namespace, and nothing else
  container       all eight namespaces, and a file system with nothing but the probe
  vm              a virtual machine, by QEMU
  command:PREFIX  whatever runs a command after PREFIX: ssh host, kubectl exec -i pod --,
                  docker exec -i name; NAME=command:PREFIX gives it a name

Examples:
  eigentime bench --preset quick
  eigentime bench calls --level baseline,namespace,container --records 200 --calls 1000000
  eigentime bench read sleep --level baseline --level 'web=command:ssh web' --out web
  eigentime bench sleep --method nanosleep --interval 100us --slack 1,50000 --load idle,cpu
  eigentime bench events --source ticker,bpf_timer --interval 50us,100us --count 4500
  eigentime bench --out results              # the same command resumes it after an interruption
  eigentime bench merge monday tuesday --out both

The preset's levels and loads apply unless --level and --load name others; those of the preset that
are not available here are left out. The order is random within blocks; --seed repeats it.

Exit status: 0; 1 if something requested could not be measured; 125 if eigentime itself
fails or the arguments are wrong; 130 if it was interrupted.";

/// Options of `eigentime bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchOptions {
    /// What to do with results.
    #[command(subcommand)]
    pub action: Option<Action>,

    /// What to measure.
    #[command(flatten)]
    pub measure: Box<MeasureOptions>,
}

/// The other actions.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Merge the results of several runs or machines into one folder
    Merge(MergeOptions),

    /// Start a program in namespaces, without a timeline (for the command's own use)
    #[command(hide = true)]
    Enter(EnterOptions),

    /// Run a command, and when it ends, end everything that it has started (for the command's own
    /// use)
    #[command(hide = true)]
    Lead(LeadOptions),
}

/// Options of `eigentime bench merge`.
#[derive(Debug, Args)]
pub struct MergeOptions {
    /// Folders that eigentime bench has written
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,

    /// The folder to write; it must be empty or not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Options of `eigentime bench enter`.
#[derive(Debug, Args)]
pub struct EnterOptions {
    /// How far CLOCK_MONOTONIC is ahead of the host's
    #[arg(long, value_parser = parse_offset, allow_hyphen_values = true)]
    pub monotonic: Nanos,

    /// How far CLOCK_BOOTTIME is ahead of the host's
    #[arg(long, value_parser = parse_offset, allow_hyphen_values = true)]
    pub boottime: Nanos,

    /// Start it in a container with this file system
    #[arg(long, value_name = "DIR")]
    pub rootfs: Option<PathBuf>,

    /// Mount SRC of the host at DST in the container
    #[arg(long, value_name = "SRC:DST", requires = "rootfs", value_parser = parse_volume)]
    pub volume: Vec<Volume>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// Options of `eigentime bench lead`.
#[derive(Debug, Args)]
pub struct LeadOptions {
    /// The process that has started this one; the command ends when it ends
    #[arg(long, value_name = "PID")]
    pub study: u32,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// Options that say what to measure.
#[derive(Debug, Args)]
pub struct MeasureOptions {
    /// What to measure [default: everything]
    #[arg(value_enum)]
    pub kinds: Vec<Kind>,

    /// Levels to measure at: baseline, namespace, container, vm; or, in a separate --level option,
    /// command:PREFIX or NAME=command:PREFIX. Names contain no commas, '=' or white space
    #[arg(long, value_name = "LEVEL,...", value_parser = parse_levels)]
    pub level: Vec<Levels>,

    /// Loads to measure under: idle, cpu, io, network
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', value_parser = Load::named)]
    pub load: Vec<Load>,

    /// How much to measure: quick, standard, paper
    #[arg(long, default_value = PRESETS[1].name, value_parser = parse_preset)]
    pub preset: &'static Preset,

    /// The folder for the results; an interrupted run in it is continued
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print every record as a line of JSON instead of the table
    #[arg(long)]
    pub json: bool,

    /// The seed of the random order
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Divide everything into this many blocks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub blocks: Option<u32>,

    /// Measure on this processor [default: the last one available at the level]
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,

    /// The executable of eigentime-probe [default: the one beside this program, or on PATH]
    #[arg(long, value_name = "FILE")]
    pub probe: Option<PathBuf>,

    /// The name of this machine in the results [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,

    /// Where loads write; it should be on a disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub load_folder: PathBuf,

    /// The kernel of the virtual machine [default: one that is found]
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,

    /// How the virtual machine's code is executed [default: KVM where it works]
    #[arg(long, value_enum)]
    pub vm_accelerator: Option<AcceleratorName>,

    /// The counts and factors.
    #[command(flatten)]
    pub requests: RequestOptions,
}

/// Changes to a preset.
#[derive(Debug, Args)]
#[command(next_help_heading = "Instead of the preset's")]
pub struct RequestOptions {
    /// Records of each metric
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub records: Option<u32>,

    /// Calls per record; always 1 for sleeps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub calls: Option<u64>,

    /// Readings, sleeps and events of each kind
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,

    /// How long clocks are compared
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub warp: Option<Duration>,

    /// Calls to measure
    #[arg(long, value_name = "METRIC,...", value_delimiter = ',', value_parser = known(&[CALLS]))]
    pub metric: Vec<String>,

    /// Sources of readings and events
    #[arg(long, value_name = "SOURCE,...", value_delimiter = ',', value_parser = known(&[READS, EVENTS]))]
    pub source: Vec<String>,

    /// Cache states of single readings
    #[arg(long, value_name = "CACHE,...", value_delimiter = ',', value_parser = CACHES)]
    pub cache: Vec<String>,

    /// Ways of sleeping
    #[arg(long, value_name = "METHOD,...", value_delimiter = ',', value_parser = known(&[SLEEPS]))]
    pub method: Vec<String>,

    /// Intervals of sleeps and events: 50us, 1ms
    #[arg(long, value_name = "SPAN,...", value_delimiter = ',', value_parser = parse_span)]
    pub interval: Vec<Duration>,

    /// Timer slacks of sleeps, in nanoseconds
    #[arg(long, value_name = "NS,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub slack: Vec<u32>,

    /// Scheduling policies of sleeps: other, fifo:50, rr:50
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', value_parser = parse_policy)]
    pub policy: Vec<String>,
}

/// How a virtual machine's code is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AcceleratorName {
    /// By the processor, with the kernel's KVM
    Kvm,
    /// By QEMU's translator
    Tcg,
}

impl From<AcceleratorName> for Accelerator {
    fn from(name: AcceleratorName) -> Self {
        match name {
            AcceleratorName::Kvm => Self::Kvm,
            AcceleratorName::Tcg => Self::Tcg,
        }
    }
}

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// What calls of clocks and timers cost
    Calls,
    /// What single readings cost, hot and cold
    Read,
    /// How late sleeps end
    Sleep,
    /// The regularity of timer events
    Events,
    /// Whether clocks go backwards
    Warp,
}

impl Kind {
    /// Its name in the probe.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Read => "read",
            Self::Sleep => "sleep",
            Self::Events => "events",
            Self::Warp => "warp",
        }
    }
}

/// Levels of one option.
#[derive(Clone, Debug)]
pub struct Levels(pub Vec<Asked>);

fn parse_levels(text: &str) -> Result<Levels, String> {
    Asked::parse(text).map(Levels)
}

fn parse_preset(name: &str) -> Result<&'static Preset, String> {
    Preset::named(name).ok_or_else(|| {
        let all = PRESETS.map(|preset| format!("{} ({})", preset.name, preset.about));
        format!("there are {}", all.join("; "))
    })
}

fn parse_policy(text: &str) -> Result<String, String> {
    let priority = |text: &str| text.parse().is_ok_and(|priority| (1..=99).contains(&priority));
    let is_one = match text.split_once(':') {
        None => text == "other",
        Some((kind, text)) => ["fifo", "rr"].contains(&kind) && priority(text),
    };
    if is_one {
        return Ok(text.to_owned());
    }
    Err("policies are other, fifo:PRIORITY and rr:PRIORITY, with priorities from 1 to 99".into())
}

fn known(metrics: &[&'static [Metric]]) -> PossibleValuesParser {
    metrics.iter().flat_map(|of| names(of)).collect::<Vec<_>>().into()
}
