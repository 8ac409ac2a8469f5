"""What was measured of a quantity at one level under one load, and its summaries by blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from eigentime_report.results.quantity import CALLS, Quantity
from eigentime_report.units import count

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Blocks: TypeAlias = NDArray[np.int32]

# Numbers of up to so many binary digits have buckets of their own.
DIGITS = 11
# What adding up many counts may be off by.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Histogram:
    """Buckets that are not empty, in nanoseconds; each is evenly full.

    `low` and `high` are without the median of an empty bracket. `parts` are the
    histograms that were measured one by one, whose moments are exact.
    """

    low: Floats
    high: Floats
    counts: Counts
    blocks: Blocks
    parts: Sequence["Part"]

    @property
    def count(self) -> int:
        """How many readings."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean of the readings themselves."""
        return self._over_parts([part.mean for part in self.parts])

    @property
    def sd(self) -> float:
        """Their uncorrected standard deviation."""
        mean = self.mean
        squares = [part.sd**2 + (part.mean - mean) ** 2 for part in self.parts]
        return float(np.sqrt(self._over_parts(squares)))

    @property
    def minimum(self) -> float:
        """The least."""
        return min(part.minimum for part in self.parts)

    @property
    def maximum(self) -> float:
        """The greatest."""
        return max(part.maximum for part in self.parts)

    @property
    def median(self) -> float:
        """Their median, between the steps of the counter."""
        return _quantile(self.low, self.high, self.counts, 0.5)

    @property
    def mad(self) -> float:
        """The median of their distances from the median."""
        median = self.median
        below, above = self.low - median, self.high - median
        # A bucket around the median is folded there: both sides have a part of it.
        around = (below < 0) & (above > 0)
        part = np.divide(above, above - below, out=np.ones_like(above), where=around)
        counts = self.counts * part
        low = np.where(around, 0, np.minimum(np.abs(below), np.abs(above)))
        high = np.where(around, above, np.maximum(np.abs(below), np.abs(above)))
        return _quantile(
            np.append(low, np.zeros(around.sum())),
            np.append(high, -below[around]),
            np.append(counts, (self.counts * (1 - part))[around]),
            0.5,
        )

    def quantile(self, part: float) -> float:
        """What this part of them are not above; no more than was seen."""
        found = _quantile(self.low, self.high, self.counts, part)
        return min(max(found, self.minimum), self.maximum)

    def of_block(self, block: int) -> "Histogram":
        """The readings of a block."""
        here = self.blocks == block
        parts = [part for part in self.parts if part.block == block]
        return Histogram(
            self.low[here], self.high[here], self.counts[here], self.blocks[here], parts
        )

    def _over_parts(self, numbers: Sequence[float]) -> float:
        return float(np.average(numbers, weights=[part.count for part in self.parts]))


@dataclass(frozen=True)
class Part:
    """What is known of a histogram exactly, in nanoseconds."""

    block: int
    count: int
    mean: float
    sd: float
    minimum: float
    maximum: float


def spans(ticks: Counts, step_ticks: int) -> tuple[Floats, Floats]:
    """Between which lengths the values of buckets are, in ticks, by their least values."""
    _, digits = np.frexp(ticks.astype(np.float64))
    bucket = np.exp2(np.maximum(digits - DIGITS, 0))
    middle = ticks + (bucket - 1) / 2
    half = np.maximum(bucket, step_ticks) / 2
    return middle - half, middle + half


def _quantile(low: Floats, high: Floats, counts: Floats | Counts, part: float) -> float:
    """What this part of values is below, if they are spread evenly from low to high."""
    wanted = part * float(counts.sum())
    density = counts / (high - low)
    edges = np.concatenate([low, high])
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    slopes = np.cumsum(np.concatenate([density, -density])[order])
    below = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(edges))])
    below = np.maximum.accumulate(below)
    # These sums say where to look, and are too rough for what is between two buckets.
    rough = ROUNDING * float(counts.sum())
    first = max(int(np.searchsorted(below, wanted - rough)) - 1, 0)
    last = int(np.searchsorted(below, wanted + rough, side="right")) + 1
    around = np.unique(edges[first:last])
    parts = np.clip((around[:, None] - low) / (high - low), 0, 1)
    exact = (parts * counts).sum(axis=1)
    after = min(max(int(np.searchsorted(exact, wanted)), 1), len(around) - 1)
    ends = slice(after - 1, after + 1)
    return float(np.interp(wanted, exact[ends], around[ends]))


# Steps are looked for in so many values.
LOOKED_AT = 5_000
# Fewer equal values may be so by chance.
FEWEST_EQUAL = 4
# By chance, values lie on a grid that is not there less often than this.
BY_CHANCE = 1e-4
# Where a step is no whole number of units, values are cut to it, and distances up to so far off.
OFF = 2.0
# Values average rounding out where no step holds more of them than this: of normal ones, where
# their standard deviation is 1.2 steps or more, which leaves less than a millionth of a step.
MOST_IN_A_STEP = 1 / 3


