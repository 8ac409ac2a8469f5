//! Options of `eigentime checkpoint` and `eigentime restore`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use eigentime_checkpoint::{Requested, parse_slew_rate};
use eigentime_supervisor::Onward;
use eigentime_supervisor::registry::Name;
use eigentime_timeline::Rate;
use eigentime_timeline::text::parse_rate;

pub const CHECKPOINT_NOTES: &str = "\
This requires root and CRIU 4.0 or later. Either the directory is complete and the processes have
ended, or the processes continue as before. Processes that are on no timeline can be checkpointed,
too: they get one when they are restored.

Examples:
  eigentime checkpoint shop -o shop.checkpoint
  eigentime checkpoint --pid 4711 -o worker.checkpoint --leave-running";

pub const RESTORE_NOTES: &str = "\
Policies: with `continue`, a clock resumes from the time of the checkpoint. With `catch-up`, it
resumes as if it had kept running: timers that expired in between fire at once, in order. With
`slew`, it resumes from the time of the checkpoint and runs slightly faster until it has caught up.
The wall clock and the monotonic clocks can have different policies.

With --join, the processes take the clocks of a timeline that exists: the one that they were on, one
restored from the same checkpoint, or any if they were on none. Their clocks must not step back.

Examples:
  eigentime restore shop.checkpoint
  eigentime restore shop.checkpoint --policy catch-up
  eigentime restore shop.checkpoint --policy wall=slew,monotonic=continue
  eigentime restore worker.checkpoint --policy wall=catch-up,monotonic=continue --timeline worker
  eigentime restore worker.checkpoint --join shop";

/// Options of `eigentime checkpoint`.
#[derive(Debug, Args)]
pub struct CheckpointOptions {
    /// The timeline to checkpoint, with all its members, or the container, by its engine
    #[arg(value_name = "NAME", required_unless_present_any = ["pid", "complete", "hold"], conflicts_with = "pid")]
    pub name: Option<Name>,

    /// The process to checkpoint, with its descendants
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,

    /// The directory to create; it must not exist
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["complete", "hold"])]
    pub output: Option<PathBuf>,

    /// Leave the processes running afterwards
    #[arg(long)]
    pub leave_running: bool,

    /// Write their memory before stopping them, so that they stop for a shorter time
    #[arg(long)]
    pub pre_dump: bool,

    /// Where CRIU is, and more arguments for it
    #[command(flatten)]
    pub criu: CriuOptions,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Turn the files that CRIU has written into a checkpoint (for the command's own use)
    #[arg(long, hide = true, value_name = "DIR")]
    pub complete: Option<PathBuf>,

    /// Hold processes that CRIU has restored (for the command's own use)
    #[arg(long, hide = true, value_name = "DIR")]
    pub hold: Option<PathBuf>,
}

/// Options of `eigentime ctl snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotOptions {
    /// The timeline
    pub name: Option<Name>,

    /// The directory to create; it must not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    /// Where CRIU is, and more arguments for it
    #[command(flatten)]
    pub criu: CriuOptions,
}

/// Options of `eigentime restore`.
#[derive(Debug, Args)]
pub struct RestoreOptions {
    /// The directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// How the clocks resume: continue, catch-up, slew, or wall=POLICY,monotonic=POLICY [default:
    /// continue]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<Onward>,

    /// With `slew`, how many seconds the clocks gain or lose per second: 0.001 to 0.9 [default:
    /// 0.1]
    #[arg(long, value_name = "S", value_parser = parse_slew_rate)]
    pub slew_rate: Option<f64>,

    /// The rate at which they resume [default: the rate before]
    #[arg(long, value_name = "R", value_parser = parse_rate)]
    pub rate: Option<Rate>,

    /// Keep all clocks frozen until `eigentime ctl thaw`
    #[arg(long)]
    pub freeze: bool,

    /// The name of the restored timeline [default: its name before]
    #[arg(long, value_name = "NAME")]
    pub timeline: Option<Name>,

    /// Resume on this existing timeline, with its clocks
    #[arg(long, value_name = "NAME", conflicts_with_all = ["policy", "slew_rate", "rate", "freeze", "timeline"])]
    pub join: Option<Name>,

    /// Where CRIU is, and more arguments for it
    #[command(flatten)]
    pub criu: CriuOptions,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl RestoreOptions {
    /// The options for the clocks.
    pub fn requested(&self) -> Requested {
        Requested {
            policy: self.policy,
            slew_rate: self.slew_rate,
            rate: self.rate,
            freeze: self.freeze,
            timeline: self.timeline.clone(),
            join: self.join.clone(),
        }
    }
}

/// How CRIU is called.
#[derive(Debug, Args)]
pub struct CriuOptions {
    /// The criu executable, version 4.0 or later [default: EIGENTIME_CRIU, or else criu on PATH]
    #[arg(long, value_name = "PATH")]
    pub criu: Option<PathBuf>,

    /// An additional argument for criu, such as --tcp-established
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub criu_arg: Vec<OsString>,
}
