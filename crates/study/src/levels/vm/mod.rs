//! A virtual machine: QEMU, a distribution's kernel, and the probe as its only program.
//!
//! - `kernel`: the kernel and its modules (`modules`).
//! - `archive`: the initramfs: the probe as `/init`, and the modules.
//! - `disk`: a disk for loads, and temporary files.
//! - `machine`: QEMU itself.
//!
//! None of it has a name in any folder, and QEMU ends with this process, however that ends.

mod archive;
mod disk;
mod kernel;
mod machine;
mod modules;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use eigentime_container::program;

pub use machine::Accelerator;

use archive::Archive;
use disk::Disk;
use kernel::Kernel;
use machine::{Machine, Parts};

use super::{Channel, Complaints, Level, Outcome, Unavailable};
use crate::stop::Stop;

/// The program.
const QEMU: &str = "qemu-system-x86_64";

/// The device of KVM.
const KVM: &str = "/dev/kvm";

/// The folder for loads in the machine.
const FOLDER: &str = "/scratch";

/// The kernel's console, and its numbers: Documentation/admin-guide/devices.txt of Linux.
const CONSOLE: (&str, [u32; 2]) = ("dev/console", [5, 1]);

/// The number of final lines reported when a machine does not start.
const LAST_LINES: usize = 8;

/// The kernel's message when it gives up.
const PANIC: &str = "Kernel panic";

/// How long the last messages of an ended machine may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The message after a request to stop.
const STOPPED: &str = "the study was asked to stop";

/// The polling interval for kernel messages and the stop request.
const GLANCE: Duration = Duration::from_millis(100);

/// The timeouts of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Patience {
    /// Until the kernel's first message. If KVM has no processor to itself and emulates one, a
    /// kernel may need minutes to unpack itself: QEMU's translator is the better choice then.
    first_word: Duration,
    /// Until the probe's greeting.
    greeting: Duration,
}

impl Accelerator {
    fn patience(self) -> Patience {
        let seconds = Duration::from_secs;
        match self {
            Self::Kvm => Patience { first_word: seconds(20), greeting: seconds(60) },
            Self::Tcg => Patience { first_word: seconds(120), greeting: seconds(300) },
        }
    }
}

/// The level.
#[derive(Debug)]
pub struct Vm {
    settings: Settings,
    /// Why KVM is unavailable here, once that was tried.
    refused: Mutex<Option<String>>,
}

/// The settings of a virtual machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The probe: a static executable.
    pub probe: PathBuf,
    /// QEMU; by default, the one on PATH.
    pub qemu: Option<PathBuf>,
    /// The kernel; by default, the one fetched by `scripts/vm.sh`, or this machine's.
    pub kernel: Option<PathBuf>,
    /// Its modules, in the order of loading; by default, those of the kernel.
    pub modules: Option<Vec<PathBuf>>,
    /// Its memory, in MiB.
    pub memory: u32,
    /// The number of processors.
    pub processors: u32,
    /// The accelerator; by default, KVM if a machine starts with it, otherwise QEMU's translator.
    pub accelerator: Option<Accelerator>,
    /// Additional kernel command line: `clocksource=acpi_pm`.
    pub append: Option<String>,
}

impl Settings {
    /// A machine with this probe, and as many processors as there are here, up to four.
    #[must_use]
    pub fn new(probe: &Path) -> Self {
        let processors = thread::available_parallelism().map_or(1, |it| it.get().min(4) as u32);
        Self {
            probe: probe.to_owned(),
            qemu: None,
            kernel: None,
            modules: None,
            memory: 256,
            processors,
            accelerator: None,
            append: None,
        }
    }
}

impl From<Settings> for Vm {
    fn from(settings: Settings) -> Self {
        Self { settings, refused: Mutex::new(None) }
    }
}

impl Vm {
    fn find_qemu(&self) -> Result<PathBuf, Unavailable> {
        let found = match &self.settings.qemu {
            Some(path) => program::is_program(path).then(|| path.clone()),
            None => program::find(QEMU),
        };
        found.ok_or_else(|| {
            let name = self.settings.qemu.as_deref().unwrap_or(Path::new(QEMU)).display();
            Unavailable::new(
                format!("{name} is not there, which runs virtual machines"),
                "install QEMU: on Debian and Ubuntu, the package qemu-system-x86",
            )
        })
    }

