"""The measurements of a quantity at one level under one load, and their summaries by blocks."""

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

# Numbers of up to this many binary digits have their own buckets.
DIGITS = 11
# The rounding error of adding many counts.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Histogram:
    """The non-empty buckets, in nanoseconds; values are spread evenly in each.

    `low` and `high` are without the median of an empty bracket. `parts` are the histograms as
    they were measured, whose moments are exact.
    """

    low: Floats
    high: Floats
    counts: Counts
    blocks: Blocks
    parts: Sequence["Part"]

    @property
    def count(self) -> int:
        """The number of readings."""
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
        """Their minimum."""
        return min(part.minimum for part in self.parts)

    @property
    def maximum(self) -> float:
        """Their maximum."""
        return max(part.maximum for part in self.parts)

    @property
    def median(self) -> float:
        """Their median, interpolated between the counter's steps."""
        return _quantile(self.low, self.high, self.counts, 0.5)

    @property
    def mad(self) -> float:
        """Their median absolute deviation."""
        median = self.median
        below, above = self.low - median, self.high - median
        # A bucket around the median is split: both sides have a part of it.
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
        """The value that this share of readings does not exceed; at most the maximum."""
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
    """The exact data of a histogram, in nanoseconds."""

    block: int
    count: int
    mean: float
    sd: float
    minimum: float
    maximum: float


def spans(ticks: Counts, step_ticks: int) -> tuple[Floats, Floats]:
    """The ranges of the buckets' values, in ticks, by their lowest values."""
    _, digits = np.frexp(ticks.astype(np.float64))
    bucket = np.exp2(np.maximum(digits - DIGITS, 0))
    middle = ticks + (bucket - 1) / 2
    half = np.maximum(bucket, step_ticks) / 2
    return middle - half, middle + half


def _quantile(low: Floats, high: Floats, counts: Floats | Counts, part: float) -> float:
    """The value below which this share lies, if values are spread evenly from low to high."""
    wanted = part * float(counts.sum())
    density = counts / (high - low)
    edges = np.concatenate([low, high])
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    slopes = np.cumsum(np.concatenate([density, -density])[order])
    below = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(edges))])
    below = np.maximum.accumulate(below)
    # These sums only locate the bucket; they are too rough to interpolate in it.
    rough = ROUNDING * float(counts.sum())
    first = max(int(np.searchsorted(below, wanted - rough)) - 1, 0)
    last = int(np.searchsorted(below, wanted + rough, side="right")) + 1
    around = np.unique(edges[first:last])
    parts = np.clip((around[:, None] - low) / (high - low), 0, 1)
    exact = (parts * counts).sum(axis=1)
    after = min(max(int(np.searchsorted(exact, wanted)), 1), len(around) - 1)
    ends = slice(after - 1, after + 1)
    return float(np.interp(wanted, exact[ends], around[ends]))


# The number of values in which a step is searched for.
LOOKED_AT = 5_000
# Fewer equal values may be a coincidence.
FEWEST_EQUAL = 4
# The probability of seeing a step by chance is at most this.
BY_CHANCE = 1e-4
# If a step is not a whole number of units, values are truncated, and distances are off by up to
# this.
OFF = 2.0
# Rounding averages out where no step holds more than this share of values: for normal ones with a
# standard deviation of at least 1.2 steps, which leaves less than a millionth of a step.
MOST_IN_A_STEP = 1 / 3


def step_of(values: Floats, blocks: Blocks, unit: float) -> float:
    """The step of a clock's values: their `unit`, or a larger one that divides all of them.

    If all values of a block are equal, it may be as large as they are.
    """
    values, blocks = values[:LOOKED_AT], blocks[:LOOKED_AT]
    _, first, of = np.unique(blocks, return_index=True, return_inverse=True)
    # The first value of a block may not be on the grid: the requested sleep may not be.
    above = np.rint((values - values[first][of]) / unit).astype(np.int64)
    alike = values.size - first.size
    if alike >= FEWEST_EQUAL and not above.any():
        whole = np.gcd.reduce(np.rint(values / unit).astype(np.int64))
        return unit * max(float(whole), 1.0)
    # A single distance is always a multiple of itself.
    return unit * _grid(above, alike - 1)


def averages_out(values: Floats, step: float, weights: Counts | None = None) -> bool:
    """Whether these values scatter over so many steps that their mean is finer than a step."""
    if step <= 0:
        return True
    steps = np.floor((values - values.min()) / step + 0.5)
    _, of = np.unique(steps, return_inverse=True)
    held = np.bincount(of, weights=weights)
    return bool(held.max() <= MOST_IN_A_STEP * held.sum())


