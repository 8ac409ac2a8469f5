"""How long a change of a named timeline takes to reach its members."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eigenbench import levels
from eigenbench.columns import Column, Percentile
from eigenbench.levels import CHANGED_NAME, Level
from eigenbench.processes import Deadline, run
from eigenbench.programs import Programs
from eigenbench.samples import MILLISECONDS, Probe
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

# Of each kind in a round, for which the members are started anew.
CHANGES = 5
HANG_S = 15.0


@dataclass(frozen=True)
class Members:
    """Those who are to notice a change."""

    key: str
    title: str
    count: int
    # What the program calls it: `waits` or `reads`.
    how: str


GROUPS = (
    Members("change-100", "100 members that wait", 100, "waits"),
    Members("change-1", "1 member that waits", 1, "waits"),
    Members("change-reads", "1 member that reads without pause", 1, "reads"),
)
# What a change is counted from, as the program calls it.
STARTS = {"command": "", "request": ", from the request"}

EFFORTS = Efforts(Effort(10, 50), Effort(2, 12))


@dataclass(frozen=True)
class Changes:
    """From `ctl` to the last member that sees the change."""

    programs: Programs
    name: str = "changes"
    title: str = "A change of a named timeline, until its last member has seen it"
    note: str = (
        "From before `eigentime ctl leap` is started to the last member's reading of "
        "the processor's counter, which no timeline scales; *from the request*: the "
        "same without the command, by a client that is running already. Half a "
        "millisecond of it is what the supervisor sets the switch ahead. Members "
        "wait in `clock_nanosleep` for a day that the leap lets be past, or read "
        "the clock until it is. Five changes of each kind for members that are "
        "started anew in each round."
    )
    levels: tuple[str, ...] = (levels.CHANGED,)
    columns: tuple[Column, ...] = (Percentile(95),)
    efforts: Efforts = EFFORTS

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each group of members and each start."""
        return tuple(
            Probe(_key(group, start), f"{group.title}{title}", MILLISECONDS)
            for group in GROUPS
            for start, title in STARTS.items()
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """A few changes for each group of members."""
        for group in GROUPS:
            probes = [_key(group, start) for start in STARTS]
            asked = [probe for probe in probes if probe in wanted]
            if not asked:
                continue
            command = [self.programs.path("changes"), level.prefix[0], CHANGED_NAME]
            command += [str(group.count), group.how, str(CHANGES)]
            finished = run(command, deadline.within(HANG_S))
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


def changes(out: str) -> Iterator[tuple[str, float]]:
    """What `changes` printed: what was counted from, and ticks."""
    for line in out.splitlines():
        start, _, ticks = line.partition("\t")
        if start in STARTS:
            yield start, float(ticks)


def _key(group: Members, start: str) -> str:
    return f"{group.key}/{start}"
