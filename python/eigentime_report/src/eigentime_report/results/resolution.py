"""How small a difference the clock behind some values can show.

A clock that goes in steps shows each value to the next step: what is smaller than a step is
not in its values, however many there are and however alike they look. Only where the values
themselves scatter over several steps does rounding them average out (Widrow and Kollár,
Quantization Noise, 2008, chapter 7).
"""

from math import log

import numpy as np

from eigentime_report.results.histogram import Blocks, Counts, Floats

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