def step_of(values: Floats, blocks: Blocks, unit: float) -> float:
    """The step of a clock's values: their `unit`, or a larger one that all of them go in.

    Where none differs from the others of its block, it may be as large as they are.
    """
    values, blocks = values[:LOOKED_AT], blocks[:LOOKED_AT]
    _, first, of = np.unique(blocks, return_index=True, return_inverse=True)
    # Where a block begins need not be on the grid: what was slept for may not be.
    above = np.rint((values - values[first][of]) / unit).astype(np.int64)
    alike = values.size - first.size
    if alike >= FEWEST_EQUAL and not above.any():
        whole = np.gcd.reduce(np.rint(values / unit).astype(np.int64))
        return unit * max(float(whole), 1.0)
    # One distance is a multiple of itself.
    return unit * _grid(above, alike - 1)


def averages_out(values: Floats, step: float, weights: Counts | None = None) -> bool:
    """Do these values scatter over so many steps that their mean is finer than a step?"""
    if step <= 0:
        return True
    steps = np.floor((values - values.min()) / step + 0.5)
    _, of = np.unique(steps, return_inverse=True)
    held = np.bincount(of, weights=weights)
    return bool(held.max() <= MOST_IN_A_STEP * held.sum())


def _grid(numbers: Counts, independent: int) -> float:
    """The step of a grid on which all of these whole numbers are; 1 if there is none."""
    whole = float(np.gcd.reduce(numbers))
    if whole > 1 and independent * log(whole) > -log(BY_CHANCE):
        return whole
    found = _rounded_grid(np.unique(numbers - numbers.min()).astype(np.float64))
    # Of numbers by chance, so many are as near to a grid of this step.
    near = (2 * OFF + 1) / found
    return found if near < 1 and independent * log(near) < log(BY_CHANCE) else 1.0


def _rounded_grid(distances: Floats) -> float:
    """The step of a grid of which these distances, sorted from 0 on, are multiples, to a unit."""
    gaps = np.diff(distances)
    gaps = gaps[gaps > 2 * OFF]
    if gaps.size == 0:
        return 1.0
    step = float(gaps.min())
    # The step is known better with each multiple, and so the next ones can be told.
    reach = 4 * step
    while True:
        near = distances[1 : np.searchsorted(distances, reach, side="right")]
        times = np.rint(near / step)
        if times.any():
            step = float(near @ times / (times @ times))
            if np.abs(near - times * step).max() > OFF:
                return 1.0
        if reach >= distances[-1]:
            return step
        reach *= 4


BLOCK = "block"
RECORD = "record"
BATCH = "batch"

# From so many on, blocks are the units.
ENOUGH_BLOCKS = 5
# Batches of a cell at most, and samples in each at least.
BATCHES = 30
SAMPLES = 10


@dataclass(frozen=True, eq=False)
class Replicates:
    """Summaries of units that tests may take as independent, an entry for each unit."""

    unit: str
    block: Blocks
    mean: Floats
    median: Floats
    mad: Floats
    sd: Floats
    minimum: Floats
    maximum: Floats

    @property
    def count(self) -> int:
        """How many."""
        return len(self.mean)

    @property
    def blocks(self) -> int:
        """From how many blocks."""
        return len(np.unique(self.block))

    @property
    def why(self) -> str:
        """Why this unit, in words."""
        blocks = things(self.blocks, "block")
        if self.unit == BLOCK and self.blocks == 1:
            return f"There is {blocks}: it has no other to be compared with, so nothing is tested."
        if self.unit == BLOCK:
            is_enough = self.blocks >= ENOUGH_BLOCKS
            few = "" if is_enough else "; they are few, which shows in wide intervals"
            return f"Each of {blocks} was measured anew, in an order drawn by lot{few}."
        units = {
            RECORD: f"each of {things(self.count, 'record')}, many calls timed together,",
            BATCH: f"each of {things(self.count, 'batch')} of samples that follow each other",
        }
        return (
            f"There are fewer than {ENOUGH_BLOCKS} blocks ({self.blocks}), so {units[self.unit]} "
            "is taken by itself. Those of one block are more alike than those of different "
            "ones: small differences may look surer than they are."
        )


