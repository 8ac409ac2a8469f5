"""Levels alternate, and what has failed once is not measured again."""

import unittest
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from eigenbench import levels
from eigenbench.columns import Column
from eigenbench.levels import Level
from eigenbench.processes import Deadline
from eigenbench.progress import Progress
from eigenbench.runner import Runner, Settings
from eigenbench.samples import NANOSECONDS, Probe, Samples
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Suite, Value

A, B = levels.HOST, levels.RATE_10
EFFORTS = Efforts(Effort(3, 10), Effort(1, 10))


@dataclass
class Scripted:
    """A suite in which the probe `bad` fails at level B in the second round."""

    name: str = "scripted"
    title: str = ""
    note: str = ""
    probes: tuple[Probe, ...] = tuple(
        Probe(key, key, NANOSECONDS) for key in ("good", "bad")
    )
    levels: tuple[str, ...] = (A, B)
    columns: tuple[Column, ...] = ()
    efforts: Efforts = EFFORTS
    calls: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Records what was requested."""
        assert deadline.remaining()
        self.calls.append((level.key, tuple(wanted)))
        number = [key for key, _ in self.calls].count(level.key)
        for probe in wanted:
            if (probe, level.key, number) == ("bad", B, 2):
                yield Failure(probe, "timed out")
            else:
                yield Value(probe, 1.0)


def run(
    suite: Scripted,
    absent: str = "",
    quick: bool = False,
    rounds: int | None = None,
    open_until: int = 0,
    reap: Callable[[], object] = lambda: None,
) -> Samples:
    """Runs the suite over both levels; a target is undecided before this many rounds."""
    by_key = {A: Level(A, "a", "", ((),)), B: Level(B, "b", "", ((),), absent=absent)}
    samples = Samples()
    settings = Settings(quick=quick, rounds=rounds)

    def undecided(_: Suite) -> bool:
        return len(samples.of("good", A)) < open_until

    Runner(by_key, settings, Deadline(10), Progress(), samples, undecided, reap).run(
        [suite]
    )
    return samples


class Running(unittest.TestCase):
    def test_it_goes_on_until_its_targets_are_decided(self) -> None:
        self.assertEqual(len(run(Scripted(), open_until=7).of("good", A)), 7)
        self.assertEqual(len(run(Scripted(), open_until=2).of("good", A)), 3)

    def test_who_asked_for_few_rounds_gets_no_more(self) -> None:
        quick = run(Scripted(), quick=True, open_until=7)
        few = run(Scripted(), rounds=2, open_until=7)
        self.assertEqual((len(quick.of("good", A)), len(few.of("good", A))), (1, 2))

    def test_levels_alternate_and_a_failed_probe_is_dropped(self) -> None:
        suite = Scripted()
        samples = run(suite)
        both = ("good", "bad")
        self.assertEqual(
            suite.calls,
            [(A, both), (B, both), (A, both), (B, both), (A, both), (B, ("good",))],
        )
        self.assertEqual(set(samples.of("bad", B)), {(0, 0)})
        self.assertEqual(set(samples.of("good", B)), {(0, 0), (1, 0), (2, 0)})
        self.assertEqual(samples.reason("bad", B), "timed out")

    def test_a_level_that_is_absent_is_explained_and_not_started(self) -> None:
        suite = Scripted()
        samples = run(suite, absent="not built")
        self.assertEqual({key for key, _ in suite.calls}, {A})
        self.assertEqual(samples.reason("good", B), "not built")

    def test_a_quick_run_makes_fewer_rounds(self) -> None:
        suite = Scripted()
        run(suite, quick=True)
        self.assertEqual(len(suite.calls), 2)

    def test_orphans_are_reaped_before_each_level(self) -> None:
        suite = Scripted()
        run(suite, quick=True, reap=lambda: suite.calls.append(("reap", ())))
        self.assertEqual([key for key, _ in suite.calls], ["reap", A, "reap", B])


if __name__ == "__main__":
    unittest.main()
