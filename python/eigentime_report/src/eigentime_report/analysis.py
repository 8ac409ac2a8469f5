"""All comparisons of a set of results, made once and shared by tables, charts and sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from eigentime_report import statistics
from eigentime_report.basics import grouped
from eigentime_report.results import Cell, Quantity, Replicates, Results
from eigentime_report.results.cell import Blocks, Counts, Floats

Factor: TypeAlias = Literal["level", "load"]

# The statistic of each replicate that is compared. For events this is the standard deviation, as in
# the timer-event paper: the mean interval of a periodic timer is the requested one, however late
# single events are.
COMPARED: Mapping[str, str] = {"calls": "mean", "read": "median", "sleep": "median", "events": "sd"}

# Statistics that include the requested part: all except those of scatter.
QUANTILES: Mapping[str, float] = {"median": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
PLACES = ("mean", *QUANTILES, "max", "min")

# The statistics to which the timing paper's factors are applied, in its order.
FACTORED = ("median", "mad", "maximum", "minimum")

# Units of tests, the smallest first.
UNITS = ("record", "batch", "block")


# A timer that misses more of its events than this does not keep its interval: the few that came may
# still be regular.
MISSED = 0.05


@dataclass(frozen=True, eq=False)
class Description:
    """The description of a cell's values."""

    cell: Cell
    numbers: statistics.Descriptives
    # By quantile, with intervals.
    tails: Mapping[float, statistics.Interval]
    # For events, the 99 % interval of the mean.
    mean_99: statistics.Interval | None
    outliers: statistics.Outliers


@dataclass(frozen=True, eq=False)
class Compared:
    """A quantity at several levels under one load, or under several loads at one level."""

    quantity: Quantity
    factor: Factor
    # The load or the level that is fixed.
    held: str
    # The statistic of each replicate; for sleeps of 100 ms, how late they end.
    statistic: str
    # The kind of replicates: blocks, records or batches; and the reason.
    unit: str
    why: str
    # The lowest number of blocks among them.
    blocks: int
    comparison: statistics.Comparison

    @property
    def base(self) -> str:
        """The base of the comparison."""
        return self.comparison.groups[0].name

    @property
    def others(self) -> tuple[str, ...]:
        """The levels or loads other than the first."""
        return tuple(group.name for group in self.comparison.groups[1:])

    def against_base(self, other: str) -> statistics.Contrast:
        """How much larger `other` is than the base."""
        return self.comparison.pair(other, self.base)


@dataclass(frozen=True, eq=False)
class FactorTest:
    """The effects of function, level and load on one statistic of a group of quantities."""

    kind: str
    # The factors that they have in common: `1 ms, other`.
    among: str
    statistic: str
    unit: str
    effects: tuple[statistics.FactorEffect, ...]
    # Functions that are missing because they were not measured everywhere.
    left_out: tuple[str, ...]


class Analysis:
    """Comparisons and descriptions of a set of results, each made on first use."""

    def __init__(
        self,
        results: Results,
        *,
        confidence: float = 0.95,
        same_within: float = 0.01,
        as_in_paper: bool = False,
    ) -> None:
        self.results = results
        self.confidence = confidence
        self.same_within = same_within
        # Whether Levene's test selects the following test.
        self.as_in_paper = as_in_paper
        # By quantity, level and load: the description of the values; None if nothing was measured.
        self.description = cache(self._description)
        # By quantity, factor and fixed load or level: over levels under that load, or over loads at
        # that level; None if there are fewer than two.
        self.compared = cache(self._compared)
        # By kind: function × level × load on median, MAD, maximum and minimum of the replicates.
        self.factor_tests = cache(lambda kind: tuple(self._factored(kind)))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The measured kinds, in the order of the quantities."""
        return tuple(dict.fromkeys(it.kind for it in self.results.quantities))

    def quantities(self, kind: str) -> tuple[Quantity, ...]:
        """The quantities of a kind."""
        return tuple(it for it in self.results.quantities if it.kind == kind)

    def descriptions(self, kind: str) -> Iterator[Description]:
        """All descriptions of a kind, by quantity, load and level."""
        for quantity in self.quantities(kind):
            for load in self.results.loads:
                for level in self.results.levels:
                    if found := self.description(quantity, level, load):
                        yield found

    def comparisons(self, kind: str, factor: Factor) -> Iterator[Compared]:
        """All comparisons of a kind, by quantity."""
        steady = self.results.loads if factor == "level" else self.results.levels
        for quantity in self.quantities(kind):
            for held in steady:
                if found := self.compared(quantity, factor, held):
                    yield found

    def _description(self, quantity: Quantity, level: str, load: str) -> Description | None:
        cell = self.results.cell(quantity, level, load)
        if cell is None:
            return None
        numbers = describe(cell)
        values, weights, blocks = sample(cell)
        tails = statistics.quantile_intervals(
            values, tuple(numbers.quantiles), weights, blocks, confidence=self.confidence
        )
        mean_99 = statistics.mean_interval(values, 0.99) if quantity.is_deviation else None
        return Description(cell, numbers, tails, mean_99, statistics.outliers(values, weights))

    def _compared(self, quantity: Quantity, factor: Factor, held: str) -> Compared | None:
        places = (
            [(level, held) for level in self.results.levels]
            if factor == "level"
            else [(held, load) for load in self.results.loads]
        )
        found = [self.results.cell(quantity, *place) for place in places]
        cells = [cell for cell in found if cell and keeps_time(cell)]
        # Without the first one, there is nothing to compare the others with.
        if len(cells) < 2 or next(filter(None, found)) is not cells[0]:
            return None
        statistic = COMPARED[quantity.kind]
        unit, replicates = of_one_unit(cells)
        by_name = {getattr(cell, factor): cell for cell in cells}
        known = dict(zip(by_name, replicates, strict=True))
        comparison = compare_cells(
            statistic,
            by_name,
            {name: getattr(its, statistic) for name, its in known.items()},
            alpha=1 - self.confidence,
            same_within=self.same_within,
            as_in_paper=self.as_in_paper,
        )
        blocks = min(its.blocks for its in replicates)
        why = _why(known)
        return Compared(quantity, factor, held, statistic, unit, why, blocks, comparison)

    def _factored(self, kind: str) -> Iterator[FactorTest]:
        strata = grouped((_stratum(it), it) for it in self.quantities(kind))
        for among, quantities in strata.items():
            by_function = {it: self.results.cells(it) for it in quantities}
            most = max(map(len, by_function.values()))
            left_out = [it.subject for it, its in by_function.items() if len(its) < most]
            cells = [cell for its in by_function.values() if len(its) == most for cell in its]
            # A single record has no scatter.
            unit, replicates = of_one_unit(cells, ("batch", "block"))
            counts = [its.count for its in replicates]
            factors = {
                "function": [cell.quantity.subject for cell in cells],
                "level": [cell.level for cell in cells],
                "load": [cell.load for cell in cells],
            }
            labels = {
                name: np.repeat(words, counts).tolist()
                for name, words in factors.items()
                if len(set(words)) > 1
            }
            if not labels:
                continue
            for statistic in FACTORED:
                values = np.concatenate([getattr(its, statistic) for its in replicates])
                effects = statistics.factorial(values, labels, confidence=self.confidence)
                yield FactorTest(kind, among, statistic, unit, tuple(effects), tuple(left_out))


# The analysis of a set of results, cached so that nothing is compared twice.
analyse = Analysis


def asked_of(statistic: str, cell: Cell) -> int:
    """The requested part: a percentage of 100 ms is far more than the same of a sleep's latency."""
    return cell.quantity.asked_ns if statistic in PLACES else 0