    /// The initramfs, packed: only the probe and modules.
    fn initramfs(&self, kernel: &Kernel) -> Result<File, Unavailable> {
        let pack = || -> io::Result<File> {
            let mut archive = Archive::new(disk::in_memory("eigentime-initramfs")?);
            archive.folder("dev")?;
            archive.terminal(CONSOLE.0, CONSOLE.1)?;
            archive.folder("modules")?;
            let mut list = String::new();
            for module in &kernel.modules {
                let name = module.file_name().unwrap_or_default().to_string_lossy();
                archive.file(&format!("modules/{name}"), &read(module)?)?;
                list.push_str(&name);
                list.push('\n');
            }
            archive.file("modules/list", list.as_bytes())?;
            archive.program("init", &read(&self.settings.probe)?)?;
            archive.finish()
        };
        pack().map_err(|cause| {
            Unavailable::new(
                format!("what the virtual machine starts with cannot be packed: {cause}"),
                "build the probe (make build), and see to it that there is memory left",
            )
        })
    }

    /// Boots with the requested accelerator; by default with KVM, or with QEMU's translator if that
    /// fails, with the reason.
    fn boot(
        &self,
        parts: &Parts<'_>,
        stop: &Stop,
    ) -> Result<(Booted, Accelerator, Option<String>), Unavailable> {
        if let Some(asked) = self.settings.accelerator {
            return Ok((boot(&Parts { accelerator: asked, ..*parts }, stop)?, asked, None));
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_none() {
            let tried = openable(Path::new(KVM)).and_then(|()| {
                boot(&Parts { accelerator: Accelerator::Kvm, ..*parts }, stop).map_err(|it| it.why)
            });
            match tried {
                Ok(booted) => return Ok((booted, Accelerator::Kvm, None)),
                // This does not concern KVM.
                Err(why) if stop.is_asked() => return Err(Unavailable::new(why, STOPPED)),
                Err(why) => *refused = Some(why),
            }
        }
        let booted = boot(&Parts { accelerator: Accelerator::Tcg, ..*parts }, stop)?;
        Ok((booted, Accelerator::Tcg, refused.clone()))
    }
}

impl Level for Vm {
    fn name(&self) -> &str {
        "vm"
    }

    fn folder(&self) -> &Path {
        Path::new(FOLDER)
    }

