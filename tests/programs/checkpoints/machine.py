"""A virtual machine by QEMU's translator that stands for another host: another kernel, another uptime, another day, and
the files that it is given. It is spoken to over a port of its own.
"""

import os
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from moving import Wrong, ensure

# What `scripts/vm.sh` has fetched.
KERNEL = Path(os.environ.get("EIGENTIME_VM", ""))
# All that the translator has but MPX: the dynamic loader saves all registers that there are in the room that it found
# to be needed where the program started, and few processors have those.
CPU = "max,mpx=off"
BUSYBOX = Path("/usr/bin/busybox")
MEMORY_MIB, PROCESSORS, DISK_MIB = 512, 1, 512
# Directories that many systems have as links to others.
LINKED = ["bin", "lib", "lib64", "sbin"]

# In the file system that the kernel starts with: it mounts the disk, for which it needs modules.
FIRST = """#!/bin/busybox sh
for place in dev:devtmpfs proc:proc sys:sysfs; do
    /bin/busybox mount -t ${place#*:} ${place#*:} /${place%:*}
done
for module in $(/bin/busybox cat /modules/list); do /bin/busybox insmod /modules/$module; done
until [ -e /dev/vda ]; do /bin/busybox usleep 10000; done
/bin/busybox mount -t ext4 /dev/vda /disk
exec /bin/busybox switch_root /disk /init
"""

