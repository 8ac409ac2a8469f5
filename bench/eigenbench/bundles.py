"""The bundles of containers, and the levels at which they are made."""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from eigenbench import levels
from eigenbench.levels import DAY_S, NAMESPACE_S, RATE, Level, Promise

ANNOTATION = "io.eigentime."
WRAPPER = "eigentime-oci"

_UPTIME = f"+{NAMESPACE_S:.0f}s"
_UPTIMES = {"monotonic": _UPTIME, "boottime": _UPTIME}
_RATE = {"rate": f"{RATE:.0f}"}
# For each level: its title, what it sets beside the date, whether it sets the date, and what its
# clocks then show.
_WRAPPED: dict[str, tuple[str, dict[str, str], bool, Promise]] = {
    levels.CONTAINER_UNSET: ("nothing set", {}, False, Promise()),
    levels.CONTAINER_DATE: ("date", {}, True, Promise(DAY_S)),
    levels.CONTAINER_OFFSETS: (
        "date and uptime",
        _UPTIMES,
        True,
        Promise(DAY_S, NAMESPACE_S),
    ),
    levels.CONTAINER_RATE: ("rate 10", _RATE, False, Promise(rate=RATE)),
}
LEVELS = (levels.CONTAINER, *_WRAPPED, levels.CONTAINER_AGAIN)

# Those of a Docker container, except for the network, which is set up separately.
NAMESPACES = ("pid", "network", "ipc", "uts", "mount", "cgroup")
CAPABILITIES = ("CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE")
_PROTECTED = ("nosuid", "noexec", "nodev")
# The mount point, the type of file system, its options.
MOUNTS: tuple[tuple[str, str, Sequence[str]], ...] = (
    ("/proc", "proc", ()),
    ("/dev", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    ("/dev/pts", "devpts", ("nosuid", "noexec", "newinstance", "ptmxmode=0666")),
    ("/dev/shm", "tmpfs", (*_PROTECTED, "mode=1777", "size=65536k")),
    ("/dev/mqueue", "mqueue", _PROTECTED),
    ("/sys", "sysfs", (*_PROTECTED, "ro")),
    ("/tmp", "tmpfs", ("nosuid", "nodev", "mode=1777")),
)
MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def container_levels(wrapper: Path) -> list[Level]:
    """A container of the bare runtime, and the same with the wrapper."""
    absent = "" if os.access(wrapper, os.X_OK) else "not built"
    bare = ((),)
    return [
        Level(levels.CONTAINER, "bare runtime", "", bare),
        *(
            Level(
                key,
                f"{WRAPPER}, {title}",
                " ".join((WRAPPER, *typed(key))),
                ((str(wrapper),),),
                promise,
                absent,
            )
            for key, (title, _, _, promise) in _WRAPPED.items()
        ),
        Level(levels.CONTAINER_AGAIN, "bare runtime, once more", "", bare),
    ]


def annotations(level: str, now: datetime) -> dict[str, str]:
    """The annotations of a container at a level; the date is tomorrow's."""
    if level not in _WRAPPED:
        return {}
    _, settings, dated, _ = _WRAPPED[level]
    if dated:
        date = now.astimezone(timezone.utc) + timedelta(seconds=DAY_S)
        settings = {"date": date.strftime("%Y-%m-%dT%H:%M:%SZ"), **settings}
    return {f"{ANNOTATION}{key}": value for key, value in settings.items()}


def typed(level: str) -> list[str]:
    """The same for readers, without a date that will have passed when they read it."""
    found = annotations(level, datetime.now(timezone.utc))
    shown = {f"{ANNOTATION}date": "DATE"}
    return [f"{name}={shown.get(name, value)}" for name, value in found.items()]


def config(
    rootfs: Path, cgroup: str, args: Sequence[str], asked: dict[str, str]
) -> dict[str, object]:
    """A bundle's configuration, like the one that `runc spec` writes."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(args),
            "env": ["PATH=/"],
            "cwd": "/",
            "capabilities": {
                kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")
            },
            "noNewPrivileges": True,
        },
        "root": {"path": str(rootfs), "readonly": True},
        "hostname": "eigenbench",
        "mounts": [
            {
                "destination": where,
                "type": kind,
                "source": kind,
                "options": list(options),
            }
            for where, kind, options in MOUNTS
        ],
        "linux": {
            "cgroupsPath": f"/{cgroup}",
            "namespaces": [{"type": kind} for kind in NAMESPACES],
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
        "annotations": asked,
    }
