"""The duration of `podman run` with the runtime alone, and with the wrapper."""

import shutil
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from eigenbench import bundles
from eigenbench.columns import BESIDE_BARE, Column
from eigenbench.ground import Ground
from eigenbench.levels import Level, look, unkept
from eigenbench.processes import Deadline, run
from eigenbench.programs import Programs
from eigenbench.runtimes import Runtime
from eigenbench.samples import MILLISECONDS, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value
from eigenbench.timing import CommandError, timed

PROBE = Probe("podman", "`podman run --rm --network=none`", MILLISECONDS)
IMAGE = "localhost/eigenbench:1"
HANG_S = 15.0
EFFORTS = Efforts(Effort(21, 40), Effort(2, 6))
# Podman's own defaults require the right to raise limits. Locks are files, because shared memory
# would be shared by all of the user's podman processes.
SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
log_driver = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
"""


@dataclass(frozen=True)
class Podman:
    """Containers that are made, run and removed by one command."""

    programs: Programs
    ground: Ground
    runtime: Runtime
    # Why a level has no figures; empty if it has.
    _unkept: dict[str, str] = field(default_factory=dict)
    name: str = "podman"
    title: str = "Containers of podman, from begin to end"
    levels: tuple[str, ...] = bundles.LEVELS
    columns: tuple[Column, ...] = BESIDE_BARE
    probes: tuple[Probe, ...] = (PROBE,)
    efforts: Efforts = EFFORTS

    @property
    def note(self) -> str:
        """How this is measured."""
        return (
            "The whole command, with storage of its own on overlay and a program that "
            "ends at once; the next one starts when podman's processes have tidied up. "
            f"The runtime is {self.runtime.title}."
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The time of one container."""
        within = deadline.within(HANG_S)
        try:
            if unkept := self._checked(level, within):
                raise CommandError(unkept)
            took = timed(self._run(level, "/inside", "once"), within).took
            if not self.ground.settle(within):
                raise CommandError("podman's processes do not end")
            yield from (Value(probe, took) for probe in wanted)
        except (CommandError, OSError) as error:
            yield from (Failure(probe, str(error)) for probe in wanted)

    def _checked(self, level: Level, deadline: Deadline) -> str:
        """Why this level has no figures; checked once."""
        if level.key not in self._unkept:
            self._unkept[level.key] = self._look(level, deadline)
        return self._unkept[level.key]

    def _look(self, level: Level, deadline: Deadline) -> str:
        if shutil.which("podman") is None:
            return "podman not installed"
        if self.runtime.absent:
            return f"{self.runtime.title}: {self.runtime.absent}"
        if complaint := self._prepared(deadline):
            return complaint
        wall, monotonic = time.time(), time.monotonic()
        finished = run(self._run(level, *look("/calls", self.programs)), deadline)
        if not finished.succeeded:
            return finished.complaint
        return unkept(level.promise, finished.out, wall, monotonic)

    def _prepared(self, deadline: Deadline) -> str:
        """Builds the image, if there is none yet; returns why that failed."""
        settings = self.ground.folder / "containers.conf"
        if settings.exists():
            return ""
        settings.write_text(SETTINGS)
        archive = self.ground.folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(self.ground.rootfs, ".")
        command = self._podman("import", str(archive), IMAGE)
        finished = run(command, deadline)
        return "" if finished.succeeded else finished.complaint

    def _run(self, level: Level, *inside: str) -> list[str]:
        asked = bundles.annotations(level.key, datetime.now(timezone.utc))
        runtime = [f"--runtime={self.runtime.path}"]
        if level.prefix:
            runtime = [
                f"--runtime={level.prefix[0]}",
                f"--runtime-flag=eigentime-runtime={self.runtime.path}",
            ]
        return [
            *self._podman(*runtime, f"--runtime-flag=root={self._folder('state')}"),
            *(
                "run",
                "--rm",
                "--network=none",
                f"--cgroup-parent=/{self.ground.cgroup}",
            ),
            *(f"--annotation={name}={value}" for name, value in asked.items()),
            *(IMAGE, *inside),
        ]

    def _podman(self, *arguments: str) -> list[str]:
        settings = f"CONTAINERS_CONF={self.ground.folder / 'containers.conf'}"
        folders = {"root": "storage", "runroot": "run", "tmpdir": "tmp"}
        places = (f"--{name}={self._folder(to)}" for name, to in folders.items())
        return ["env", settings, "podman", *places, *arguments]

    def _folder(self, name: str) -> Path:
        return self.ground.folder / "podman" / name
