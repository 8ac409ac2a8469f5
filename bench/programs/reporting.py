"""What only the report's own Python can do: run by build/venv/bin/python.

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
# What the percentile interval of so few blocks is widened to for 95 % (Hesterberg 2015).
REACH = float(stats.t.isf(0.025, BLOCKS - 1)) * (BLOCKS / (BLOCKS - 1)) ** 0.5
CONFIDENCE = 1 - 2 * float(stats.norm.sf(REACH))
# Of the interval's width: more than two sets of draws differ by.
TOLERANCE = 0.3

Ends = tuple[float, float]
Blocks = list[NDArray[np.float64]]


def ours(blocks: Blocks, q: float) -> Ends:
    """As a report does it."""
    numbers = np.repeat(np.arange(BLOCKS), VALUES)
    found = quantile_interval(np.concatenate(blocks), q, blocks=numbers)
    if found.low is None or found.high is None:
        raise SystemExit(f"no interval: {found.note}")
    return found.low, found.high


def scipys(blocks: Blocks, q: float) -> Ends:
    """As scipy does it: the quantile of every draw."""

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
    """What an interval takes, if it is the one that it should be."""
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
    """Do what the arguments say."""
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
