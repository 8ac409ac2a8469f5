//! Writes the man pages and the completions of shells below a folder, where packages have them:
//! `cargo run --package eigentime-cli --example pages DIR`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use eigentime_path::arguments::Arguments;

/// A shell, and where below `share` it looks for the completions of a command.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let share = folder.ok_or_else(|| io::Error::other("usage: pages DIR"))?.join("share");
    for command in [eigentime_cli::definition(), Arguments::command()] {
        write_all(command, &share)?;
    }
    Ok(())
}

fn write_all(mut command: Command, share: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let page = without_help(command.clone());
    for (shell, folder) in SHELLS {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        let file = folder.join(match shell {
            // Found by the command's name alone.
            Shell::Bash => name.clone(),
            Shell::Zsh => format!("_{name}"),
            _ => format!("{name}.{shell}"),
        });
        clap_complete::generate(shell, &mut command, &name, &mut fs::File::create(file)?);
    }
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(page, pages)
}

/// `eigentime help run` prints what the page says: pages on `help` itself say nothing.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}
