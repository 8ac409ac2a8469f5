//! A virtual machine ends with the process that started it, however that ends, and leaves nothing
//! behind.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use eigentime_study::levels::vm::Settings;
use rustix::process::Signal;

use super::{emulated, open};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{Watch, command_line, descendants, send, wait_readable};
use crate::suite::{Broken, Outcome, Suite};

/// With it, this program opens a virtual machine, reports it, and waits for the end of its input.
const ASKED: &str = "EIGENTIME_TESTS_HOLD_VM";

/// An emulated machine boots in seconds, or in minutes on a busy host.
const BOOT: Duration = Duration::from_secs(300);

/// The kernel ends it at once.
const SOON: Duration = Duration::from_secs(20);

/// Adds the tests.
pub fn add(suite: &mut Suite, needs: &[Need]) {
    for (name, how) in [("killed", Signal::KILL), ("terminated", Signal::TERM)] {
        suite.test(format!("vm::ends::with_its_parent_{name}"), needs, move || parent(how));
    }
    suite.test("vm::ends::when_it_is_dropped", needs, dropped);
}

/// Holds a virtual machine if this program was started to do so.
pub fn hold_if_asked() -> Option<ExitCode> {
    env::var_os(ASKED)?;
    let session = match open(emulated()) {
        Ok(session) => session,
        Err(broken) => {
            println!("{broken}");
            return Some(ExitCode::FAILURE);
        }
    };
    println!("open");
    let _ = io::stdout().flush();
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    drop(session);
    Some(ExitCode::SUCCESS)
}

fn parent(how: Signal) -> Outcome {
    let mut child = Command::new(env::current_exe()?)
        .env(ASKED, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let outcome = (|| {
        let mut output = BufReader::new(child.stdout.take().ok_or(Broken("no pipe".into()))?);
        ensure!(wait_readable(output.get_ref(), BOOT)?, "it does not boot");
        let mut line = String::new();
        output.read_line(&mut line)?;
        ensure!(line == "open\n", "instead of booting: {line}");
        let qemu = qemu_below(child.id())?;
        let watch = Watch::new(qemu)?;
        send(child.id(), how)?;
        let ended = watch.ends_within(SOON)?;
        if !ended {
            watch.kill()?;
        }
        ensure!(ended, "QEMU, process {qemu}, outlives its parent");
        Ok(())
    })();
    // It has already ended if all is well.
    let _ = child.kill();
    child.wait()?;
    outcome
}

/// The only one below a process.
fn qemu_below(pid: u32) -> Result<u32, Broken> {
    let below = descendants(pid);
    let found: Vec<u32> =
        below.iter().copied().filter(|it| command_line(*it).contains("qemu-system")).collect();
    match found[..] {
        [one] => Ok(one),
        _ => Err(Broken(format!(
            "below {pid}: {:?}",
            below.iter().map(|it| command_line(*it)).collect::<Vec<_>>()
        ))),
    }
}

/// Others may run beside it, so this one has a mark that the kernel ignores.
fn dropped() -> Outcome {
    let mark = "eigentime.test=dropped";
    let session = open(Settings { append: Some(mark.to_owned()), ..emulated() })?;
    let below = descendants(std::process::id());
    let running: Vec<u32> =
        below.into_iter().filter(|pid| command_line(*pid).contains(mark)).collect();
    ensure!(running.len() == 1, "these are the machine: {running:?}");
    let watch = Watch::new(running[0])?;
    drop(session);
    let has_ended = watch.ends_within(Duration::ZERO)?;
    if !has_ended {
        watch.kill()?;
    }
    ensure!(has_ended, "it still runs when it has been dropped");
    Ok(())
}
