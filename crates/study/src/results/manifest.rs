//! `manifest.json`: what was measured where, by what, and with what result.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use eigentime_probe::metrics::{Metric, of_a_study};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::levels::LevelFacts;
use crate::load::Load;
use crate::plan::Plan;
use crate::summary::Summary;

/// Its file name.
pub const FILE: &str = "manifest.json";

/// The version of the format that this code writes.
pub const FORM: u32 = 1;

/// The manifest of a results folder.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub form: u32,
    /// The meaning of the names in rows, with column and unit. Empty in folders of earlier
    /// versions.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// The runs whose measurements are in the tables; several after `eigentime bench merge`.
    pub runs: Vec<Run>,
}

/// A run of `eigentime bench`, which may have been interrupted and continued.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its ID in rows.
    pub run: String,
    /// The machine and the programs that measured.
    pub by: By,
    /// The plan.
    pub plan: Plan,
    /// Its state.
    pub state: State,
    /// The times at which it ran.
    pub sessions: Vec<Session>,
    /// The properties of the levels, by name.
    pub levels: BTreeMap<String, LevelFacts>,
    /// The number of steps of the plan, at the available levels.
    pub steps: usize,
    /// The number of those that are done.
    pub steps_done: usize,
    /// What could not be measured, and why.
    pub skipped: Vec<Skip>,
    /// What failed in the last session: it is retried when the run is continued.
    pub failed: Vec<Skip>,
    /// The numbers of the table on the terminal.
    pub summary: Summary,
}

/// The machine and the programs that measure: only the same ones can continue a run.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    /// The name of the machine: its host name, or the one given by --machine.
    pub machine: String,
    /// Its kernel: `Linux 6.18.44 x86_64`.
    pub kernel: String,
    /// The version of Eigentime.
    pub eigentime: String,
    /// The SHA-256 of the probe: `sha256:` and what sha256sum(1) prints for it.
    pub probe: String,
}

/// The state of a run.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has started, but has not ended properly.
    Running,
    /// It was interrupted.
    Interrupted,
    /// Something failed, which is retried when the run is continued.
    Incomplete,
    /// Everything that can be measured has been measured.
    Complete,
}

/// A time at which a run was in progress, in RFC 3339.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its beginning.
    pub begin: String,
    /// Its end; null if it has not ended properly.
    pub end: Option<String>,
}

/// Something that was not measured.
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Skip {
    /// The level.
    pub level: String,
    /// The load; null: all of them.
    pub load: Option<Load>,
    /// The metric, method, source or load, or the probe's arguments.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl Manifest {
    /// The manifest of these runs.
    #[must_use]
    pub fn of(runs: Vec<Run>) -> Self {
        Self { form: FORM, metrics: of_a_study().cloned().collect(), runs }
    }

    /// The manifest of a folder; None if it has none.
    ///
    /// # Errors
    /// If it cannot be read, or has another format.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Form {
            form: u32,
        }
        let path = folder.join(FILE);
        let bad = |why: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Form { form } = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if form != FORM {
            return Err(bad(format!("its form is {form}, and this version knows {FORM}")));
        }
        serde_json::from_str(&text).map(Some).map_err(|error| bad(error.to_string()))
    }

    /// Writes it atomically.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let unfinished = folder.join(format!("{FILE}.unfinished"));
        let mut to = io::BufWriter::new(fs::File::create(&unfinished)?);
        serde_json::to_writer_pretty(&mut to, self)?;
        to.write_all(b"\n")?;
        to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(unfinished, folder.join(FILE))?;
        fs::File::open(folder)?.sync_all()
    }
}

impl By {
    /// This program on this machine; `machine` is the name to use instead of the host name.
    ///
    /// # Errors
    /// If the probe cannot be read.
    pub fn here(machine: Option<&str>, probe: &Path) -> io::Result<Self> {
        let told = nix::sys::utsname::uname()?;
        let [system, release, architecture, host] =
            [told.sysname(), told.release(), told.machine(), told.nodename()]
                .map(|word| word.to_string_lossy().into_owned());
        let probe = fs::read(probe)?;
        let sum = digest(&SHA256, &probe);
        let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            machine: machine.map_or(host, str::to_owned),
            kernel: format!("{system} {release} {architecture}"),
            eigentime: env!("CARGO_PKG_VERSION").to_owned(),
            probe: format!("sha256:{sum}"),
        })
    }

    /// The differences from another, a line each.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        [
            ("machine", &self.machine, &other.machine),
            ("kernel", &self.kernel, &other.kernel),
            ("eigentime", &self.eigentime, &other.eigentime),
            ("probe", &self.probe, &other.probe),
        ]
        .into_iter()
        .filter(|(_, one, other)| one != other)
        .map(|(name, one, other)| format!("{name}: {one} there, {other} here"))
        .collect()
    }
}

/// The current time, in RFC 3339.
#[must_use]
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
