"""Statistics of measurements: numbers in, answers out.

Whatever cannot be computed is None, with a note that gives the reason: no result has a NaN, and
there are no warnings. `tests`, `description` and `intervals` contain more than is exported here.
"""

from eigentime_report.statistics.compare import (
    DIFFERS,
    NOT_TESTED,
    UNDECIDED,
    Comparison,
    Contrast,
    coarse_text,
    compare,
)
from eigentime_report.statistics.description import (
    CLIFFS_DELTA,
    HEDGES_G,
    MEAN_RATIO,
    MEDIAN_RATIO,
    Descriptives,
    Effect,
    Outliers,
    describe,
    outliers,
)
from eigentime_report.statistics.factorial import FactorEffect, factorial
from eigentime_report.statistics.intervals import (
    Interval,
    mean_interval,
    quantile_interval,
    quantile_intervals,
)

__all__ = [
    "CLIFFS_DELTA", "DIFFERS", "HEDGES_G", "MEAN_RATIO", "MEDIAN_RATIO", "NOT_TESTED", "UNDECIDED",
    "Comparison", "Contrast", "Descriptives", "Effect", "FactorEffect", "Interval", "Outliers",
    "coarse_text", "compare", "describe", "factorial", "mean_interval", "outliers",
    "quantile_interval", "quantile_intervals",
]  # fmt: skip
