"""Two sets of results, before and after: what has changed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, expm1, hypot, log

import numpy as np

from eigentime_report import analysis, statistics, units
from eigentime_report.basics import Refused
from eigentime_report.results import Cell, Results
from eigentime_report.results.cell import BLOCK, ENOUGH_BLOCKS, Floats, things
from eigentime_report.results.manifest import Run
from eigentime_report.results.quantity import CALLS
from eigentime_report.results.samples import Key
from eigentime_report.statistics.compare import KRUSKAL_DUNN
from eigentime_report.verdicts import FEWEST_ROUNDS, ends, times_drawn

BEFORE, AFTER = "before", "afterwards"

# The names of statistics in replicates, where they differ.
NAMES: Mapping[str, str] = {"max": "maximum", "min": "minimum"}
SD = "sd"
# Quantiles are taken of all values: a replicate has too few for its tail, and a single disturbed
# block could dominate the mean of the blocks' medians.
STATISTICS = (*analysis.PLACES, SD, "mad")

# These grow or shrink with the number of samples alone.
EXTREMES = ("max", "min")
# How much that number may differ, as a ratio.
ALIKE = 1.1


class Untold(Exception):
    """Whether there is a change, or how large a value is, cannot be determined, for this reason."""


@dataclass(frozen=True)
class Measured:
    """A statistic of a cell with its interval, in nanoseconds, and the clock's resolution."""

    value: float
    low: float
    high: float
    resolution: float


@dataclass(frozen=True)
class Shift:
    """The change of a statistic, in nanoseconds.

    The interval includes what the clock cannot show (`resolution`).
    """

    before: float
    after: float
    low: float
    high: float
    resolution: float
    # The interval relative to the value before, if that is above 0.
    shares: tuple[float, float] | None = None

    @property
    def difference(self) -> float:
        """The difference, after minus before."""
        return self.after - self.before

    @property
    def lengths(self) -> tuple[float, float, float, float]:
        """The difference, its interval and the resolution of the clock."""
        return self.difference, self.low, self.high, self.resolution

    @property
    def percents(self) -> tuple[float, float, float, float]:
        """The same, in percent of the value before."""
        if self.before <= 0:
            raise Untold(
                f"it was {units.duration(self.before)} before, of which percent say nothing: "
                "a limit such as +100ns can be judged"
            )
        one = 100 / self.before
        low, high = self.shares or (self.low / self.before, self.high / self.before)
        return one * self.difference, 100 * low, 100 * high, one * self.resolution


def measure(statistic: str, cell: Cell, confidence: float) -> Measured:
    """The statistic of one cell; the maximum and the minimum are facts, not estimates."""
    if statistic in EXTREMES:
        value = getattr(cell, NAMES.get(statistic, statistic))
        return Measured(value, value, value, cell.step_ns)
    if statistic in analysis.QUANTILES:
        return _quantile(statistic, cell, confidence)
    row = replicated(statistic, cell)
    low, high = ends(_means_drawn(row), len(row), confidence)
    step = cell.resolution(statistic, row)
    return Measured(float(row.mean()), low - step, high + step, step)


def shift(statistic: str, before: Cell, after: Cell, confidence: float) -> Shift:
    """The change of the statistic from one cell to the other."""
    fewest = ENOUGH_BLOCKS if statistic in analysis.QUANTILES else FEWEST_ROUNDS
    if reason := too_few(before, after, fewest):
        raise Untold(reason)
    if statistic in analysis.QUANTILES:
        return _of_intervals(
            _quantile(statistic, before, confidence),
            _quantile(statistic, after, confidence),
            analysis.asked_of(statistic, after),
        )
    most, least = max(before.count, after.count), min(before.count, after.count)
    if statistic in EXTREMES and most > ALIKE * least:
        raise Untold(
            f"the {statistic} of more samples lies further out, and there were "
            f"{units.count(before.count)} before and {units.count(after.count)} afterwards: "
            "measure as many"
        )
    one, other = (
        replicated(statistic, it) - analysis.asked_of(statistic, it) for it in (before, after)
    )
    resolution = max(before.resolution(statistic, one), after.resolution(statistic, other))
    return _of_blocks(one, other, resolution, confidence)


def _of_blocks(before: Floats, after: Floats, step: float, confidence: float) -> Shift:
    """The change of a mean of blocks, as a difference, and as a ratio if possible."""
    rounds = min(len(before), len(after))
    one, other = _means_drawn(before, seed=1), _means_drawn(after, seed=2)
    low, high = ends(other - one, rounds, confidence)
    was, now = float(before.mean()), float(after.mean())
    shares = None
    if was > 0 and one.min() > 0:
        least, most = ends(other / one - 1, rounds, confidence)
        shares = (least - step / was, most + step / was)
    return Shift(was, now, low - step, high + step, step, shares)