def compare_cells(
    statistic: str, cells: Mapping[str, Cell], rows: Mapping[str, Floats], **terms: Any
) -> statistics.Comparison:
    """Compares the statistic of cells, with an entry for each of their replicates."""
    return statistics.compare(
        {name: row - asked_of(statistic, cells[name]) for name, row in rows.items()},
        resolutions={name: cells[name].resolution(statistic, row) for name, row in rows.items()},
        **terms,
    )


def missed_share(cell: Cell) -> float:
    """The share of events that were merged into later ones; 0 for everything else."""
    missed = cell.facts.get("missed", 0)
    if cell.quantity.kind != "events" or not isinstance(missed, int):
        return 0.0
    return missed / (missed + cell.count)


def keeps_time(cell: Cell) -> bool:
    """Whether practically no events are missing, so that their regularity can be compared."""
    return missed_share(cell) <= MISSED


def describe(cell: Cell) -> statistics.Descriptives:
    """Describes the values of a cell; for readings, interpolated between the counter's steps."""
    numbers = statistics.describe(cell.values, cell.weights)
    if cell.histogram is None:
        return numbers
    n = numbers.n
    alike = {it: getattr(cell, it) for it in ("mean", "median", "mad", "minimum", "maximum")}
    return replace(
        numbers,
        **alike,
        sd_uncorrected=cell.sd,
        sd=cell.sd * (n / (n - 1)) ** 0.5 if n > 1 else None,
        half_iqr=(cell.quantile(0.75) - cell.quantile(0.25)) / 2,
    )


def sample(cell: Cell) -> tuple[Floats, Counts | None, Blocks]:
    """The values, their frequencies and their blocks; for readings the middles of their buckets.

    They are thus measured like the median, between the steps of the counter.
    """
    its = cell.histogram
    if its is None:
        return cell.values, cell.weights, cell.blocks
    middles = np.clip((its.low + its.high) / 2, cell.minimum, cell.maximum)
    return middles, its.counts, its.blocks


def of_one_unit(
    cells: Sequence[Cell], units: Sequence[str] = UNITS
) -> tuple[str, list[Replicates]]:
    """The cells' replicates, all of a unit that each of them has.

    A cell with too few blocks has smaller units; the others then use them too.
    """
    places = [UNITS.index(cell.replicates.unit) for cell in cells]
    unit = max(UNITS[min(places)], units[0], key=UNITS.index)
    return unit, [
        cell.replicates if cell.replicates.unit == unit else cell.by(unit) for cell in cells
    ]


def _why(replicates: Mapping[str, Replicates]) -> str:
    """The reason for this unit, with the level or load that has the fewest blocks."""
    blocks = [its.blocks for its in replicates.values()]
    least = {name: its for name, its in replicates.items() if its.blocks == min(blocks)}
    why = min(least.values(), key=lambda it: it.count).why
    return why if len(least) == len(blocks) else f"{', '.join(least)}: {why}"


def _stratum(quantity: Quantity) -> str:
    """What quantities have in common whose functions are compared with each other."""
    words = list(quantity.factors.values())
    if quantity.kind == "calls":
        words.append("sleeps of 100 ms" if quantity.asked_ns else "calls")
    return ", ".join(words)
