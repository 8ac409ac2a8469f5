"""What was measured of a quantity at one level under one load."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eigentime_report.results import replicates
from eigentime_report.results.histogram import Blocks, Counts, Floats, Histogram
from eigentime_report.results.quantity import CALLS, Quantity
from eigentime_report.results.replicates import BATCH, BLOCK, ENOUGH_BLOCKS, RECORD, Replicates
from eigentime_report.results.resolution import averages_out

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
            return replicates.of_histogram(self.histogram)
        return replicates.of_values(self.values, self.blocks, unit)

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