def _means_drawn(row: Floats, seed: int = 0) -> Floats:
    """The mean of each of many resamples of whole blocks."""
    return times_drawn(len(row), seed=seed) @ row / len(row)


def compare(
    statistic: str, before: Cell, after: Cell, *, confidence: float, same_within: float = 0.01
) -> statistics.Comparison:
    """The comparison of both, block by block; nothing is decided from too few of them.

    Smaller units show how alike samples of a block are, not how alike runs are.
    """
    cells = {BEFORE: before, AFTER: after}
    rows = {name: replicated(statistic, it) for name, it in cells.items()}
    terms = {"alpha": 1 - confidence, "same_within": same_within}
    found = analysis.compare_cells(statistic, cells, rows, **terms)
    (pair,) = found.pairs
    reason = too_few(before, after, FEWEST_ROUNDS)
    if reason and pair.verdict != statistics.NOT_TESTED:
        pair = replace(pair, verdict=statistics.UNDECIDED, because=reason)
    return replace(found, pairs=(pair,))


def too_few(before: Cell, after: Cell, fewest: int) -> str:
    """Why nothing is decided, if a side has fewer blocks than these.

    Blocks of one run are more alike than two runs are: a few of them do not show how much
    anything varies.
    """
    blocks = [len(np.unique(it.blocks)) for it in (before, after)]
    if min(blocks) >= fewest:
        return ""
    return (
        f"it was measured in {things(blocks[0], 'block')} before and {blocks[1]} afterwards, "
        f"and it takes {fewest} on each side to tell a change from drift: "
        f"`eigentime bench --blocks {ENOUGH_BLOCKS}`"
    )


def middles(comparison: statistics.Comparison) -> list[float]:
    """What the difference of each pair is taken of: means, or medians if ranks were tested."""
    by_ranks = comparison.chosen == KRUSKAL_DUNN
    return [it.median if by_ranks else it.mean for it in comparison.groups]


def replicated(statistic: str, cell: Cell) -> Floats:
    """The statistic of each block."""
    if statistic != SD or cell.histogram:
        row: Floats = getattr(cell.by(BLOCK), NAMES.get(statistic, statistic))
        return row
    parts = [cell.values[cell.blocks == block] for block in np.unique(cell.blocks)]
    return np.array([part.std(ddof=1) for part in parts if len(part) > 1])


def _quantile(statistic: str, cell: Cell, confidence: float) -> Measured:
    values, weights, blocks = analysis.sample(cell)
    found = statistics.quantile_interval(
        values, analysis.QUANTILES[statistic], weights, blocks, confidence=confidence
    )
    if found.low is None or found.high is None:
        raise Untold(_more_values(statistic, cell, confidence))
    # As shown elsewhere: for readings, interpolated between the counter's steps.
    value = cell.median if statistic == "median" else found.value
    low, high = min(found.low, value), max(found.high, value)
    step = cell.resolution(statistic, np.array([value]))
    return Measured(value, low - step, high + step, step)


def _more_values(statistic: str, cell: Cell, confidence: float) -> str:
    """How many values are needed so that some lie on both sides of a quantile, with that
    confidence."""
    q = analysis.QUANTILES[statistic]
    needed = units.count(ceil(log((1 - confidence) / 2) / log(max(q, 1 - q))))
    option = "--records" if cell.quantity.kind == CALLS else "--count"
    return (
        f"{units.count(cell.count)} values are too few for the {statistic}: it takes {needed} at "
        f"{100 * confidence:.4g} %, so that some lie beyond it: `eigentime bench {option} N`, "
        f"{needed} or more in all blocks together"
    )


def _of_intervals(before: Measured, after: Measured, asked_ns: int) -> Shift:
    """The change between two intervals, as a difference, and as a ratio if possible."""
    sides = [np.array([it.low, it.value, it.high]) - asked_ns for it in (before, after)]
    low, high = _apart(*sides)
    shares = None
    if min(it[0] for it in sides) > 0:
        # The logarithm of a ratio is a difference, and no ratio is below 0.
        least, most = (expm1(end) for end in _apart(*np.log(sides)))
        shares = (least, most)
    was, now = (float(it[1]) for it in sides)
    return Shift(was, now, low, high, max(before.resolution, after.resolution), shares)


def _apart(before: Floats, after: Floats) -> tuple[float, float]:
    """The interval of a difference, from those of its two sides (Zou and Donner 2008)."""
    difference = after[1] - before[1]
    below = hypot(after[1] - after[0], before[2] - before[1])
    above = hypot(after[2] - after[1], before[1] - before[0])
    return float(difference - below), float(difference + above)


