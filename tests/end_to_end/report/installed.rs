//! `make install` puts `eigentime report` where every user can run it, even after the tree was
//! moved, and `make uninstall` removes all of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{LIMIT, program, results, text};
use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::workspace;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let mut needs = vec![program(), Need::Tool("make")];
    suite.test("report::installed::and_removed", &needs, removed);
    needs.extend([Need::Root, Need::Tool("setpriv")]);
    suite.test("report::installed::for_every_user", &needs, for_every_user);
}

fn make(target: &str, root: &Path) -> Outcome {
    let mut command = Command::new("make");
    command.arg("--silent").arg("--directory").arg(workspace::root()).arg(target);
    command.arg(format!("DESTDIR={}", root.display()));
    // These come from running the tests with `make`.
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    run(&mut command, LIMIT)?.expect_code(0)?;
    Ok(())
}

fn for_every_user() -> Outcome {
    let scratch = workspace::scratch()?;
    let (first, second) = (scratch.join("first place"), scratch.join("second"));
    make("install", &first)?;
    fs::rename(&first, &second)?;
    fs::set_permissions(&second, fs::Permissions::from_mode(0o755))?;
    let own = second.join("usr/local/bin/eigentime");
    let file = workspace::scratch()?.join("report.html");
    let [folder, _] = results()?;
    for arguments in [&["--version"][..], &[text(folder), "-o", text(&file)]] {
        let mut command = User::Nobody.wrap(&own);
        command.env("HOME", workspace::scratch()?);
        run(command.arg("report").args(arguments), LIMIT)?.expect_code(0)?;
    }
    let left = second.join("usr/local/lib/eigentime/report/lib");
    ensure!(left.is_dir() && !left.join("python3/site-packages/pip").exists(), "no environment");
    ensure!(fs::metadata(&file)?.len() > 0, "the page is empty");
    Ok(())
}

fn removed() -> Outcome {
    let root = workspace::scratch()?.join("a root");
    make("install", &root)?;
    let private = root.join("usr/local/lib/eigentime");
    ensure!(private.join("eigentime-report").exists(), "the program is not there");
    ensure!(!root.join("usr/local/bin/eigentime-report").exists(), "it is there twice");
    make("uninstall", &root)?;
    ensure!(!private.exists(), "something is left");
    Ok(())
}
