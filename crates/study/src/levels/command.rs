//! A level reached through a command: `ssh host`, `kubectl exec -i pod --`, `docker exec -i name`.
//!
//! The command is followed by `sh`, and that shell reads a script which contains the probe, unpacks
//! it into a temporary folder, removes the folder and becomes the probe, with the same standard
//! input. Shells read ahead, so the first request is sent only after the greeting.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Sender};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use eigentime_container::program;
use object::{Architecture, Object};

use super::process::{self, Group};
use super::{Channel, Level, Unavailable};
use crate::stop::Stop;

/// The script, a template.
const SCRIPT: &str = include_str!("carry.sh");

/// The line that ends the packed probe.
const END: &str = "END-OF-PROBE";

/// The line length of the packed probe, which every base64 accepts.
const LINE: usize = 76;

/// The names in `uname -m` of the machines that probes are built for.
const MACHINES: [(Architecture, &str); 2] =
    [(Architecture::X86_64, "x86_64"), (Architecture::Aarch64, "aarch64")];

/// The level.
#[derive(Debug)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// The words before `sh`; at least one.
    pub prefix: Vec<String>,
    /// The command `eigentime`, which ensures that nothing of the prefix outlasts the study.
    pub eigentime: PathBuf,
    /// The probe to send there.
    pub probe: PathBuf,
    /// The folder there for the files of loads.
    pub folder: PathBuf,
}

impl Level for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn help(&self) -> &str {
        "see whether the command does this by itself: echo 'uname -m' | COMMAND sh"
    }

    fn open(&self, _: &Stop) -> Result<Channel, Unavailable> {
        let probe = fs::read(&self.probe).map_err(|cause| {
            let why = format!("{} cannot be read: {cause}", self.probe.display());
            Unavailable::new(why, "name another probe by --probe")
        })?;
        let script = script(&probe)
            .map_err(|why| Unavailable::new(why, "name a static probe by --probe"))?;
        let first = Path::new(&self.prefix[0]);
        let is_there = match self.prefix[0].contains('/') {
            true => program::is_program(first),
            false => program::find(&self.prefix[0]).is_some(),
        };
        if !is_there {
            return Err(Unavailable::new(
                format!("{} cannot be started: it is not there, or no program", self.prefix[0]),
                "see to it that it is there and may be run",
            ));
        }
        let mut command = Command::new(&self.eigentime);
        command.args(["bench", "lead", "--study", &std::process::id().to_string(), "--"]);
        command.args(&self.prefix).arg("sh");
        let mut channel = process::start(command, Group::Shared)?;
        channel.to = Box::new(Feed::begun(channel.to, script));
        let prefix = self.prefix.join(" ");
        channel.notes = BTreeMap::from([("command".to_owned(), prefix)]);
        Ok(channel)
    }
}

/// Writes in a separate thread: connecting to the other machine may take long, and the script is
/// longer than a pipe.
struct Feed(Sender<Vec<u8>>);

impl Feed {
    fn begun(mut to: Box<dyn Write + Send>, first: String) -> Self {
        let (sender, receiver) = mpsc::channel::<Vec<u8>>();
        thread::spawn(move || {
            let first = iter::once(first.into_bytes());
            for bytes in first.chain(receiver) {
                // A closed reader is detected on its output.
                if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
                    break;
                }
            }
        });
        Self(sender)
    }
}

impl Write for Feed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(bytes.to_vec());
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The script that contains a probe.
fn script(probe: &[u8]) -> Result<String, String> {
    let file = object::File::parse(probe).map_err(|error| format!("it is no probe: {error}"))?;
    let machine = MACHINES.iter().find(|(kind, _)| *kind == file.architecture());
    let (_, machine) = machine.ok_or_else(|| format!("it is for {:?}", file.architecture()))?;
    Ok(filled(machine, probe))
}

fn filled(machine: &str, probe: &[u8]) -> String {
    let packed = STANDARD.encode(probe).into_bytes();
    let lines: Vec<_> = packed.chunks(LINE).map(String::from_utf8_lossy).collect();
    SCRIPT
        .replace("@MACHINE@", machine)
        .replace("@SIZE@", &probe.len().to_string())
        .replace("@END@", END)
        .replace("@PROBE@", &lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// The output of a shell given the script with this program as the probe, and `input` after the
    /// program's first line.
    fn carried(shell: &[&str], program: &str, machine: &str) -> (String, String) {
        let mut child = Command::new(shell[0])
            .args(&shell[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = child.stdin.take().unwrap();
        to.write_all(filled(machine, program.as_bytes()).as_bytes()).unwrap();
        drop(to);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    fn machine() -> String {
        let output = Command::new("uname").arg("-m").output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn every_shell_becomes_the_probe_and_leaves_nothing() {
        // A script instead of the probe, which reports its folder and arguments. It is as long as a
        // probe, so that it does not fit into a pipe.
        let program = format!(
            "#!/bin/sh\necho \"$# $1\"; readlink /proc/$$/fd/9\nexit 0\n{}",
            "#\n".repeat(300_000)
        );
        let mut missing = Vec::new();
        for shell in [&["sh"][..], &["dash"], &["bash"], &["busybox", "sh"]] {
            if Command::new(shell[0]).arg("--help").output().is_err() {
                missing.push(shell[0].to_owned());
                continue;
            }
            let (said, errors) = carried(shell, &program, &machine());
            let (arguments, file) = said.split_once('\n').unwrap_or_else(|| panic!("{errors}"));
            assert_eq!(arguments, "1 serve", "{shell:?}");
            let file = file.trim().strip_suffix(" (deleted)").unwrap_or_else(|| panic!("{file}"));
            assert!(!Path::new(file).parent().unwrap().exists(), "{file}");
        }
        eigentime_harness::skip_if_any(&missing);
    }

    #[test]
    fn another_machine_says_what_it_is() {
        let (said, errors) = carried(&["sh"], "#!/bin/sh\n", "pdp11");
        assert_eq!(said, "");
        assert!(errors.contains(&format!("this machine is {}", machine())), "{errors}");
        assert!(errors.contains("the probe is for pdp11"), "{errors}");
    }

    #[test]
    fn only_executables_of_known_machines_are_carried() {
        assert!(script(b"#!/bin/sh\n").unwrap_err().contains("no probe"));
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(script(&own).unwrap().contains(&format!("= '{}' ]", machine())));
    }
}
