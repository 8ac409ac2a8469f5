"""The machine of a run, as far as it matters for the figures."""

import hashlib
import os
import platform
import re
import shutil
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from eigenbench.processes import Deadline, run

CLOCKSOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
# Whether the scheduler shares out processors between sessions first; the default.
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
SWITCH = {"0": "off", "1": "on"}
ASK_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Machine:
    """What a reader needs to judge whether figures are comparable with theirs."""

    cpu: str
    cores: int
    architecture: str
    kernel: str
    clocksource: str
    autogroup: str
    virtualized: str
    counter: str
    date: str
    load_before: str

    @classmethod
    def here(cls, ticks_per_s: float) -> "Machine":
        """This machine, now."""
        cpuinfo = _content(Path("/proc/cpuinfo"))
        return cls(
            cpu=_cpu_model(cpuinfo),
            cores=len(os.sched_getaffinity(0)),
            architecture=platform.machine(),
            kernel=platform.release(),
            clocksource=_content(CLOCKSOURCE).strip() or "unknown",
            autogroup=SWITCH.get(_content(AUTOGROUP).strip(), "unknown"),
            virtualized=_virtualized(cpuinfo),
            counter=f"{ticks_per_s / 1e6:.3f} MHz",
            date=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            load_before=load(),
        )


def load() -> str:
    """The load average of the last minute."""
    return f"{os.getloadavg()[0]:.2f}"


def version(*command: str) -> str:
    """The version that a tool prints; empty if there is no such tool."""
    number = re.search(r"\d+(\.\d+)+\S*", _said(*command))
    return number.group() if number else ""


def fingerprint(file: Path) -> str:
    """Identifies the build of a program; empty if there is no such file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    except OSError:
        return ""


def _said(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    finished = run(command, Deadline(ASK_TIMEOUT_S))
    return finished.out or finished.err


def _cpu_model(cpuinfo: str) -> str:
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "Hardware"):
            return value.strip()
    return "unknown"


def _virtualized(cpuinfo: str) -> str:
    tool = "systemd-detect-virt"
    machine = _said(tool, "--vm").strip()
    container = _said(tool, "--container").strip()
    if not machine:
        machine = "yes" if " hypervisor" in cpuinfo else "unknown"
    parts = ["no" if machine == "none" else f"virtual machine ({machine})"]
    if container not in ("", "none"):
        parts.append(f"container ({container})")
    return ", ".join(parts)


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
