"""The parts that need the report's own environment: runs with build/venv/bin/python.

reporting.py make FOLDER SAMPLES       writes a results folder
reporting.py interval WAY QUANTILE...  prints the seconds that each interval takes
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from eigentime_report.statistics import quantile_interval
from numpy.typing import NDArray
from scipy import stats

TESTS = Path(__file__).resolve().parents[2] / "python" / "eigentime_report" / "tests"

BLOCKS = 10
VALUES = 10_000
DRAWS = 4_000
# The factor that widens the percentile interval of so few blocks to 95 % (Hesterberg 2015).
REACH = float(stats.t.isf(0.025, BLOCKS - 1)) * (BLOCKS / (BLOCKS - 1)) ** 0.5
CONFIDENCE = 1 - 2 * float(stats.norm.sf(REACH))
# As a share of the interval's width: two sets of draws differ by less.
TOLERANCE = 0.3

Ends = tuple[float, float]
Blocks = list[NDArray[np.float64]]


def ours(blocks: Blocks, q: float) -> Ends:
    """As a report computes it."""
    numbers = np.repeat(np.arange(BLOCKS), VALUES)
    found = quantile_interval(np.concatenate(blocks), q, blocks=numbers)
    if found.low is None or found.high is None:
        raise SystemExit(f"no interval: {found.note}")
    return found.low, found.high


def scipys(blocks: Blocks, q: float) -> Ends:
    """As scipy computes it: the quantile of every draw."""

    def quantile(drawn: NDArray[np.int64]) -> float:
        return float(np.quantile(np.concatenate([blocks[at] for at in drawn]), q))

    found = stats.bootstrap(
        (np.arange(BLOCKS),),
        quantile,
        vectorized=False,
        n_resamples=DRAWS,
        method="percentile",
        confidence_level=CONFIDENCE,
        rng=1,
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


WAYS: dict[str, Callable[[Blocks, float], Ends]] = {"ours": ours, "scipy": scipys}


def seconds(way: str, q: float) -> float:
    """The time that an interval takes, if it is the correct one."""
    generator = np.random.default_rng(7)
    blocks = [
        generator.lognormal(3, 1, VALUES) * generator.lognormal(0, 0.02)
        for _ in range(BLOCKS)
    ]
    start = time.perf_counter()
    low, high = WAYS[way](blocks, q)
    took = time.perf_counter() - start
    expected = ours(blocks, q)
    off = max(abs(low - expected[0]), abs(high - expected[1]))
    if off > TOLERANCE * (expected[1] - expected[0]):
        raise SystemExit(f"{way}: {low} to {high}, and not {expected}")
    return took


def main() -> None:
    """Runs what the arguments request."""
    match sys.argv[1:]:
        case ["make", folder, samples]:
            sys.path.append(str(TESTS))
            import making

            making.large(folder, int(samples))
        case ["interval", way, *quantiles]:
            print(json.dumps([seconds(way, float(q)) for q in quantiles]))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
