//! A terminal of our own, with a program on it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::processes;
use crate::suite::Broken;

/// `O_NOCTTY`: the harness itself must not get this terminal.
const NO_CONTROLLING_TERMINAL: i32 = 0o400;

/// The terminal as a person would see it and type on it.
pub struct Terminal {
    keyboard: File,
    name: String,
    screen: String,
    incoming: Receiver<String>,
    child: Child,
}

impl Terminal {
    /// Runs a program as the leader of a new session on a new terminal.
    pub fn start(program: &Command) -> Result<Self, Broken> {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&keyboard)?;
        unlockpt(&keyboard)?;
        let name = ptsname(&keyboard, Vec::new())?.into_string()?;
        let screen = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(NO_CONTROLLING_TERMINAL)
                .open(&name)
        };
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(program.get_program())
            .args(program.get_args())
            .env("TERM", "dumb")
            .env("PS1", "$ ")
            .stdin(screen()?)
            .stdout(screen()?)
            .stderr(screen()?);
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = program.get_current_dir() {
            command.current_dir(directory);
        }
        let child = command.spawn()?;
        // The command keeps the terminal open as long as it lives.
        drop(command);
        let keyboard = File::from(keyboard);
        let mut reader = keyboard.try_clone()?;
        let (sender, incoming) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails when no process has the terminal open any more.
            while let Ok(count) = reader.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                if count == 0 || sender.send(text).is_err() {
                    break;
                }
            }
        });
        Ok(Terminal { keyboard, name, screen: String::new(), incoming, child })
    }

    /// The device's path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Types something.
    pub fn type_in(&mut self, text: &str) -> Result<(), Broken> {
        Ok(self.keyboard.write_all(text.as_bytes())?)
    }

    /// Resizes the terminal, which sends SIGWINCH to the foreground.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<(), Broken> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.keyboard, size)?)
    }

    /// Waits until this appears; earlier output is then discarded.
    pub fn expect(&mut self, wanted: &str, limit: Duration) -> Result<(), Broken> {
        self.read_until(wanted, limit).map(drop)
    }

    /// The same; returns the output up to its end.
    pub fn read_until(&mut self, wanted: &str, limit: Duration) -> Result<String, Broken> {
        let end = Instant::now() + limit;
        loop {
            if let Some(found) = self.screen.find(wanted) {
                return Ok(self.screen.drain(..found + wanted.len()).collect());
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.incoming.recv_timeout(left) {
                Ok(text) => self.screen.push_str(&text),
                Err(_) => {
                    processes::kill_tree(&mut self.child);
                    return Err(Broken(format!(
                        "{wanted:?} did not appear within {limit:?}; on the screen:\n{}",
                        self.screen
                    )));
                }
            }
        }
    }

    /// Waits for the session leader's end.
    pub fn finish(mut self, limit: Duration) -> Result<ExitStatus, Broken> {
        let status = processes::wait_for_end(&mut self.child, limit)?;
        status.ok_or_else(|| {
            processes::kill_tree(&mut self.child);
            Broken(format!("still running after {limit:?}; on the screen:\n{}", self.screen))
        })
    }
}
