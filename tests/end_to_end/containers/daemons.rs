//! Daemons that end with the tests.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::processes;
use crate::suite::Broken;

/// How long a daemon may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(5);

/// A running daemon. It receives SIGTERM even when the tests end abnormally.
pub struct Daemon {
    child: Child,
    log: std::path::PathBuf,
}

impl Daemon {
    /// Starts it; its output goes to a file.
    pub fn start(command: &Command, log: &Path) -> Result<Self, Broken> {
        // The parent-death signal is sent when the thread that created the process has ended.
        let mut kept = Command::new("setpriv");
        kept.args(["--pdeathsig", "TERM", "--"]);
        kept.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => kept.env(name, value),
                None => kept.env_remove(name),
            };
        }
        let file = File::create(log)?;
        kept.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = spawn_to_stay(kept)?;
        Ok(Daemon { child, log: log.to_owned() })
    }

    /// Waits until the socket accepts connections.
    pub fn await_socket(&mut self, connect: impl Fn() -> io::Result<()>) -> Result<(), Broken> {
        let end = Instant::now() + PATIENCE;
        while let Err(error) = connect() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > end {
                let why = ended.map_or(error.to_string(), |status| status.to_string());
                return Err(Broken(format!("{why}; {}", self.last_words())));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        said.lines().last().unwrap_or("it said nothing").to_owned()
    }

    /// Ends it.
    pub fn stop(&mut self) -> Result<(), Broken> {
        processes::send(self.child.id(), Signal::TERM)?;
        if processes::wait_for_end(&mut self.child, PATIENCE)?.is_none() {
            processes::kill_tree(&mut self.child);
            return Err(Broken(format!("had to be killed; {}", self.last_words())));
        }
        Ok(())
    }
}

/// For [`Daemon::await_socket`].
pub fn connects(socket: &Path) -> io::Result<()> {
    UnixStream::connect(socket).map(drop)
}

type Request = (Command, Sender<io::Result<Child>>);

/// Starts a process from a thread that lives as long as the tests.
fn spawn_to_stay(command: Command) -> Result<Child, Broken> {
    static THREAD: Mutex<Option<Sender<Request>>> = Mutex::new(None);
    let gone = |_| Broken("the thread that starts daemons has ended".into());
    let requests = {
        let mut thread = THREAD.lock().map_err(|error| Broken(error.to_string()))?;
        thread
            .get_or_insert_with(|| {
                let (sender, receiver): (_, Receiver<Request>) = channel();
                thread::spawn(move || {
                    for (mut command, answer) in receiver {
                        // The caller may have given up.
                        let _ = answer.send(command.spawn());
                    }
                });
                sender
            })
            .clone()
    };
    let (answer, answered) = channel();
    requests.send((command, answer)).map_err(|error| gone(error.to_string()))?;
    Ok(answered.recv().map_err(|error| gone(error.to_string()))??)
}
