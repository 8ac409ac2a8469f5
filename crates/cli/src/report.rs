//! `eigentime report`: runs the Python program `eigentime-report`, as git and cargo run their
//! subcommands.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use eigentime_container::program;

/// The program.
const PROGRAM: &str = "eigentime-report";

/// The folders to search before PATH, relative to this program's: where `make build` puts it, and
/// where `make install` does.
const FOLDERS: [&str; 2] = [".", "../lib/eigentime"];

/// How to install it.
const HELP: &str = concat!(
    "help: it is a Python package of its own, for Python 3.11 or later: `pipx install ./eigentime_report-",
    env!("CARGO_PKG_VERSION"),
    "-py3-none-any.whl`, the wheel of this release; in a clone, `make build` makes it"
);

/// The end of the help text.
pub const NOTES: &str = "\
All arguments go to the program eigentime-report, whose options `eigentime report --help` lists.

Examples:
  eigentime report results                           # the conclusions, on the terminal
  eigentime report results -o report.html            # a page with tables, tests and plots
  eigentime report results -o tables.tex -o tables.csv
  eigentime report before after --fail-if 'vdso_clock_gettime_monotonic > +5%'

Exit status: the program's; 125 if it cannot be run.";

/// Options of `eigentime report`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct ReportOptions {
    /// Folders that eigentime bench has written, and options
    // Not read from here: the parser keeps a first `--` for itself, and the program is to have all.
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Turns this process into the program, and returns an exit status only if that fails.
pub fn run() -> i32 {
    let found = beside(env::current_exe()).or_else(|| program::find(PROGRAM));
    let Some(file) = found else {
        eprintln!("eigentime: {PROGRAM} is neither with this program nor on PATH\n{HELP}");
        return i32::from(crate::FAILED);
    };
    let error = Command::new(&file).args(eigentime_supervisor::arguments().iter().skip(2)).exec();
    eprintln!("eigentime: {} cannot be run: {error}\n{HELP}", file.display());
    i32::from(crate::FAILED)
}

/// The program in the first of the folders that has it.
fn beside(own: io::Result<PathBuf>) -> Option<PathBuf> {
    let own = own.ok()?;
    let own = own.parent()?;
    let in_folder = |folder: &&str| own.join(folder).join(PROGRAM);
    FOLDERS.iter().map(in_folder).find(|file| program::is_program(file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command as Asked};

    #[test]
    fn all_arguments_are_the_programs() {
        for words in [&["--help"][..], &["-h"], &["a", "b", "--fail-if", "x > +5%"], &["--json"]] {
            let all = ["eigentime", "report"].iter().chain(words);
            let parsed = Arguments::try_parse_from(all).unwrap();
            assert!(matches!(parsed.command, Asked::Report(_)), "{parsed:?}");
        }
    }

    #[test]
    fn it_is_found_beside_and_where_it_is_installed() {
        let root = env::temp_dir().join(format!("eigentime-report-{}", std::process::id()));
        let own = root.join("bin/eigentime");
        let [beside_it, installed] =
            ["bin", "lib/eigentime"].map(|folder| root.join(folder).join(PROGRAM));
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("lib/eigentime")).unwrap();
        let found = || beside(Ok(own.clone())).map(|file| fs::canonicalize(file).unwrap());
        assert_eq!(found(), None);
        for file in [&installed, &beside_it] {
            fs::write(file, "#!/bin/sh\n").unwrap();
            assert_ne!(found().as_ref(), Some(file), "it is no program yet");
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(found().as_ref(), Some(file));
        }
        fs::remove_dir_all(root).unwrap();
        assert_eq!(beside(Err(io::ErrorKind::NotFound.into())), None);
    }
}
