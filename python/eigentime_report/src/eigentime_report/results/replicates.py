"""What one run of a measurement gave, again and again: the units of tests.

Samples that follow each other are alike, because the machine is as it was a moment ago.
Tests that take each sample as independent find differences everywhere, so they are given
summaries of units that are as independent as there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eigentime_report.results.histogram import Blocks, Floats, Histogram
from eigentime_report.units import count

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


def things(number: int, what: str) -> str:
    """`1 block`, `3 batches`."""
    plural = what + ("es" if what.endswith("ch") else "s")
    return f"{count(number)} {what if number == 1 else plural}"
