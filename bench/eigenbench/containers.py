"""The cost of making containers with the wrapper, and of reading clocks in them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from eigenbench import bundles, levels, runtimes
from eigenbench.columns import BESIDE_BARE, Column, Times
from eigenbench.ground import Ground
from eigenbench.levels import Level, look, unkept
from eigenbench.podman import Podman
from eigenbench.processes import Deadline, run
from eigenbench.programs import Programs, best_batches
from eigenbench.runtimes import HANG_S, Runtime, container
from eigenbench.samples import MILLISECONDS, NANOSECONDS, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Suite, Value
from eigenbench.timing import CommandError

# The measurements made with each runtime.
STEPS = {
    "create": "create and start",
    "byte": "create and start, until the program's first byte",
    "exec": "`exec` of a program that ends at once",
}
# The number in each round, since one container serves them all.
EXECS = 3
READS = {
    "realtime": "`clock_gettime(CLOCK_REALTIME)`",
    "monotonic": "`clock_gettime(CLOCK_MONOTONIC)`",
}
BATCH_NS = 5e6


NOTE = (
    "From before `create` is started to the end of `start`, or to the byte that the "
    "container's program writes first; `exec` from before it is started to its end, "
    f"{EXECS} in each round. The container has a root file system of two static "
    "programs, read-only, and six namespaces of its own. *added*: the median of what "
    "each round took more than the bare runtime."
)
EFFORTS = Efforts(Effort(25, 100), Effort(3, 12))
READ_COLUMNS: tuple[Column, ...] = (
    Times("× host", levels.HOST),
    Times("× bare", levels.CONTAINER),
)
READ_EFFORTS = Efforts(Effort(21, 25), Effort(3, 4))


def container_suites(programs: Programs, bare: Level, ground: Ground) -> list[Suite]:
    """Containers with every runtime that works here; reads and podman with the first."""
    tried = [runtimes.tried(runtime, bare, ground) for runtime in runtimes.found()]
    usable = [runtime for runtime in tried if not runtime.absent]
    left_out = [runtime for runtime in tried if runtime.absent]
    shown = usable or left_out[:1] or [runtimes.NONE]
    looks = Looks(programs, ground)
    return [
        Containers(looks, tuple(shown), tuple(left_out)),
        Reads(looks, shown[0]),
        Podman(programs, ground, shown[0]),
    ]


@dataclass(frozen=True)
class Looks:
    """Whether containers show what their levels promise; each is checked once."""

    programs: Programs
    ground: Ground
    _found: dict[tuple[str, str], str] = field(default_factory=dict)

    def unkept(self, runtime: Runtime, level: Level, deadline: Deadline) -> str:
        """Why a container of this level has no figures; empty if it has them."""
        if runtime.absent:
            return runtime.absent
        asked = runtime.key, level.key
        if asked not in self._found:
            args = look("/calls", self.programs)
            wall, monotonic = time.time(), time.monotonic()
            with container(runtime, level, self.ground, args) as looking:
                finished = looking.run(deadline.within(HANG_S))
            self._found[asked] = (
                unkept(level.promise, finished.out, wall, monotonic)
                if finished.succeeded
                else finished.complaint
            )
        return self._found[asked]


@dataclass(frozen=True)
class Containers:
    """Containers made, started and entered with OCI runtimes."""

    looks: Looks
    runtimes: tuple[Runtime, ...]
    left_out: tuple[Runtime, ...]
    name: str = "containers"
    title: str = "Containers made and entered, by the runtime alone and wrapped"
    levels: tuple[str, ...] = bundles.LEVELS
    columns: tuple[Column, ...] = BESIDE_BARE
    efforts: Efforts = EFFORTS

    @property
    def note(self) -> str:
        """How this is measured, and which runtimes do not work here."""
        left_out = (
            f" Left out: {runtime.title} ({runtime.absent})."
            for runtime in self.left_out
        )
        return NOTE + "".join(left_out)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each step with each runtime."""
        return tuple(
            Probe(f"{step}/{runtime.key}", f"{runtime.title}: {title}", MILLISECONDS)
            for runtime in self.runtimes
            for step, title in STEPS.items()
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """The times of a container of each runtime: made, started, entered, removed."""
        for runtime in self.runtimes:
            asked = [step for step in STEPS if f"{step}/{runtime.key}" in wanted]
            if not asked:
                continue
            try:
                for step, took, part in self._steps(runtime, level, deadline):
                    if step in asked:
                        yield Value(f"{step}/{runtime.key}", took, part)
            except (CommandError, OSError) as error:
                for step in asked:
                    yield Failure(f"{step}/{runtime.key}", str(error))

    def _steps(
        self, runtime: Runtime, level: Level, deadline: Deadline
    ) -> Iterator[tuple[str, float, int]]:
        if unkept := self.looks.unkept(runtime, level, deadline):
            raise CommandError(unkept)
        within = deadline.within(HANG_S)
        with container(runtime, level, self.looks.ground, ("/inside",)) as made:
            created, byte = made.started(within)
            yield "create", created, 0
            yield "byte", byte, 0
            for part in range(EXECS):
                yield "exec", made.entered(("/inside", "once"), within), part


@dataclass(frozen=True)
class Reads:
    """Clock reads by a container's program."""

    looks: Looks
    runtime: Runtime
    name: str = "container-reads"
    title: str = "Clock reads in a container, through the vDSO"
    levels: tuple[str, ...] = (levels.HOST, *bundles.LEVELS)
    columns: tuple[Column, ...] = READ_COLUMNS
    efforts: Efforts = READ_EFFORTS

    @property
    def note(self) -> str:
        """How it is measured."""
        return (
            "Best of five batches in each round, by a static program, which on the "
            f"host is the same. The runtime is {self.runtime.title}."
        )

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each clock."""
        return tuple(
            Probe(f"contained/{name}", title, NANOSECONDS)
            for name, title in READS.items()
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Starts the program once for all clocks."""
        programs, ground = self.looks.programs, self.looks.ground
        names = {probe.rpartition("/")[2]: probe for probe in wanted}
        args = (str(programs.to_ticks(BATCH_NS)), *names)
        within = deadline.within(HANG_S)
        if level.key == levels.HOST:
            finished = run([str(ground.rootfs / "calls"), *args], within)
        elif unkept := self.looks.unkept(self.runtime, level, deadline):
            yield from (Failure(probe, unkept) for probe in wanted)
            return
        else:
            inside = ("/calls", *args)
            with container(self.runtime, level, ground, inside) as reading:
                finished = reading.run(within)
        for name, ticks in best_batches(finished.out):
            probe = names.pop(name)
            if isinstance(ticks, str):
                yield Failure(probe, ticks)
            else:
                yield Value(probe, programs.to_ns(ticks))
        yield from (Failure(probe, finished.complaint) for probe in names.values())