# What runs are expected to have in common, or differ in on purpose, by the fields of `Run`.
CIRCUMSTANCES = ("machine", "kernel", "eigentime", "probe", "preset")


class ComparisonError(Refused):
    """Two sets of results that cannot be compared, with the reason and the remedy."""


@dataclass(frozen=True, eq=False)
class Change(analysis.Compared):
    """A quantity at one level under one load, before and after."""

    level: str
    load: str
    # Of all values, before and after, without the requested part.
    medians: tuple[float, float]

    @property
    def sides(self) -> tuple[int, int]:
        """The number of blocks before and after."""
        before, after = self.comparison.groups
        return before.n, after.n

    @property
    def is_decidable(self) -> bool:
        """Whether each side has enough blocks to distinguish a change from drift."""
        return min(self.sides) >= FEWEST_ROUNDS

    @property
    def pair(self) -> statistics.Contrast:
        """The change, after against before."""
        return self.against_base(AFTER)


@dataclass(frozen=True, eq=False)
class Changes:
    """The changes from one set of results to another."""

    before: Results
    after: Results
    changes: tuple[Change, ...]
    confidence: float
    same_within: float

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that were measured in both."""
        return tuple(dict.fromkeys(it.quantity.kind for it in self.changes))

    def of(self, kind: str) -> tuple[Change, ...]:
        """The changes of a kind."""
        return tuple(it for it in self.changes if it.quantity.kind == kind)

    @cached_property
    def circumstances(self) -> tuple[tuple[str, str, str], ...]:
        """The differences between the runs: name, before, after."""
        pairs = (
            (name, _told(self.before.runs, name), _told(self.after.runs, name))
            for name in CIRCUMSTANCES
        )
        return tuple(pair for pair in pairs if pair[1] != pair[2])

    @cached_property
    def unmatched(self) -> tuple[str, ...]:
        """Quantities that only one side has, or has at other levels or loads, in words."""
        both = {(it.quantity, it.level, it.load) for it in self.changes}
        return tuple(
            sentence
            for results, when in ((self.before, BEFORE), (self.after, AFTER))
            if (sentence := _alone({*results.measured} - both, when))
        )


def compare_results(
    before: Results, after: Results, *, confidence: float = 0.95, same_within: float = 0.01
) -> Changes:
    """Compares what both have measured at the same levels under the same loads."""
    known = {run.run for run in before.runs}
    if same := [run for run in after.runs if run.run in known]:
        raise ComparisonError(
            f"{before.folders[0]} and {after.folders[0]} hold the same run, of {same[0].begin}\n"
            "help: name two runs; a run that is compared with itself does not differ"
        )
    common = set(before.measured)
    own = [at for at in after.measured if at in common]
    changes = tuple(_change(at, before, after, confidence, same_within) for at in own)
    if not changes:
        raise ComparisonError(
            f"{before.folders[0]} and {after.folders[0]} have no measurement in common: "
            f"{_summary(before)}; {_summary(after)}\n"
            "help: measure both by the same arguments; a level that is called differently can be "
            "named by --level NAME=command:…"
        )
    return Changes(before, after, changes, confidence, same_within)


def _change(
    at: Key, before: Results, after: Results, confidence: float, same_within: float
) -> Change:
    quantity, level, load = at
    one, other = (cell for it in (before, after) if (cell := it.find(*at)))
    statistic = analysis.COMPARED[quantity.kind]
    least = min(one.by(BLOCK), other.by(BLOCK), key=lambda it: it.count)
    return Change(
        quantity=quantity,
        factor="level",
        held=f"{level}, {load}",
        statistic=statistic,
        unit=BLOCK,
        why=least.why,
        blocks=least.blocks,
        comparison=compare(statistic, one, other, confidence=confidence, same_within=same_within),
        level=level,
        load=load,
        medians=(one.median - quantity.asked_ns, other.median - quantity.asked_ns),
    )


def _told(runs: tuple[Run, ...], name: str) -> str:
    return ", ".join(dict.fromkeys(str(getattr(run, name)) for run in runs))


def _alone(places: set[Key], when: str) -> str:
    if not places:
        return ""
    name, level, load = min((it.name, level, load) for it, level, load in places)
    more = f", and {len(places) - 1} more" if len(places) > 1 else ""
    return f"Measured {when} only: {name} at {level}, {load}{more}."


def _summary(results: Results) -> str:
    kinds = dict.fromkeys(quantity.kind for quantity in results.quantities)
    return (
        f"{results.folders[0]} has {', '.join(kinds) or 'no quantities'} at levels "
        f"{', '.join(results.levels)}, under {', '.join(results.loads)}"
    )
