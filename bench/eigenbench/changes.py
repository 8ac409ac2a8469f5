"""How long a change of a named timeline takes to reach its members."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from eigenbench import levels
from eigenbench.columns import Column, Percentile
from eigenbench.ground import Ground
from eigenbench.levels import CHANGED_NAME, Level
from eigenbench.processes import Deadline, run
from eigenbench.programs import Programs
from eigenbench.samples import MILLISECONDS, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

# Of each kind in a round, for which the members are started anew.
CHANGES = 5
HANG_S = 45.0
# Starting a thousand programs takes a while.
HANG_MANY_S = 60.0


@dataclass(frozen=True)
class Members:
    """Those who are to notice a change."""

    key: str
    title: str
    count: int
    # What the program calls it: `waits` or `reads`.
    how: str = "waits"
    # Whether there is one more member, frozen by its control group.
    frozen: bool = False


GROUPS = (
    Members("change-100", "100 members that wait", 100),
    Members(
        "change-100-frozen", "100 that wait, beside a frozen one", 100, frozen=True
    ),
    Members("change-1", "1 member that waits", 1),
    Members("change-reads", "1 member that reads without pause", 1, "reads"),
)
MANY = (
    Members("change-1000", "1,000 members that wait", 1000),
    Members(
        "change-1000-frozen", "1,000 that wait, beside a frozen one", 1000, frozen=True
    ),
)
# What a change is counted from, as the program calls it.
STARTS = {"command": "", "request": ", from the request"}

NOTE = (
    "From before `eigentime ctl leap` is started to the last member's reading of "
    "the processor's counter, which no timeline scales; *from the request*: the "
    "same without the command, by a client that is running already. Half a "
    "millisecond of it is what the supervisor sets the switch ahead. Members "
    "wait in `clock_nanosleep` for a day that the leap lets be past, or read "
    "the clock until it is. Five changes of each kind for members that are "
    "started anew in each round. A frozen member (`cgroup.freeze`) is not counted."
)


@dataclass(frozen=True)
class Changes:
    """From `ctl` to the last member that sees the change."""

    programs: Programs
    there: Ground
    name: str
    title: str
    note: str
    groups: tuple[Members, ...]
    hang_s: float
    efforts: Efforts
    levels: tuple[str, ...] = (levels.CHANGED,)
    columns: tuple[Column, ...] = (Percentile(95),)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each group of members and each start."""
        return tuple(
            Probe(_key(group, start), f"{group.title}{title}", MILLISECONDS)
            for group in self.groups
            for start, title in STARTS.items()
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """A few changes for each group of members."""
        for group in self.groups:
            probes = [_key(group, start) for start in STARTS]
            asked = [probe for probe in probes if probe in wanted]
            if not asked:
                continue
            command = [self.programs.path("changes"), level.prefix[0], CHANGED_NAME]
            command += [str(group.count), group.how, str(CHANGES)]
            try:
                with ExitStack() as stack:
                    if group.frozen:
                        command.append(str(stack.enter_context(self.there.freezer())))
                    finished = run(command, deadline.within(self.hang_s))
            except OSError as error:
                yield from (Failure(probe, f"no freezer: {error}") for probe in asked)
                continue
            yield from self._values(group, asked, finished.out)
            if not finished.succeeded:
                yield from (Failure(probe, finished.complaint) for probe in asked)

    def _values(
        self, group: Members, asked: Sequence[str], out: str
    ) -> Iterator[Outcome]:
        for part, (start, ticks) in enumerate(changes(out)):
            probe = _key(group, start)
            if probe in asked:
                yield Value(probe, self.programs.to_ns(ticks), part)


def change_suites(programs: Programs, there: Ground) -> list[Changes]:
    """Few members, and many, which take longer to start."""
    return [
        Changes(
            programs,
            there,
            name="changes",
            title="A change of a named timeline, until its last member has seen it",
            note=NOTE,
            groups=GROUPS,
            hang_s=HANG_S,
            efforts=Efforts(Effort(10, 60), Effort(2, 14)),
        ),
        Changes(
            programs,
            there,
            name="changes-1000",
            title="A change of a named timeline of 1,000 members",
            note="As for fewer members.",
            groups=MANY,
            hang_s=HANG_MANY_S,
            efforts=Efforts(Effort(3, 50), Effort(1, 20)),
        ),
    ]


def changes(out: str) -> Iterator[tuple[str, float]]:
    """What `changes` printed: what was counted from, and ticks."""
    for line in out.splitlines():
        start, _, ticks = line.partition("\t")
        if start in STARTS:
            yield start, float(ticks)


def _key(group: Members, start: str) -> str:
    return f"{group.key}/{start}"
