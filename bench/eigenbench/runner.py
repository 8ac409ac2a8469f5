"""The order of a run: in every round each level in turn, suite by suite.

Levels alternate (A B C, A B C), so that a temporary disturbance of the machine affects all of
them. A suite whose rounds leave a target undecided continues as long as it has time.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from eigenbench.levels import Level
from eigenbench.processes import Deadline
from eigenbench.progress import Progress
from eigenbench.samples import Samples
from eigenbench.suites import Failure, Gap, Outcome, Suite, Value


@dataclass(frozen=True)
class Settings:
    """The user's settings."""

    quick: bool
    # Fewer rounds than the suite's default, if given.
    rounds: int | None


@dataclass
class Runner:
    """Measures suites at levels and keeps the results."""

    levels: Mapping[str, Level]
    settings: Settings
    deadline: Deadline
    progress: Progress
    samples: Samples
    # Whether more rounds of a suite may decide what is still undecided.
    undecided: Callable[[Suite], bool] = lambda _: False
    # Reaps orphans before each level: a change of a timeline takes longer for each process on the
    # host, and so for each zombie that earlier suites left.
    reap: Callable[[], object] = lambda: None

    def run(self, suites: Sequence[Suite]) -> None:
        """Measures every suite."""
        for suite in suites:
            self._suite(suite)
        self.progress.clear()

    def _suite(self, suite: Suite) -> None:
        efforts = suite.efforts
        effort = efforts.quick if self.settings.quick else efforts.full
        rounds = min(effort.rounds, self.settings.rounds or effort.rounds)
        goes_on = not self.settings.quick and self.settings.rounds is None
        deadline = self.deadline.within(effort.seconds)
        # The remaining probes of each level.
        wanted = {key: self._usable(suite, self.levels[key]) for key in suite.levels}
        took_s = dict.fromkeys(suite.levels, 0.0)
        for number in count():
            if number >= rounds and not (goes_on and self.undecided(suite)):
                break
            asked = [key for key in suite.levels if wanted[key]]
            # A round that cannot be finished would count only the first levels.
            if deadline.remaining() <= sum(took_s[key] for key in asked):
                break
            for key in asked:
                level = self.levels[key]
                of = f" of {rounds}" if number < rounds else ", to decide a target"
                self.progress.show(
                    f"{suite.name}: round {number + 1}{of}: {level.title}"
                )
                self.reap()
                start = time.monotonic()
                for outcome in suite.measure(level, tuple(wanted[key]), deadline):
                    self._keep(outcome, key, number, wanted[key], deadline)
                took_s[key] = time.monotonic() - start

    def _usable(self, suite: Suite, level: Level) -> list[str]:
        """The probes to measure at a level: all or none."""
        probes = [probe.key for probe in suite.probes]
        if not level.absent:
            return probes
        for probe in probes:
            self.samples.explain(probe, level.key, level.absent)
        return []

    def _keep(
        self,
        outcome: Outcome,
        level: str,
        number: int,
        wanted: list[str],
        deadline: Deadline,
    ) -> None:
        match outcome:
            case Value(probe, value, part):
                self.samples.add(probe, level, number, value, part)
            case Gap(probe, reason):
                self.samples.leave_out(probe, level, reason)
            # What the end of the suite's time has cut off has not failed.
            case Failure(probe, reason) if deadline.remaining():
                self.samples.explain(probe, level, reason)
                wanted.remove(probe)