def of_values(values: Floats, blocks: Blocks, unit: str) -> Replicates:
    """Of values in the order of time."""
    if unit == RECORD:
        none = np.zeros_like(values)
        return Replicates(RECORD, blocks, values, values, none, none, values, values)
    # Blocks that were measured again later are one with what came before.
    order = np.argsort(blocks, kind="stable")
    known, begins = np.unique(blocks[order], return_index=True)
    groups = list(zip(known, np.split(values[order], begins[1:]), strict=True))
    if unit == BATCH:
        share = BATCHES // len(groups)
        groups = [
            (block, batch)
            for block, own in groups
            for batch in np.array_split(own, max(1, min(share, len(own) // SAMPLES)))
        ]
    rows = []
    for block, own in groups:
        median = np.median(own)
        mad = np.median(np.abs(own - median))
        rows.append((block, own.mean(), median, mad, own.std(), own.min(), own.max()))
    return _collected(unit, rows)


def of_histogram(histogram: Histogram) -> Replicates:
    """Of readings, which are known by their blocks."""
    rows = []
    for block in np.unique(histogram.blocks):
        it = histogram.of_block(int(block))
        rows.append((block, it.mean, it.median, it.mad, it.sd, it.minimum, it.maximum))
    return _collected(BLOCK, rows)


def _collected(unit: str, rows: Sequence[tuple[float, ...]]) -> Replicates:
    block, *others = np.array(rows, dtype=np.float64).T
    return Replicates(unit, block.astype(np.int32), *others)


def plural(what: str) -> str:
    """`blocks`, `batches`."""
    return what + ("es" if what.endswith("ch") else "s")


def things(number: int, what: str) -> str:
    """`1 block`, `3 batches`."""
    return f"{count(number)} {what if number == 1 else plural(what)}"


Fact = float | int | str


@dataclass(frozen=True, eq=False)
class Cell:
    """All values of a quantity at a level under a load, in nanoseconds.

    Values are in the order of time. Readings are a histogram: their values are the least
    ones of its buckets, sorted, with the number of readings as weights; `histogram` knows
    more of them. `mean`, `median` and so on are right for both.

    `blocks` tells the block of each value; numbers of blocks are the same in all cells of
    the results. `missed` are the deadlines that each sleep slept through. `step_ns` is the
    step in which the values go: no single value is known more closely.
    """

    quantity: Quantity
    level: str
    load: str
    values: Floats
    weights: Counts | None
    blocks: Blocks
    served: frozenset[str]
    facts: Mapping[str, Fact]
    missed: Counts | None = None
    histogram: Histogram | None = None
    step_ns: float = 0.0

    @property
    def count(self) -> int:
        """How many samples."""
        return len(self.values) if self.weights is None else int(self.weights.sum())

    @cached_property
    def mean(self) -> float:
        """The mean."""
        return float(self.histogram.mean if self.histogram else self.values.mean())

    @cached_property
    def sd(self) -> float:
        """The uncorrected standard deviation."""
        return float(self.histogram.sd if self.histogram else self.values.std())

    @cached_property
    def median(self) -> float:
        """The median; of readings, between the steps of the counter."""
        its = self.histogram
        return float(its.median if its else np.median(self.values))

    @cached_property
    def mad(self) -> float:
        """The median of the distances from the median."""
        if self.histogram:
            return self.histogram.mad
        return float(np.median(np.abs(self.values - self.median)))

    @property
    def minimum(self) -> float:
        """The least."""
        return float(self.histogram.minimum if self.histogram else self.values.min())

    @property
    def maximum(self) -> float:
        """The greatest."""
        return float(self.histogram.maximum if self.histogram else self.values.max())

    def quantile(self, part: float) -> float:
        """The least that this part of the values is not above."""
        if self.histogram:
            return self.histogram.quantile(part)
        return float(np.quantile(self.values, part, method="inverted_cdf"))

    @property
    def units(self) -> tuple[str, ...]:
        """By what it can be summed up."""
        if self.histogram:
            return (BLOCK,)
        return (BLOCK, RECORD, BATCH) if self.quantity.kind == CALLS else (BLOCK, BATCH)

    @cached_property
    def replicates(self) -> Replicates:
        """What tests may take as independent: blocks, where there are enough."""
        is_enough = len(np.unique(self.blocks)) >= ENOUGH_BLOCKS
        return self.by(BLOCK if is_enough else self.units[:2][-1])

    def by(self, unit: str) -> Replicates:
        """The same by another unit: `block`, `batch`, and `record` of calls."""
        if unit not in self.units:
            raise ValueError(
                f"{self.quantity} has no {unit!r}: its units are {', '.join(self.units)}"
            )
        if self.histogram:
            return of_histogram(self.histogram)
        return of_values(self.values, self.blocks, unit)

    def resolution(self, statistic: str, row: Floats) -> float:
        """What differences of a statistic the clock can show, in nanoseconds, by its replicates.

        Means, deviations, and medians between the steps of the counter, are finer than a step where values
        scatter over several of them; so is the mean of all statistics, where replicates do.
        """
        is_fine = statistic in ("mean", "sd") or (self.histogram and statistic == "median")
        if is_fine and averages_out(self.values, self.step_ns, self.weights):
            return 0.0
        return 0.0 if averages_out(row, self.step_ns) else self.step_ns

    def with_slept_through(self) -> Floats:
        """Miss times of all deadlines, also of those that sleeps slept through.

        A program that is to do something at every deadline is late for these, too: each
        adds the miss time minus one, two, … intervals (coordinated omission).
        """
        if self.missed is None or self.quantity.interval_ns is None:
            return self.values
        late = np.flatnonzero(self.missed)
        times = self.missed[late]
        which = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        less = (which + 1.0) * self.quantity.interval_ns
        return np.concatenate([self.values, np.repeat(self.values[late], times) - less])
