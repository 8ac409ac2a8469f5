//! Loads on a level during measurements: runs of the probe itself, beside the others.

use std::path::Path;
use std::time::Duration;

use eigentime_probe::Record;
use eigentime_probe::record;
use serde::{Deserialize, Serialize};

use crate::session::{Beside, Failure, Session};

/// How long a load may take to take effect.
const BEGINNING: Duration = Duration::from_secs(60);

/// A load.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// None: only what else runs is observed.
    Idle,
    /// Square roots in a hundred threads.
    Cpu,
    /// Direct reads from a disk.
    Io,
    /// Requests and replies over the loopback device.
    Network,
}

impl Load {
    /// All loads.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Cpu, Self::Io, Self::Network];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Cpu => "cpu",
            Self::Io => "io",
            Self::Network => "network",
        }
    }

    /// The approximate factor by which a measurement takes longer: a hundred threads share the
    /// processors with the probe.
    #[must_use]
    pub fn slowdown(self) -> u32 {
        match self {
            Self::Idle => 1,
            Self::Cpu => 8,
            Self::Io | Self::Network => 2,
        }
    }

    /// The load with this name.
    ///
    /// # Errors
    /// The names that exist.
    pub fn named(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|load| load.name() == name).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            format!("there is no load '{name}': there are {all}")
        })
    }
}

/// The result of starting a load.
pub enum Started {
    /// It works; for idle, always.
    Running(Beside),
    /// It does not work.
    Not {
        /// The reason.
        why: String,
        /// Its records so far.
        records: Vec<Record>,
    },
}

/// Starts a load, and waits for its effect on the machine. The processor is that of the
/// measurements, if the plan names one: the record says whether the disk interrupts it.
///
/// # Errors
/// If the communication with the probe fails, or the study must stop.
pub fn start(
    session: &mut Session,
    load: Load,
    folder: &Path,
    cpu: Option<u32>,
) -> Result<Started, Failure> {
    let mut arguments = vec!["load".to_owned(), load.name().to_owned()];
    if load != Load::Idle {
        arguments.extend(["--folder".to_owned(), folder.to_string_lossy().into_owned()]);
    }
    if load == Load::Io {
        let cpu = cpu.map_or_else(|| "auto".to_owned(), |cpu| cpu.to_string());
        arguments.extend(["--measured-cpu".to_owned(), cpu]);
    }
    let mut refused = None;
    let begun = session.run_beside(&arguments, BEGINNING, |record| match record {
        // Other activity on an idle machine is not ours to end: it is in the results.
        Record::Load(it) if it.is_loading || load == Load::Idle => true,
        Record::Load(record::Load { how: why, .. }) => {
            refused = Some(why.clone());
            true
        }
        Record::Skipped(skipped) => {
            refused = Some(skipped.why.clone());
            true
        }
        _ => false,
    });
    match (begun, refused) {
        (Ok(beside), None) => Ok(Started::Running(beside)),
        (Ok(beside), Some(why)) => Ok(Started::Not { why, records: session.stop(beside)? }),
        (Err(failure), _) => Err(failure),
    }
}
