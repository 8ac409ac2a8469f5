//! `eigentime setup`.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use eigentime_container::program;
use eigentime_container::setup::{self, Action, Caller, ENGINES, Engine, Plan};
use serde::Serialize;

/// The exit status if the entry is not as requested.
const NOT_DONE: i32 = 1;

/// The program that the entries name.
const OCI: &str = "eigentime-oci";

/// The end of the help text.
pub const NOTES: &str = "\
The change is shown first. On a terminal, you are asked before anything is written.
The old file is copied to FILE.before-eigentime; --remove restores it.
With --trust-environment, the entry names a script beside FILE that passes this option to
eigentime-oci.

Examples:
  sudo eigentime setup docker
  eigentime setup podman --dry-run
  sudo eigentime setup docker --trust-environment
  sudo eigentime setup containerd --remove

Exit status: 0; 1 if the request failed; 125 if the arguments are wrong.";

/// Options of `eigentime setup`.
#[derive(Debug, Args)]
pub struct SetupOptions {
    /// The engine
    #[arg(value_enum)]
    engine: EngineName,

    /// Remove the entry
    #[arg(long, conflicts_with = "runtime")]
    remove: bool,

    /// Also obey environment variables of containers (EIGENTIME_DATE and so on), which an image may
    /// set; without this option, only annotations count
    #[arg(long, conflicts_with = "remove")]
    trust_environment: bool,

    /// Only show the change
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// The engine's configuration file [default: its usual place]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The eigentime-oci that the entry names [default: the one beside this program, or on PATH]
    #[arg(long, value_name = "PATH")]
    runtime: Option<PathBuf>,
}

/// The supported engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    Podman,
    Docker,
    Containerd,
}

impl EngineName {
    fn engine(self) -> &'static Engine {
        let name = self.to_possible_value().expect("every engine has a name");
        let engine = ENGINES.iter().find(|engine| engine.name == name.get_name());
        engine.expect("every engine is in the table")
    }
}

/// The result for an engine's file.
#[derive(Debug, Serialize)]
struct Outcome {
    engine: &'static str,
    file: PathBuf,
    /// Whether there is anything to change.
    change: bool,
    /// Whether it was written, or removed.
    written: bool,
    /// Whether no file is left.
    gone: bool,
    /// The program that the entry names, unless it is removed.
    runtime: Option<PathBuf>,
    /// The backup of the previous file.
    backup: Option<PathBuf>,
    diff: String,
    /// What makes it take effect, and other notes.
    notes: Vec<String>,
}

/// Adds or removes the entry, and returns the exit status.
pub fn run(options: &SetupOptions) -> i32 {
    match set_up(options) {
        Ok(outcome) => {
            if options.json {
                let text = serde_json::to_string_pretty(&outcome).expect("outcomes are plain data");
                println!("{text}");
            } else {
                tell(&outcome, options);
            }
            if outcome.change && !outcome.written && !options.dry_run { NOT_DONE } else { 0 }
        }
        Err(reason) => {
            eprintln!("eigentime: {reason}");
            NOT_DONE
        }
    }
}

fn set_up(options: &SetupOptions) -> Result<Outcome, String> {
    let engine = options.engine.engine();
    let caller = Caller::this();
    let file = match &options.config {
        Some(file) => file.clone(),
        None => (engine.file)(&caller).ok_or(
            "cannot tell where this user's settings are: HOME is not set\n\
             help: name the file by --config",
        )?,
    };
    let oci = match options.remove {
        true => None,
        false => Some(runtime(options.runtime.as_deref())?),
    };
    // The script calls it with the option for that.
    let trusting = oci.as_deref().filter(|_| options.trust_environment);
    let script = setup::trust::plan(&file, trusting).map_err(|error| error.to_string())?;
    let runtime = if trusting.is_some() { Some(script.file.clone()) } else { oci };
    let action = runtime.as_deref().map_or(Action::Remove, Action::Add);
    let plan = setup::plan(engine, &file, action).map_err(|error| error.to_string())?;
    let change = plan.changes() || script.changes();
    let changed = [&plan, &script].into_iter().filter(|plan| plan.changes());
    let diff = changed.map(Plan::diff).collect::<String>();
    if change && !options.json {
        print!("{diff}");
    }
    let write = change && !options.dry_run && (options.yes || agreed(&file)?);
    let backup = match write {
        true => carry_out(&plan, &script).map_err(|error| error.to_string())?,
        false => None,
    };
    let notes = notes(engine, &caller, &plan, options);
    Ok(Outcome {
        engine: engine.name,
        file,
        change,
        written: write,
        gone: plan.after.is_none(),
        runtime,
        backup,
        diff,
        notes,
    })
}

/// Writes both, so that the entry never names a missing script.
fn carry_out(plan: &Plan, script: &Plan) -> Result<Option<PathBuf>, setup::Error> {
    let write_entry = || match plan.changes() {
        true => plan.carry_out(),
        false => Ok(None),
    };
    if script.after.is_some() {
        script.carry_out()?;
        return write_entry();
    }
    let backup = write_entry()?;
    script.carry_out()?;
    Ok(backup)
}

/// The program that the entry names: the requested one, or else the one beside this program, or
/// else on PATH.
fn runtime(asked: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(asked) = asked {
        let whole = std::path::absolute(asked)
            .map_err(|error| format!("cannot tell where {} is: {error}", asked.display()))?;
        return Some(whole).filter(|file| program::is_program(file)).ok_or_else(|| {
            format!("{} is not a program\nhelp: name the file of {OCI}", asked.display())
        });
    }
    beside_or_on_path().ok_or_else(|| {
        format!(
            "{OCI} is neither beside this program nor on PATH\n\
             help: install it there, or name it with --runtime"
        )
    })
}

/// The `eigentime-oci` that belongs to this program.
pub fn beside_or_on_path() -> Option<PathBuf> {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(OCI));
    beside.filter(|file| program::is_program(file)).or_else(|| program::find(OCI))
}

/// Asks the user at the terminal, if there is one.
fn agreed(file: &Path) -> Result<bool, String> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Ok(true);
    }
    eprint!("\nChange {}? [y/N] ", file.display());
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.map_err(|error| format!("cannot read the answer: {error}"))?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn notes(engine: &Engine, caller: &Caller, plan: &Plan, options: &SetupOptions) -> Vec<String> {
    let caution = match &plan.after {
        Some(text) if !options.remove => (engine.caution)(caller, &plan.file, text),
        _ => None,
    };
    let notes: &[&str] = match (plan.changes(), options.remove) {
        (false, _) => &[],
        (true, false) => &[engine.once_added, engine.usage],
        (true, true) => &[engine.once_removed],
    };
    notes.iter().map(|note| (*note).to_owned()).chain(caution).collect()
}

fn tell(outcome: &Outcome, options: &SetupOptions) {
    let file = outcome.file.display();
    let made = if outcome.gone { "removed" } else { "written" };
    let done = match (outcome.change, options.remove) {
        (false, true) => format!("{file} has no entry eigentime: nothing to do"),
        (false, false) => format!("{file} has this entry already: nothing to do"),
        (true, _) if options.dry_run => format!("{file}: not {made} (--dry-run)"),
        (true, _) if !outcome.written => format!("{file}: not {made}"),
        (true, _) => match &outcome.backup {
            Some(backup) => format!("{file}: {made}; what was there is in {}", backup.display()),
            None => format!("{file}: {made}"),
        },
    };
    println!("{}{done}", if outcome.change { "\n" } else { "" });
    if outcome.change && !outcome.written && !options.dry_run {
        return;
    }
    for note in &outcome.notes {
        println!("{note}");
    }
}