# On the disk: it does what it is told, a line at a time, and answers with the status, the length of the output, and
# that.
SECOND = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin
for place in dev:devtmpfs proc:proc sys:sysfs run:tmpfs; do
    mount -t ${place#*:} ${place#*:} /${place%:*}
done
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
until port=$(ls /dev/vport* 2>/dev/null) && [ -n "$port" ]; do usleep 10000; done
exec 3<>$port
echo ready >&3
while read -r line <&3; do
    sh -c "$line" >/run/said 2>&1 </dev/null 3<&-
    echo $? $(stat -c %s /run/said) >&3
    cat /run/said >&3
done
poweroff -f
"""


def archive(members):
    """The kernel's format of an initial file system, cpio's newc: names, modes, contents and numbers of devices."""
    made = b""
    for number, (name, mode, content, device) in enumerate(
        [*members, ("TRAILER!!!", 0, b"", (0, 0))]
    ):
        named = name.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(named), 0]
        made += b"070701" + "".join(f"{field:08x}" for field in fields).encode() + named
        made += b"\0" * (-len(made) % 4) + content
        made += b"\0" * (-len(made) % 4)
    return made


def libraries(program):
    """What a dynamic program is linked with, as it looks for it."""
    told = subprocess.run(["ldd", program], check=False, capture_output=True, text=True)
    words = told.stdout.split()
    return {Path(word) for word in words if word.startswith("/")}


class Source(NamedTuple):
    """What its kernel counts time by."""

    name: str
    machine: list[str]
    kernel: str


# The vDSO does not read it.
HPET = Source("hpet", ["-accel", "tcg,thread=multi"], "clocksource=hpet")
# Of another frequency: it counts nanoseconds, four of which an instruction takes, however busy this machine is.
TSC_MHZ = 1000
TSC = Source(
    "tsc",
    ["-accel", "tcg,thread=single", "-icount", "shift=2,sleep=on"],
    "tsc=reliable",
)


class Files:
    """The files of a machine, below a directory."""

    def __init__(self, root):
        self.root = root
        for name in ["dev", "proc", "sys", "run", "tmp", "etc", "usr"]:
            (root / name).mkdir(parents=True)
        for name in LINKED:
            place = Path("/", name)
            if place.is_symlink():
                (root / name).symlink_to(os.readlink(place))
            target = root / (os.readlink(place) if place.is_symlink() else name)
            target.mkdir(parents=True, exist_ok=True)

    def add(self, path):
        """One of this machine, where it is here; a directory with all that it has."""
        path = Path(os.path.abspath(path))
        real = path.resolve()
        target = self.root / real.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if real.is_dir():
            shutil.copytree(real, target, symlinks=True, dirs_exist_ok=True)
        elif not target.exists():
            shutil.copy2(real, target)
        name = path.parent.resolve() / path.name
        if name != real:
            link = self.root / name.relative_to("/")
            if not link.is_symlink():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(real)

    def add_program(self, path):
        for one in [path, *libraries(path)]:
            self.add(one)

    def add_script(self, name, text):
        path = self.root / name
        path.write_text(text)
        path.chmod(0o755)


class Machine:
    """One that runs, and what is done in it."""

    def __init__(self, files, date, source, memory=MEMORY_MIB):
        files.root.joinpath("bin").joinpath("sh").unlink(missing_ok=True)
        files.add_script("init", SECOND)
        shutil.copy(BUSYBOX, files.root / "bin/busybox")
        disk, initial = Path("machine.disk"), Path("machine.initial")
        with disk.open("wb") as made:
            made.truncate(DISK_MIB << 20)
        make = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal"]
        subprocess.run([*make, "-d", files.root, disk], check=True, env=with_tools())
        initial.write_bytes(archive(self.first_members()))
        self.log = Path("machine.log")
        words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot"]
        words += ["-display", "none", "-machine", "pc"]
        words += [*source.machine, "-cpu", CPU]
        words += ["-m", str(memory), "-smp", str(PROCESSORS), "-rtc", f"base={date}"]
        words += ["-kernel", KERNEL / "vmlinuz", "-initrd", initial, "-append"]
        words += [f"console=ttyS0 panic=-1 no_timer_check quiet {source.kernel}"]
        words += ["-serial", f"file:{self.log}", "-device", "virtio-serial-pci"]
        words += ["-chardev", "stdio,id=port,signal=off"]
        words += ["-device", "virtserialport,chardev=port,name=test"]
        words += ["-drive", f"file={disk},format=raw,if=none,id=disk,cache=unsafe"]
        words += ["-device", "virtio-blk-pci,drive=disk"]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        greeting = self.process.stdout.readline()
        ensure(greeting == b"ready\n", f"it does not start: {greeting} {self.said()}")

    @staticmethod
    def first_members():
        directory, program, plain = 0o40755, 0o100755, 0o100644
        for name in ["dev", "proc", "sys", "bin", "disk", "modules"]:
            yield name, directory, b"", (0, 0)
        yield "dev/console", 0o20600, b"", (5, 1)
        yield "bin/busybox", program, BUSYBOX.read_bytes(), (0, 0)
        yield "init", program, FIRST.encode(), (0, 0)
        modules = KERNEL / "modules"
        names = [
            name
            for part in ("list", "criu")
            for name in (modules / part).read_text().split()
            if not name.startswith("eigentime")
        ]
        yield "modules/list", plain, "\n".join(names).encode(), (0, 0)
        for name in names:
            yield f"modules/{name}", plain, (modules / name).read_bytes(), (0, 0)

    def said(self):
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    def attempt(self, line):
        """Has a line done by the shell; its status and what it has said."""
        ensure("\n" not in line, line)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise Wrong(f"it has ended in '{line}': {self.said()}")
        status, length = (int(word) for word in answer.split())
        return status, self.process.stdout.read(length)

    def do(self, line, status=0):
        found, said = self.attempt(line)
        text = said.decode(errors="replace")
        ensure(found == status, f"{line}: {found}: {text}")
        return text

    def lines(self, path):
        text = self.do(f"cat '{path}'")
        return text[: text.rfind("\n") + 1].splitlines()

    def fetch(self, path):
        """Brings a directory of its here, to the same place."""
        status, content = self.attempt(f"tar -c -C / '{str(path).lstrip('/')}'")
        ensure(status == 0, f"{path}: {content[-500:]}")
        with tarfile.open(fileobj=BytesIO(content)) as found:
            found.extractall("/")

    def end(self):
        self.process.stdin.close()
        ensure(self.process.wait(60) == 0, self.said())


def with_tools():
    """Where the tools of file systems are, too."""
    return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
