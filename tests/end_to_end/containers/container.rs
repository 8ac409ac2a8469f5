//! A container of one test, which is removed with it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{Finished, run};
use crate::containers::commandline::LIMIT;
use crate::containers::engine::{Engine, Exec, printed};
use crate::containers::spec::Spec;
use crate::named::shown::Shown;
use crate::session::Session;
use crate::suite::{Broken, Outcome};
use crate::workspace;

/// How long a condition may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns a name that no container had.
pub fn new_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("et-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A profile that forbids some calls, including those with which one process enters another.
pub fn profile() -> Result<PathBuf, Broken> {
    let path = workspace::scratch()?.join("profile.json");
    fs::write(
        &path,
        r#"{
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{
                "names": ["mkdir", "mkdirat", "ptrace", "memfd_create", "seccomp",
                          "process_vm_readv", "process_vm_writev"],
                "action": "SCMP_ACT_ERRNO"
            }]
        }"#,
    )?;
    Ok(path)
}

/// Polls until a condition holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> Result<bool, Broken>) -> Outcome {
    let limit = PATIENCE * 3;
    let end = Instant::now() + limit;
    while !holds()? {
        if Instant::now() > end {
            return Err(Broken(format!("not within {limit:?}: {what}")));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// A running container, which is removed when dropped.
pub struct Container<'a> {
    engine: &'a dyn Engine,
    pub name: String,
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        self.engine.remove(&self.name);
    }
}

impl<'a> Container<'a> {
    /// Starts one in the background.
    pub fn start(engine: &'a dyn Engine, spec: &Spec) -> Result<Self, Broken> {
        let container = Container { engine, name: new_name() };
        run(&mut engine.start(&container.name, spec)?, LIMIT)?.expect_code(0)?;
        Ok(container)
    }

    /// Starts one that serves, and waits until it is ready.
    pub fn serve(engine: &'a dyn Engine, spec: &Spec) -> Result<Self, Broken> {
        let container = Self::start(engine, spec)?;
        container.await_output("ready")?;
        Ok(container)
    }

    /// Prepares one to be run in the foreground.
    pub fn foreground(engine: &'a dyn Engine, spec: &Spec) -> Result<(Self, Command), Broken> {
        let container = Container { engine, name: new_name() };
        let command = engine.run(&container.name, spec)?;
        Ok((container, command))
    }

    /// Starts one whose first process reports its clocks.
    pub fn talk(engine: &'a dyn Engine, spec: Spec) -> Result<(Session, Self), Broken> {
        let spec = Spec { command: vec!["/opt/reads".into()], ..spec };
        let (container, command) = Self::foreground(engine, &spec)?;
        Ok((Session::start_within(LIMIT, command)?, container))
    }

    /// Starts another program in it that does.
    pub fn talk_too(&self) -> Result<Session, Broken> {
        let mut command = self.engine.exec(&self.name, Exec::Talking);
        command.arg("/opt/reads");
        Session::start_within(LIMIT, command)
    }

    /// Runs a program in it.
    pub fn exec(&self, words: &[&str]) -> Result<Finished, Broken> {
        self.exec_by(Exec::Plain, words)
    }

    /// Runs a program in it in another way.
    pub fn exec_by(&self, how: Exec, words: &[&str]) -> Result<Finished, Broken> {
        run(self.engine.exec(&self.name, how).args(words), LIMIT)
    }

    /// Its output so far.
    pub fn output(&self) -> Result<String, Broken> {
        Ok(run(&mut self.engine.logs(&self.name), LIMIT)?.output())
    }

    /// Waits until its output contains this text.
    pub fn await_output(&self, text: &str) -> Outcome {
        let mut last = String::new();
        wait_until(&format!("{} says {text}", self.name), || {
            last = self.output()?;
            Ok(last.contains(text))
        })
        .map_err(|broken| Broken(format!("{broken}, but {last:?}")))
    }

    /// Its ID.
    pub fn id(&self) -> Result<String, Broken> {
        self.engine.id(&self.name)
    }

    /// The process ID of its first process.
    pub fn init(&self) -> Result<u32, Broken> {
        self.engine.init(&self.name)
    }

    /// Pauses or resumes it.
    pub fn pause(&self, is_paused: bool) -> Outcome {
        run(&mut self.engine.pause(&self.name, is_paused), LIMIT)?.expect_code(0)?;
        Ok(())
    }

    /// Sends a signal to its first process.
    pub fn signal(&self, signal: &str) -> Outcome {
        run(&mut self.engine.signal(&self.name, signal), LIMIT)?.expect_code(0)?;
        Ok(())
    }
}

/// Runs a container to its end.
pub fn run_to_end(engine: &dyn Engine, spec: &Spec) -> Result<Finished, Broken> {
    let (_container, mut command) = Container::foreground(engine, spec)?;
    run(&mut command, LIMIT)
}

/// Runs `eigentime ctl WORDS` as an engine's user, whatever its exit status.
pub fn ctl(engine: &dyn Engine, words: &[&str]) -> Result<Finished, Broken> {
    run(engine.ctl()?.args(words), LIMIT)
}

/// The same, which must succeed; returns its output.
pub fn ctl_done(engine: &dyn Engine, words: &[&str]) -> Result<String, Broken> {
    printed(&ctl(engine, words)?)
}

/// The state of a timeline.
pub fn show(engine: &dyn Engine, name: &str) -> Result<Shown, Broken> {
    let text = ctl_done(engine, &["show", name, "--json"])?;
    serde_json::from_str(&text).map_err(|error| Broken(format!("{error} in\n{text}")))
}
