"""Which tests suit groups: those of means that may scatter differently, unless one does not scatter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eigentime_report import units
from eigentime_report.statistics.samples import Values, is_constant
from eigentime_report.statistics.tests import TestResult

ANOVA_TUKEY = "anova+tukey"
WELCH_GAMES_HOWELL = "welch+games-howell"
KRUSKAL_DUNN = "kruskal+dunn"
IDENTICAL = "identical"
NOTHING = "nothing"

# With fewer values, Levene's test hardly ever sees that scatter differs: taken at its word, it
# makes Tukey's test err twice as often as it says (tests/statistics/test_simulated.py).
FEWEST_FOR_LEVENE = 10


def choose(
    groups: Mapping[str, Values], levene: TestResult, alpha: float, as_in_paper: bool
) -> tuple[str, str]:
    """What is done with groups of two values or more, and why in words."""
    if len(groups) < 2:
        return NOTHING, "a test needs two groups with two values or more"
    if is_constant(np.concatenate(list(groups.values()))):
        return IDENTICAL, "all values of all groups are the same"
    if steady := [name for name, values in groups.items() if is_constant(values)]:
        return KRUSKAL_DUNN, (
            f"all values of {' and of '.join(steady)} are the same: "
            "tests of means need scatter, those of ranks do not"
        )
    if not as_in_paper or levene.p is None:
        return WELCH_GAMES_HOWELL, "groups may scatter differently"
    told = f"{levene.test}, p = {levene.p:.2g}, n = {units.count(levene.n)}"
    least = min(values.size for values in groups.values())
    if levene.p >= alpha and least >= FEWEST_FOR_LEVENE:
        return ANOVA_TUKEY, f"no difference in scatter is seen ({told})"
    return WELCH_GAMES_HOWELL, f"the groups scatter differently ({told})"