    fn open(&self, stop: &Stop) -> Result<Channel, Unavailable> {
        let qemu = self.find_qemu()?;
        let kernel =
            Kernel::find(self.settings.kernel.as_deref(), self.settings.modules.as_deref())?;
        let initramfs = self.initramfs(&kernel)?;
        let disk = Disk::make();
        let (initramfs_path, disk_path) =
            (disk::path_of(&initramfs), disk.as_ref().map(|it| disk::path_of(&it.file)).ok());
        let parts = Parts {
            qemu: &qemu,
            accelerator: Accelerator::Tcg,
            memory: self.settings.memory,
            processors: self.settings.processors,
            kernel: &kernel.image,
            initramfs: &initramfs_path,
            append: self.settings.append.as_deref(),
            disk: disk_path.as_deref().zip(disk.as_ref().ok().map(|it| it.is_direct)),
        };
        let began = Instant::now();
        let (booted, accelerator, refused) = self.boot(&parts, stop)?;

        let mut notes = BTreeMap::new();
        let mut note = |name: &str, text: String| drop(notes.insert(name.to_owned(), text));
        note("accelerator", accelerator.name().to_owned());
        if let Some(why) = refused {
            note("kvm", why);
        }
        note("qemu", version_of(&qemu));
        note("kernel", kernel.release.unwrap_or_else(|| kernel.image.display().to_string()));
        note("processors", self.settings.processors.to_string());
        note("memory_mib", self.settings.memory.to_string());
        note("boot_ms", began.elapsed().as_millis().to_string());
        if let Some(append) = &self.settings.append {
            note("command_line", append.clone());
        }
        note(
            "disk",
            match &disk {
                Ok(Disk { is_direct: true, .. }) => "virtio-blk, past the host's cache".to_owned(),
                Ok(_) => "virtio-blk, through the host's cache".to_owned(),
                Err(why) => format!("none: {why}"),
            },
        );
        Ok(Channel {
            to: Box::new(booted.machine_to),
            from: Box::new(booted.from),
            held: Box::new((booted.running, initramfs, disk)),
            notes,
            complaints: booted.complaints,
            outcome: Outcome::default(),
        })
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
        .map_err(|cause| io::Error::new(cause.kind(), format!("{}: {cause}", path.display())))
}

fn openable(device: &Path) -> Result<(), String> {
    let opened = OpenOptions::new().read(true).write(true).open(device);
    opened.map(drop).map_err(|cause| format!("{} cannot be opened: {cause}", device.display()))
}

/// QEMU's version in one line.
fn version_of(qemu: &Path) -> String {
    let said = Command::new(qemu).arg("--version").stdin(Stdio::null()).output();
    let said = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    said.lines().next().unwrap_or_default().to_owned()
}

/// A machine whose probe has greeted.
struct Booted {
    machine_to: std::process::ChildStdin,
    from: Greeted,
    complaints: Complaints,
    running: machine::Running,
}

/// The output of the probe, including the greeting, which has already been read.
type Greeted = BufReader<io::Chain<Cursor<Vec<u8>>, BufReader<ChildStdout>>>;

/// Starts a machine, and waits for the probe's greeting.
fn boot(parts: &Parts<'_>, stop: &Stop) -> Result<Booted, Unavailable> {
    let accelerator = parts.accelerator;
    let machine = parts.start().map_err(|cause| {
        Unavailable::new(
            format!("{} cannot be started: {cause}", parts.qemu.display()),
            "see whether it can be run",
        )
    })?;
    let Machine { to, from, complaints, silent, running } = machine;
    let (greeted, greeting) = mpsc::sync_channel(1);
    // It ends with the machine at the latest.
    thread::spawn(move || {
        let mut from = from;
        let mut line = Vec::new();
        let read = from.read_until(b'\n', &mut line);
        // Too late: the receiver is gone.
        let _ = greeted.send(read.map(|_| (line, from)));
    });
    let stopped = |what: &str| {
        let why = format!(
            "a virtual machine by {accelerator} {what}; its last words:\n{}",
            last(&complaints.text())
        );
        Unavailable::new(
            why,
            "see whether the kernel fits: it needs virtio_pci and virtio_console; or name another",
        )
    };
    let patience = accelerator.patience();
    let began = Instant::now();
    loop {
        if stop.is_asked() {
            return Err(Unavailable::new("its start was given up", STOPPED));
        }
        match greeting.recv_timeout(GLANCE) {
            Ok(Ok((line, from))) if line.ends_with(b"\n") => {
                let from = BufReader::new(Cursor::new(line).chain(from));
                return Ok(Booted { machine_to: to, from, complaints, running });
            }
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                drop(running);
                // All its output has arrived, or will at once.
                let _ = silent.recv_timeout(LAST_WORDS);
                return Err(stopped("has ended before the probe greeted"));
            }
            Err(RecvTimeoutError::Timeout) if began.elapsed() > patience.greeting => {
                return Err(stopped(&format!(
                    "has not greeted within {} s",
                    patience.greeting.as_secs()
                )));
            }
            Err(RecvTimeoutError::Timeout)
                if began.elapsed() > patience.first_word && !has_spoken(&complaints.text()) =>
            {
                let limit = patience.first_word.as_secs();
                return Err(stopped(&format!(
                    "runs so slowly that its kernel has said nothing within {limit} s"
                )));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Whether the kernel has printed a message. Its lines begin with the time, in brackets.
fn has_spoken(text: &str) -> bool {
    text.lines().any(|line| line.starts_with('[') && line.contains(']'))
}

/// The last lines, or those from a panic on: the lines after it show the location rather than the
/// cause.
fn last(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let end = lines.len().saturating_sub(LAST_LINES);
    let panic = lines.iter().position(|line| line.contains(PANIC));
    let from = panic.map_or(end, |it| it.min(end));
    lines[from..].iter().take(LAST_LINES).copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
