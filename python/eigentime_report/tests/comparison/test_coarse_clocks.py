"""Clocks that go in steps: generated values with known changes get no wrong verdict."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from eigentime_report.comparison import Outcome, parse
from eigentime_report.comparison.changes import AFTER, BEFORE, Untold, compare
from eigentime_report.comparison.judgement import verdict
from eigentime_report.results import Cell
from eigentime_report.results.cell import step_of
from eigentime_report.results.manifest import Metric
from eigentime_report.results.quantity import KINDS, Quantity
from eigentime_report.statistics import DIFFERS, UNDECIDED, Contrast

BLOCKS = 6
EACH = 40
TRIALS = 20
ALPHA = 0.05
CHANCE = 1e-3

CALLS, _, SLEEP, _ = KINDS
METRICS = [
    Metric("calls", "gettimeofday", "Duration of a call", "lower", None),
    Metric("sleep", "epoll", "Latency of a sleep", "lower", None),
]


@dataclass(frozen=True)
class Measured:
    """What is measured: how long it takes, how values scatter, and how blocks do."""

    quantity: Quantity
    centre: float
    sd: float
    blocks_sd: float

    def cell(self, lots: np.random.Generator, grid: float, change: float) -> Cell:
        blocks = np.repeat(np.arange(BLOCKS, dtype=np.int32), EACH)
        values = self.centre * (1 + change) + lots.normal(0, self.sd, blocks.size)
        values += lots.normal(0, self.blocks_sd, BLOCKS)[blocks]
        unit = 1.0 if self.quantity.kind == "sleep" else 0.001
        values = np.rint(values / (grid or unit)) * (grid or unit)
        return Cell(
            self.quantity,
            "baseline",
            "idle",
            values,
            None,
            blocks,
            served=frozenset(),
            facts={},
            step_ns=step_of(values, blocks, unit),
        )


# Steady, and scattering as much as the finer steps are wide.
CALL = Measured(CALLS.quantity({"metric": "gettimeofday"}, METRICS), 25, 0.1, 0.05)
NOISY_CALL = Measured(CALLS.quantity({"metric": "gettimeofday"}, METRICS), 25, 8, 0.5)
MISS = Measured(
    SLEEP.quantity(
        {"method": "epoll", "interval_ns": 1_000_000, "policy": "fifo:50", "slack_ns": 0}, METRICS
    ),
    50_000,
    900,
    80,
)
ALL = {"call": CALL, "noisy call": NOISY_CALL, "miss time": MISS}


STATISTIC = {"calls": "mean", "sleep": "median"}


@cache
def pairs(what: Measured, grid: float, change: float) -> Sequence[tuple[Cell, Cell, Contrast]]:
    """What was before, what afterwards, and the comparison of both, again and again."""
    statistic = STATISTIC[what.quantity.kind]
    found = []
    for trial, seed in enumerate(np.random.SeedSequence(71).spawn(TRIALS)):
        lots = np.random.default_rng(seed)
        # Whether steps hide a change hangs on where between them the values are.
        moved = replace(what, centre=what.centre * (1 + trial / 200))
        both = moved.cell(lots, grid, 0), moved.cell(lots, grid, change)
        comparison = compare(statistic, *both, confidence=1 - ALPHA)
        found.append((*both, comparison.pair(AFTER, BEFORE)))
    return found


@pytest.mark.parametrize("change", [0.0, 0.03, 0.10, 0.50])
@pytest.mark.parametrize("grid", [0, 1, 13, 100])
@pytest.mark.parametrize("what", ALL.values(), ids=ALL)
def test_no_verdict_is_wrong_more_often_than_is_said(
    what: Measured, grid: float, change: float
) -> None:
    wrong = outside = 0
    for _, _, pair in pairs(what, grid, change):
        says_more = pair.verdict == DIFFERS and (pair.difference or 0) > 0
        says_less = pair.verdict == DIFFERS and not says_more
        says_same = pair.verdict.startswith(("same", "identical"))
        wrong += says_less or (says_more and change == 0) or (says_same and change > 0)
        if pair.percent_low is not None and pair.percent_high is not None:
            outside += not pair.percent_low <= 100 * change <= pair.percent_high
    most = stats.binom.isf(CHANCE, TRIALS, ALPHA)
    assert wrong <= most
    assert outside <= most


@pytest.mark.parametrize("change", [0.0, 0.03, 0.10, 0.50])
@pytest.mark.parametrize("grid", [0, 1, 13, 100])
@pytest.mark.parametrize("what", ALL.values(), ids=ALL)
def test_no_condition_passes_or_fails_wrongly(what: Measured, grid: float, change: float) -> None:
    condition = parse("x > +5%")
    outcomes: Counter[Outcome] = Counter()
    for before, after, _ in pairs(what, grid, change):
        try:
            outcome, _ = verdict(condition, before, after, 1 - ALPHA)
        except Untold:
            outcome = Outcome.NOT_JUDGED
        outcomes[outcome] += 1
    wrong = Outcome.REACHED if change > 0.05 else Outcome.MISSED
    # Where values scatter as much as the change is, chance may hide it.
    if not (what is NOISY_CALL and change == 0.10):
        assert outcomes[wrong] <= stats.binom.isf(CHANCE, TRIALS, ALPHA), outcomes


@pytest.mark.parametrize("grid", [0, 1, 13])
def test_what_steps_do_not_hide_is_seen(grid: float) -> None:
    found = [pair.verdict for _, _, pair in pairs(MISS, grid, 0.03)]
    assert found.count(DIFFERS) > 0.9 * TRIALS
    noisy = [pair.verdict for _, _, pair in pairs(NOISY_CALL, 1, 0.5)]
    assert noisy.count(DIFFERS) > 0.9 * TRIALS
    fine = [pair.verdict for _, _, pair in pairs(CALL, 0, 0.03)]
    assert fine.count(DIFFERS) > 0.9 * TRIALS


def test_the_reason_is_the_clock() -> None:
    for before, after, pair in pairs(CALL, 13, 0.10):
        assert pair.verdict == UNDECIDED and pair.is_coarse
        assert pair.because.startswith("the clock steps by up to ")
        with pytest.raises(Untold, match="the clock steps by up to") as untold:
            verdict(parse("x > +5%"), before, after, 0.95)
        # No time is less than 0.
        assert "so the change may be anything from −" in str(untold.value)
        assert "and the limit is among that" in str(untold.value)
        assert "chance" not in str(untold.value)
        assert "−100 to +" in str(untold.value)
        with pytest.raises(Untold, match="the clock steps by up to"):
            verdict(parse("x > 30ns"), None, after, 0.95)
