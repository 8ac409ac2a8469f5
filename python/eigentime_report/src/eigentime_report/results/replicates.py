"""What one run of a measurement gave, again and again: the units of tests.

Samples that follow each other are alike, because the machine is as it was a moment ago.
Tests that take each sample as independent find differences everywhere, so they are given
summaries of units that are as independent as there are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eigentime_report.results.arrays import Blocks, Floats
from eigentime_report.results.histogram import Histogram
from eigentime_report.units import count

BLOCK = "block"
RECORD = "record"
BATCH = "batch"
UNITS = (BLOCK, RECORD, BATCH)

# From so many on, blocks are the units.
ENOUGH_BLOCKS = 5
# Batches of a cell at most, and samples in each at least.
BATCHES = 30
SAMPLES = 10


@dataclass(frozen=True, eq=False)
class Replicates:
    """Summaries of units that tests may take as independent, an entry for each unit."""

    unit: str
    mean: Floats
    median: Floats
    mad: Floats
    sd: Floats
    minimum: Floats
    maximum: Floats
    block: Blocks

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
            few = (
                ""
                if self.blocks >= ENOUGH_BLOCKS
                else "; they are few, which shows in wide intervals"
            )
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
        return Replicates(RECORD, values, values, none, none, values, values, blocks)
    groups = list(_by_block(values, blocks))
    if unit == BATCH:
        groups = [
            (block, batch)
            for block, own in groups
            for batch in np.array_split(own, _batches(len(own), len(groups)))
        ]
    return _collect(unit, [(block, *_summary(own)) for block, own in groups])


def of_histogram(histogram: Histogram) -> Replicates:
    """Of readings, which are known by their blocks."""
    rows = []
    for block in np.unique(histogram.blocks):
        own = histogram.of_block(int(block))
        rows.append(
            (
                int(block),
                own.mean,
                own.median,
                own.mad,
                own.sd,
                own.minimum,
                own.maximum,
            )
        )
    return _collect(BLOCK, rows)


def _by_block(values: Floats, blocks: Blocks) -> Iterator[tuple[int, Floats]]:
    """The values of each block, in their order."""
    if np.any(np.diff(blocks) < 0):
        order = np.argsort(blocks, kind="stable")
        values, blocks = values[order], blocks[order]
    known, begins = np.unique(blocks, return_index=True)
    for block, own in zip(known, np.split(values, begins[1:]), strict=True):
        yield int(block), own


def _batches(samples: int, blocks: int) -> int:
    return max(1, min(BATCHES // blocks, samples // SAMPLES))


Row = tuple[int, float, float, float, float, float, float]


def _summary(values: Floats) -> tuple[float, float, float, float, float, float]:
    median = float(np.median(values))
    mad = float(np.median(np.abs(values - median)))
    ends = float(values.min()), float(values.max())
    return float(values.mean()), median, mad, float(values.std()), *ends


def _collect(unit: str, rows: Sequence[Row]) -> Replicates:
    block, *summaries = zip(*rows, strict=True)
    mean, median, mad, sd, minimum, maximum = (
        np.array(it, dtype=np.float64) for it in summaries
    )
    return Replicates(
        unit, mean, median, mad, sd, minimum, maximum, np.array(block, dtype=np.int32)
    )


def things(number: int, what: str) -> str:
    """`1 block`, `3 batches`."""
    plural = what + ("es" if what.endswith("ch") else "s")
    return f"{count(number)} {what if number == 1 else plural}"
