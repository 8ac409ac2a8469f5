//! Servers on the host and on timelines.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::driver::look;
use crate::shared::{COLD, HOT, Mapping};
use crate::span::Scale;

/// How long servers take to start, with the site made hot, on a host that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a timeline is made.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub name: &'static str,
    pub options: &'static [&'static str],
    /// Without a name it cannot be changed.
    pub is_named: bool,
    /// Does it stand still until it is thawed?
    pub is_frozen: bool,
    /// May anyone set its clock?
    pub is_settable: bool,
    pub scale: Scale,
}

const fn rate(name: &'static str, options: &'static [&'static str], virt: i64, per: i64) -> Config {
    let scale = Scale { virt, per, most: if virt > per { virt } else { 1 } };
    Config { name, options, is_named: true, is_frozen: false, is_settable: false, scale }
}

/// All timelines on which all rows are compared.
pub const CONFIGS: [Config; 8] = [
    rate("identity", &[], 1, 1),
    Config { is_named: false, ..rate("offset", &["--offset", "+400d"], 1, 1) },
    rate("rate_0.5", &["--rate", "0.5"], 1, 2),
    rate("rate_10", &["--rate", "10"], 10, 1),
    rate("rate_1000", &["--rate", "1000"], 1000, 1),
    Config { is_frozen: true, ..rate("frozen", &["--freeze"], 1, 1) },
    rate("traced", &["--rate", "10", "--traced"], 10, 1),
    Config { is_named: false, ..rate("unnamed", &["--rate", "10"], 10, 1) },
];

/// Whether calls go straight to the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sites {
    Trapped,
    Rewritten,
}

/// Where servers are.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    Host,
    Timeline(&'a Config, Sites),
}

/// The command under test.
pub fn eigentime() -> OsString {
    std::env::var_os("EIGENTIME_BIN").unwrap_or_else(|| "eigentime".into())
}

/// Some servers in one place.
pub struct Servers {
    pub mappings: Vec<Mapping>,
    name: Option<String>,
    directory: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
}

fn scratch() -> PathBuf {
    use std::sync::atomic::AtomicU32;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("eigentime-compare-{}-{number}", std::process::id()))
}

impl Servers {
    pub fn start(place: Place, count: usize) -> Result<Self, String> {
        let directory = scratch();
        let show = |error: std::io::Error| format!("{}: {error}", directory.display());
        fs::create_dir(&directory).map_err(show)?;
        let mut mappings = Vec::new();
        for number in 0..count {
            mappings.push(Mapping::create(&directory.join(number.to_string())).map_err(show)?);
        }
        let own = std::env::current_exe().map_err(show)?;
        let mut name = None;
        let mut command = match place {
            Place::Host => Command::new(&own),
            Place::Timeline(config, sites) => {
                let mut command = Command::new(eigentime());
                command.arg("run").args(config.options);
                if config.is_named {
                    // The directory's name is no other's.
                    let own = directory.file_name().unwrap_or_default().to_string_lossy();
                    let own = own.trim_start_matches("eigentime-").to_owned();
                    command.args(["--timeline", &own]);
                    name = Some(own);
                }
                if config.is_settable {
                    command.args(["--settable-by", "anyone"]);
                }
                if sites == Sites::Trapped {
                    command.arg("--no-rewrite");
                }
                command.arg("--").arg(&own);
                command
            }
        };
        command.arg("serve").arg(&directory).arg(count.to_string()).arg("warm");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let input = child.stdin.take();
        let servers = Self { mappings, name, directory, child, input };
        servers.await_start(match place {
            Place::Timeline(_, Sites::Rewritten) => HOT,
            _ => COLD,
        })?;
        Ok(servers)
    }

    fn await_start(&self, expected: u32) -> Result<(), String> {
        for mapping in &self.mappings {
            let ready = || mapping.get().ready.load(Ordering::Acquire);
            if !look(PATIENCE, || ready() != 0) {
                return Err("no server starts".to_owned());
            }
            let ready = ready();
            if ready != expected {
                let is = if ready == HOT { "is" } else { "is not" };
                return Err(format!("the site of the calls {is} rewritten"));
            }
        }
        Ok(())
    }

    /// `eigentime ctl VERB NAME WORDS`.
    pub fn ctl(&self, verb: &str, words: &[&str]) -> Result<(), String> {
        let name = self.name.as_deref().ok_or("a timeline without a name cannot be changed")?;
        let output = Command::new(eigentime())
            .args(["ctl", verb, name])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("eigentime ctl {verb}: {error}"))?;
        if output.status.success() {
            Ok(())
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("eigentime ctl {verb} {name} {words:?}: {said}"))
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // The end of its input ends it, and with it all servers.
        drop(self.input.take());
        if !look(PATIENCE, || !matches!(self.child.try_wait(), Ok(None))) {
            // It is ended the hard way, of which nothing can be said any more.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if self.name.is_some()
            && let Err(why) = self.ctl("rm", &[])
        {
            eprintln!("{why}");
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("{}: {error}", self.directory.display());
        }
    }
}
