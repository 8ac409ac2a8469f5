//! Writes the man pages and the completions of shells below a folder, where packages have them:
//! `cargo run --package eigentime-cli --example pages DIR`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap_complete::Shell;

/// A shell, and where below `share` it looks for completions of the command.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/eigentime"),
    (Shell::Zsh, "zsh/site-functions/_eigentime"),
    (Shell::Fish, "fish/vendor_completions.d/eigentime.fish"),
];

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let share = folder.ok_or_else(|| io::Error::other("usage: pages DIR"))?.join("share");
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(eigentime_cli::definition(), &pages)?;
    for (shell, file) in SHELLS {
        write_completions(shell, &share.join(file))?;
    }
    Ok(())
}

fn write_completions(shell: Shell, file: &Path) -> io::Result<()> {
    fs::create_dir_all(file.parent().expect("it is below `share`"))?;
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut eigentime_cli::definition(), "eigentime", &mut text);
    fs::write(file, text)
}
