"""Statistics of measurements: numbers in, answers out.

Whatever cannot be reckoned is None, with a note that says why: no result has a NaN, and
nothing warns.
"""

from eigentime_report.statistics.compare import (
    DIFFERS,
    IDENTICAL,
    NOT_TESTED,
    UNDECIDED,
    Comparison,
    Contrast,
    Group,
    coarse_text,
    compare,
    same_within_text,
)
from eigentime_report.statistics.description import (
    CLIFFS_DELTA,
    HEDGES_G,
    MEAN_RATIO,
    MEDIAN_RATIO,
    Descriptives,
    Effect,
    Outliers,
    cliffs_delta,
    describe,
    hedges_g,
    omega_squared,
    outliers,
)
from eigentime_report.statistics.factorial import FactorEffect, factorial
from eigentime_report.statistics.intervals import (
    Interval,
    mean_interval,
    quantile_draws,
    quantile_interval,
    quantile_intervals,
)
from eigentime_report.statistics.tests import (
    Pair,
    TestResult,
    anova,
    dunn,
    games_howell,
    holm,
    kruskal,
    levene,
    shapiro,
    summarize,
    tukey_hsd,
    welch_anova,
)

__all__ = [
    "CLIFFS_DELTA", "DIFFERS", "HEDGES_G", "IDENTICAL", "MEAN_RATIO", "MEDIAN_RATIO",
    "NOT_TESTED", "UNDECIDED", "Comparison", "Contrast", "Descriptives", "Effect",
    "FactorEffect", "Group", "Interval", "Outliers", "Pair",
    "TestResult", "anova", "cliffs_delta", "coarse_text", "compare",
    "describe", "dunn", "factorial", "games_howell", "hedges_g",
    "holm", "kruskal", "levene", "mean_interval", 
    "omega_squared", "outliers", "quantile_draws", "quantile_interval",
    "quantile_intervals", "same_within_text", "shapiro", "summarize", "tukey_hsd",
    "welch_anova",
]  # fmt: skip
