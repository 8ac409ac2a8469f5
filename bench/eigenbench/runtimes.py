"""The OCI runtimes of this machine, and containers made with them."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from eigenbench import bundles, machine
from eigenbench.ground import Ground
from eigenbench.levels import Level
from eigenbench.processes import Deadline, Finished, run
from eigenbench.timelines import runtime_directory
from eigenbench.timing import CommandError, timed

KNOWN = ("runc", "crun", "youki")
# Additional runtimes, separated like the folders of a search path.
VARIABLE = "EIGENTIME_BENCH_RUNTIMES"

# No operation on a container takes a tenth of this.
HANG_S = 6.0


@dataclass(frozen=True)
class Runtime:
    """An OCI runtime."""

    # Such as `runc`, or `runc-2` for another one with that name.
    key: str
    path: Path
    version: str
    # Why it cannot be used here; empty if it can.
    absent: str = ""

    @property
    def title(self) -> str:
        """Its name and version."""
        return f"{self.path.name} {self.version}".strip()


# For a program without a version.
NONE = Runtime("runc", Path("runc"), "", "not installed")


def found() -> list[Runtime]:
    """The known ones on the search path, and those named by the environment."""
    on_path = [Path(path) for name in KNOWN if (path := shutil.which(name))]
    named = [Path(path) for path in os.environ.get(VARIABLE, "").split(":") if path]
    unlike = {path.resolve(): path for path in [*on_path, *named]}.values()
    keys = keyed([path.name for path in unlike])
    return [
        Runtime(key, path, machine.version(str(path), "--version"))
        for key, path in zip(keys, unlike, strict=True)
    ]


def keyed(names: Sequence[str]) -> list[str]:
    """Unique names: the second `runc` is `runc-2`."""
    return [
        f"{name}-{count}" if (count := names[: at + 1].count(name)) > 1 else name
        for at, name in enumerate(names)
    ]


def tried(runtime: Runtime, bare: Level, ground: Ground) -> Runtime:
    """The runtime, with the reason if it cannot make containers here."""
    if os.geteuid() != 0:
        return replace(runtime, absent="needs root")
    with container(runtime, bare, ground, ("/inside", "once")) as tested:
        finished = tested.run(Deadline(HANG_S))
    return (
        runtime if finished.succeeded else replace(runtime, absent=finished.complaint)
    )


@contextmanager
def container(
    runtime: Runtime, level: Level, ground: Ground, args: Sequence[str]
) -> Iterator["Container"]:
    """A bundle for a container, which is removed together with the container."""
    name = ground.name()
    bundle = ground.folder / name
    bundle.mkdir()
    asked = bundles.annotations(level.key, datetime.now(timezone.utc))
    config = bundles.config(ground.rootfs, name, args, asked)
    (bundle / "config.json").write_text(json.dumps(config))
    base = [str(runtime.path)]
    if level.prefix:
        base = [*level.prefix, f"--eigentime-runtime={runtime.path}"]
    base += ["--root", str(ground.folder / f"state-{runtime.key}")]
    made = Container(name, bundle, tuple(base))
    # Each call asks all timelines for the container: there are no others there.
    with runtime_directory(ground.folder):
        try:
            yield made
        finally:
            run(made.command("delete", "--force", name), Deadline(HANG_S))
            ground.reap()


@dataclass(frozen=True)
class Container:
    """A container that may not exist yet."""

    name: str
    bundle: Path
    # The runtime, with its options.
    base: tuple[str, ...]

    def command(self, *arguments: str) -> list[str]:
        """A call of the runtime."""
        return [*self.base, *arguments]

    def run(self, deadline: Deadline) -> Finished:
        """Creates it and waits for the end of its program."""
        return run(self.command("run", *self._bundle(), self.name), deadline)

    def started(self, deadline: Deadline) -> tuple[int, int]:
        """Creates and starts it: nanoseconds until it has started, and until its program's byte.

        The program writes that byte to its standard output and keeps running.
        """
        out, end = os.pipe()
        with open(out, "rb", buffering=0) as pipe:
            with open(end, "wb", buffering=0) as inherited:
                create = self.command("create", *self._bundle(), self.name)
                created = timed(create, deadline, inherited)
            start = self.command("start", self.name)
            started = timed(start, deadline, watched=pipe.fileno())
            if not pipe.read(1):
                raise CommandError("its program has not run")
        return started.end - created.begin, started.readable - created.begin

    def entered(self, args: Sequence[str], deadline: Deadline) -> int:
        """Nanoseconds that a program takes to start in it and end."""
        return timed(self.command("exec", self.name, *args), deadline).took

    def _bundle(self) -> tuple[str, str]:
        return "--bundle", str(self.bundle)
