"""A virtual machine with programs of this host, controlled through its shell."""

import json
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from eigenbench.precision import ROOT, Failed
from eigenbench.processes import Deadline, child, run

QEMU = "qemu-system-x86_64"
SHELL = "busybox"
KERNEL = ROOT / "build" / "share" / "eigentime" / "vm" / "vmlinuz"
MACHINE = "-nodefaults -no-user-config -display none -no-reboot -machine pc -m 512"
# The kernel's messages go to the first port, the shell is on the second. A busy host is too slow
# for the check of the timer and for the watchdog of the counter.
OPTIONS = "console=ttyS0 panic=-1 rdinit=/init no_timer_check tsc=reliable"
# The shell reads from a pipe without a terminal.
INIT = f"""#!/bin/{SHELL} sh
/bin/{SHELL} --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
ifconfig lo up
exec < /dev/ttyS1 > /dev/ttyS1 2>&1
stty raw -echo
echo =0=
sh 2>&1 | cat
"""
# What the shell prints after each line: its status.
DONE = re.compile(rb"=(\d+)=\r?\n")
CALL_S = 10.0
# A timeout of 0 would mean not to wait.
SHORTEST_S = 0.001
LDD_S = 10.0


@dataclass(frozen=True)
class Accelerator:
    """What executes the code of a machine."""

    name: str
    options: str
    # How long a start may take: minutes, if KVM has no processor to itself.
    boot_s: float


# QEMU's translator uses the host's counter as the guest's, which is just as invariant; by default
# QEMU does not say so to the guest.
ACCELERATORS = (
    Accelerator("KVM", "-accel kvm -cpu host,migratable=off,+invtsc", 20.0),
    Accelerator(
        "QEMU's translator",
        "-accel tcg,thread=multi -cpu max,migratable=off,+invtsc,x-force-features=on",
        90.0,
    ),
)


@dataclass
class Guest:
    """A machine with a responding shell."""

    accelerator: str
    _shell: socket.socket
    _monitor: socket.socket
    _said: bytes = field(default=b"", init=False)

    def call(self, line: str, deadline: Deadline) -> str:
        """The output of a shell line; a line that fails is an error."""
        self._shell.sendall(f"{{ {line}\n}}; echo =$?=\n".encode())
        return self.answer(line, deadline)

    def answer(self, line: str, deadline: Deadline) -> str:
        """The output until a line is done; the first output is that of the boot."""
        try:
            while not (done := DONE.search(self._said)):
                self._shell.settimeout(max(deadline.remaining(), SHORTEST_S))
                self._said += received(self._shell)
        except OSError as error:
            raise Failed(f"virtual machine: {error}: {line}") from error
        said, self._said = self._said[: done.start()], self._said[done.end() :]
        text = said.decode(errors="replace")
        if status := int(done[1]):
            raise Failed(f"virtual machine: status {status}: {line}: {text.strip()}")
        return text

    def order(self, command: str) -> None:
        """Makes QEMU do something: `stop`, `cont`."""
        answered = b""
        try:
            self._monitor.settimeout(CALL_S)
            self._monitor.sendall(json.dumps({"execute": command}).encode() + b"\n")
            while b'"return"' not in answered and b'"error"' not in answered:
                answered += received(self._monitor)
        except OSError as error:
            raise Failed(f"QEMU: {error}: {command}") from error
        if b'"error"' in answered:
            raise Failed(f"QEMU: {command}: {answered.decode()}")


def received(end: socket.socket) -> bytes:
    """The next output."""
    some = end.recv(65_536)
    if not some:
        raise ConnectionResetError("it has ended")
    return some


@contextmanager
def guest(
    programs: Sequence[Path],
    deadline: Deadline,
    kernel: Path = KERNEL,
    append: str = "",
) -> Iterator[Guest]:
    """A machine with two processors and these programs in /bin, until the block ends."""
    for needed in QEMU, SHELL, "ldd":
        if shutil.which(needed) is None:
            raise Failed(f"no virtual machine: {needed} is not installed")
    if not kernel.exists():
        raise Failed("no virtual machine: no kernel for it, which `make vm` fetches")
    shell = Path(shutil.which(SHELL) or SHELL)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "initrd").write_bytes(archive(packed([shell, *programs], deadline)))
        reasons = []
        for accelerator in ACCELERATORS:
            try:
                booted = stack.enter_context(
                    _booted(folder, accelerator, kernel, append, deadline)
                )
            except Failed as failed:
                reasons.append(f"{accelerator.name}: {failed}")
                continue
            yield booted
            return
        raise Failed("; ".join(reasons))


@contextmanager
def _booted(
    folder: Path,
    accelerator: Accelerator,
    kernel: Path,
    append: str,
    deadline: Deadline,
) -> Iterator[Guest]:
    here = Path(tempfile.mkdtemp(dir=folder))
    command = [QEMU, *MACHINE.split(), "-smp", "2", *accelerator.options.split()]
    command += ["-kernel", str(kernel), "-initrd", str(folder / "initrd")]
    command += ["-append", f"{OPTIONS} {append}", "-serial", f"file:{here}/console"]
    command += ["-chardev", f"socket,id=shell,path={here}/shell,server=on"]
    command += ["-serial", "chardev:shell", "-qmp", f"unix:{here}/monitor,server=on"]
    booting = deadline.within(accelerator.boot_s)
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        process = stack.enter_context(child(command, errors, errors))
        sockets = []
        for name in "shell", "monitor":
            end = stack.enter_context(socket.socket(socket.AF_UNIX))
            _connect(end, here / name, process, booting)
            sockets.append(end)
        machine = Guest(accelerator.name, *sockets)
        machine.order("qmp_capabilities")
        machine.answer("its start", booting)
        yield machine


def _connect(
    end: socket.socket,
    path: Path,
    process: subprocess.Popen[bytes],
    deadline: Deadline,
) -> None:
    while deadline.remaining():
        with suppress(FileNotFoundError, ConnectionRefusedError):
            end.connect(str(path))
            return
        with suppress(subprocess.TimeoutExpired):
            raise Failed(f"QEMU ended with status {process.wait(0.05)}")
    raise Failed("QEMU: timed out")


def packed(programs: Iterable[Path], deadline: Deadline) -> dict[str, bytes]:
    """Programs in /bin, and the libraries that they are linked with, by path."""
    files = {}
    for program in programs:
        files[f"bin/{program.name}"] = program.read_bytes()
        linked = run(["ldd", str(program)], deadline.within(LDD_S))
        # It fails for static programs.
        for library in re.findall(r"(/\S+) \(0x", linked.out):
            files[library.lstrip("/")] = Path(library).read_bytes()
    return files


def archive(files: Mapping[str, bytes]) -> bytes:
    """An initial file system for Linux: a cpio archive, see its initramfs/buffer-format."""
    folders = {
        str(parent)
        for name in (*files, "dev/x", "proc/x", "sys/x", "tmp/x")
        for parent in Path(name).parents
        if parent.name
    }
    entries = [(name, 0o40755, b"") for name in sorted(folders)]
    entries += [(name, 0o100755, data) for name, data in files.items()]
    entries += [("init", 0o100755, INIT.encode()), ("TRAILER!!!", 0, b"")]
    return b"".join(_entry(*entry) for entry in entries)


def _entry(name: str, mode: int, data: bytes) -> bytes:
    path = name.encode() + b"\0"
    numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    header = b"070701" + b"".join(b"%08x" % number for number in numbers)
    return _padded(header + path) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
