//! A QEMU process: its start and its end.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use eigentime_container::program::ends_with_caller;

use super::super::Complaints;

/// The name of the port; the probe searches for it (`init/port.rs` there).
const PORT: &str = "eigentime.probe";

/// The kernel's messages go to the first serial port, and a panic ends the machine at once. On a
/// busy host the kernel's timer check would fail because of late ticks, and panic.
const KERNEL_OPTIONS: &str = "console=ttyS0 panic=-1 rdinit=/init no_timer_check";

/// The accelerator of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// Linux's KVM.
    Kvm,
    /// QEMU's translator: slow, but available everywhere.
    Tcg,
}

impl Accelerator {
    /// Its name in the results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// QEMU's options: the accelerator, and a processor with all its features. A machine that need
    /// not migrate gets an invariant counter.
    fn options(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host,migratable=off"],
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parts of a machine.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The program.
    pub qemu: &'a Path,
    /// Its accelerator.
    pub accelerator: Accelerator,
    /// Its memory in MiB.
    pub memory: u32,
    /// The number of processors.
    pub processors: u32,
    /// The kernel's file.
    pub kernel: &'a Path,
    /// Its initramfs.
    pub initramfs: &'a Path,
    /// Additional kernel command line.
    pub append: Option<&'a str>,
    /// The disk, if any, and whether to bypass the host's cache.
    pub disk: Option<(&'a Path, bool)>,
}

impl Parts<'_> {
    /// The command: a machine with only the given devices, and without a network.
    fn command(&self) -> Command {
        let mut command = Command::new(self.qemu);
        command.args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-machine",
            "pc",
        ]);
        command.args(self.accelerator.options());
        command.args(["-m", &self.memory.to_string(), "-smp", &self.processors.to_string()]);
        command.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initramfs);
        let append = self.append.map_or_else(String::new, |more| format!(" {more}"));
        command.args(["-append", &format!("{KERNEL_OPTIONS}{append}")]);
        // The kernel's messages go to QEMU's standard error.
        command.args([
            "-chardev",
            "file,id=kernel,path=/proc/self/fd/2",
            "-serial",
            "chardev:kernel",
        ]);
        command.args(["-chardev", "stdio,id=probe,signal=off", "-device", "virtio-serial-pci"]);
        command.args(["-device", &format!("virtserialport,chardev=probe,name={PORT}")]);
        if let Some((disk, is_direct)) = self.disk {
            let cache = if is_direct { "none" } else { "writeback" };
            let disk = disk.display();
            command.args([
                "-drive",
                &format!("file={disk},format=raw,if=none,id=scratch,cache={cache}"),
            ]);
            command.args(["-device", "virtio-blk-pci,drive=scratch"]);
        }
        command
    }

    /// Starts the machine.
    ///
    /// # Errors
    /// If the program cannot be run.
    pub fn start(&self) -> io::Result<Machine> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Not in the terminal's process group: Ctrl-C is for the study, which ends it in order.
        command.process_group(0);
        // The kernel ends it with the thread that started it, which does nothing else.
        ends_with_caller(&mut command);
        let (started, has_started) = mpsc::sync_channel(1);
        let (hold, release) = mpsc::sync_channel(0);
        let guard = thread::Builder::new()
            .name("virtual-machine".into())
            .spawn(move || guard(command, &started, &release))?;
        let mut child = has_started.recv().map_err(io::Error::other)??;
        let (Some(to), Some(from), Some(errors)) = (child.0.take(), child.1.take(), child.2.take())
        else {
            return Err(io::Error::other("all three pipes were asked for"));
        };
        let complaints = Complaints::default();
        let (open, silent) = mpsc::channel();
        complaints.listen(Words { from: errors, _open: open });
        let running = Running { hold: Some(hold), guard: Some(guard) };
        Ok(Machine { to, from: BufReader::new(from), complaints, silent, running })
    }
}

/// The ends of a program's pipes.
type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

/// Starts the program and waits for its release.
fn guard(mut command: Command, started: &SyncSender<io::Result<Pipes>>, release: &Receiver<()>) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // Reports the error; if the receiver is gone, no one needs it.
            let _ = started.send(Err(error));
            return;
        }
    };
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    if started.send(Ok(pipes)).is_ok() {
        // Nothing is ever sent: the other end is dropped.
        let _ = release.recv();
    }
    end(&mut child);
}

/// Kills it: it has nothing to save.
fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// A running virtual machine.
pub struct Machine {
    /// The input of the port.
    pub to: ChildStdin,
    /// The output of the port.
    pub from: BufReader<ChildStdout>,
    /// The last messages of the kernel and QEMU.
    pub complaints: Complaints,
    /// Disconnected when there are no more of them.
    pub silent: Receiver<()>,
    /// Ends the machine when dropped.
    pub running: Running,
}

/// Standard error, with a sender that is dropped at its end.
struct Words {
    from: ChildStderr,
    _open: Sender<()>,
}

impl Read for Words {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.from.read(into)
    }
}

/// A virtual machine that is ended when this is dropped.
pub struct Running {
    hold: Option<SyncSender<()>>,
    guard: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.hold.take());
        if let Some(guard) = self.guard.take() {
            // It returns nothing.
            let _ = guard.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(qemu: &Path) -> Parts<'_> {
        Parts {
            qemu,
            accelerator: Accelerator::Tcg,
            memory: 256,
            processors: 2,
            kernel: Path::new("/a kernel"),
            initramfs: Path::new("/proc/1/fd/3"),
            append: Some("clocksource=acpi_pm"),
            disk: Some((Path::new("/proc/1/fd/4"), true)),
        }
    }

    #[test]
    fn the_command_names_all_devices_and_no_network() {
        let command = parts(Path::new("/usr/bin/qemu")).command();
        let words: Vec<_> = command.get_args().map(|it| it.to_str().unwrap()).collect();
        let after = |word: &str| words.iter().position(|it| *it == word).map(|at| words[at + 1]);
        assert!(words.contains(&"-nodefaults") && words.contains(&"-no-user-config"), "{words:?}");
        assert_eq!(after("-kernel"), Some("/a kernel"));
        assert_eq!(
            after("-append"),
            Some("console=ttyS0 panic=-1 rdinit=/init no_timer_check clocksource=acpi_pm")
        );
        assert_eq!(after("-smp"), Some("2"));
        assert!(after("-drive").is_some_and(|it| it.contains("cache=none")), "{words:?}");
        assert!(!words.iter().any(|it| it.contains("net")), "{words:?}");
    }

    /// A program instead of QEMU that prints its arguments and waits.
    #[test]
    fn what_was_started_ends_when_it_is_dropped() {
        let mut machine = Parts { qemu: Path::new("/bin/sh"), ..parts(Path::new("")) };
        machine.append = None;
        // sh reports an unknown option, and ends.
        let mut started = machine.start().unwrap();
        let mut said = String::new();
        started.from.read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
        drop(started.running);
        assert!(Parts { qemu: Path::new("/no/such/qemu"), ..machine }.start().is_err());
    }
}