def _grid(numbers: Counts, independent: int) -> float:
    """The step of a grid with all of these whole numbers; 1 if there is none."""
    whole = float(np.gcd.reduce(numbers))
    if whole > 1 and independent * log(whole) > -log(BY_CHANCE):
        return whole
    found = _rounded_grid(np.unique(numbers - numbers.min()).astype(np.float64))
    # Of random numbers, this many are as close to a grid of this step.
    near = (2 * OFF + 1) / found
    return found if near < 1 and independent * log(near) < log(BY_CHANCE) else 1.0


def _rounded_grid(distances: Floats) -> float:
    """The step of a grid that contains these distances, sorted from 0, up to one unit."""
    gaps = np.diff(distances)
    gaps = gaps[gaps > 2 * OFF]
    if gaps.size == 0:
        return 1.0
    step = float(gaps.min())
    # Each multiple improves the estimate of the step, which identifies the next ones.
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

# With at least this many, blocks are the units.
ENOUGH_BLOCKS = 5
# The maximum number of batches of a cell, and the minimum number of samples in each.
BATCHES = 30
SAMPLES = 10


@dataclass(frozen=True, eq=False)
class Replicates:
    """Summaries of units that tests may treat as independent, with an entry for each unit."""

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
        """Their number."""
        return len(self.mean)

    @property
    def blocks(self) -> int:
        """The number of blocks that they come from."""
        return len(np.unique(self.block))

    @property
    def why(self) -> str:
        """The reason for this unit, in words."""
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
    """From values in time order."""
    if unit == RECORD:
        none = np.zeros_like(values)
        return Replicates(RECORD, blocks, values, values, none, none, values, values)
    # A block that was continued later is one with its earlier part.
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
    """From readings, which are known by block."""
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

    Values are in time order. Readings are a histogram: their values are the lowest ones of its
    buckets, sorted, with the number of readings as weights; `histogram` has more details. `mean`,
    `median` and so on are correct for both.

    `blocks` has the block of each value; block numbers are the same in all cells of the results.
    `missed` is the number of deadlines that each sleep missed. `step_ns` is the step of the
    values: no single value is known more precisely.
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
        """The number of samples."""
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
        """The median; for readings, interpolated between the counter's steps."""
        its = self.histogram
        return float(its.median if its else np.median(self.values))

    @cached_property
    def mad(self) -> float:
        """The median absolute deviation."""
        if self.histogram:
            return self.histogram.mad
        return float(np.median(np.abs(self.values - self.median)))

    @property
    def minimum(self) -> float:
        """The minimum."""
        return float(self.histogram.minimum if self.histogram else self.values.min())

    @property
    def maximum(self) -> float:
        """The maximum."""
        return float(self.histogram.maximum if self.histogram else self.values.max())

    def quantile(self, part: float) -> float:
        """The lowest value that at least this share of the values does not exceed."""
        if self.histogram:
            return self.histogram.quantile(part)
        return float(np.quantile(self.values, part, method="inverted_cdf"))

    @property
    def units(self) -> tuple[str, ...]:
        """The units by which it can be summarized."""
        if self.histogram:
            return (BLOCK,)
        return (BLOCK, RECORD, BATCH) if self.quantity.kind == CALLS else (BLOCK, BATCH)

    @cached_property
    def replicates(self) -> Replicates:
        """The units that tests may treat as independent: blocks, if there are enough."""
        is_enough = len(np.unique(self.blocks)) >= ENOUGH_BLOCKS
        return self.by(BLOCK if is_enough else self.units[:2][-1])

    def by(self, unit: str) -> Replicates:
        """The same by another unit: `block`, `batch`, or `record` for calls."""
        if unit not in self.units:
            raise ValueError(
                f"{self.quantity} has no {unit!r}: its units are {', '.join(self.units)}"
            )
        if self.histogram:
            return of_histogram(self.histogram)
        return of_values(self.values, self.blocks, unit)

    def resolution(self, statistic: str, row: Floats) -> float:
        """The smallest difference of a statistic that the clock can show, in nanoseconds.

        Means, deviations and interpolated medians are finer than a step if values scatter over
        several steps; so is the mean of any statistic, if its replicates do.
        """
        is_fine = statistic in ("mean", "sd") or (self.histogram and statistic == "median")
        if is_fine and averages_out(self.values, self.step_ns, self.weights):
            return 0.0
        return 0.0 if averages_out(row, self.step_ns) else self.step_ns

    def with_slept_through(self) -> Floats:
        """The lateness for all deadlines, including those that sleeps missed.

        A program that acts at every deadline is late for these too: each adds the lateness minus
        one, two, … intervals (coordinated omission).
        """
        if self.missed is None or self.quantity.interval_ns is None:
            return self.values
        late = np.flatnonzero(self.missed)
        times = self.missed[late]
        which = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        less = (which + 1.0) * self.quantity.interval_ns
        return np.concatenate([self.values, np.repeat(self.values[late], times) - less])
