"""Which tests suit a comparison: a table, whose first row that holds is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eigentime_report import units
from eigentime_report.statistics.assumptions import TestResult
from eigentime_report.statistics.groups import Values, is_constant
from eigentime_report.statistics.omnibus import Omnibus, anova, kruskal, welch_anova
from eigentime_report.statistics.posthoc import Pair, dunn, games_howell, tukey_hsd

ANOVA_TUKEY = "anova+tukey"
WELCH_GAMES_HOWELL = "welch+games-howell"
KRUSKAL_DUNN = "kruskal+dunn"
IDENTICAL = "identical"
NOTHING = "nothing"

# With fewer values, Levene's test hardly ever sees that scatter differs: taken at its word, it
# makes Tukey's test err twice as often as it says (tests/statistics/test_simulated.py).
FEWEST_FOR_LEVENE = 10


@dataclass(frozen=True)
class Family:
    """A test of all groups at once, and the one of pairs that goes with it."""

    omnibus: Callable[[Sequence[Values], float], Omnibus]
    pairs: Callable[[Sequence[Values], float], list[Pair]]
    # Whether it is about ranks; its differences then are of medians, not means.
    of_ranks: bool


FAMILIES = {
    ANOVA_TUKEY: Family(
        lambda groups, confidence: anova(groups, confidence=confidence),
        lambda groups, confidence: tukey_hsd(groups, confidence),
        of_ranks=False,
    ),
    WELCH_GAMES_HOWELL: Family(
        lambda groups, confidence: welch_anova(groups, confidence=confidence),
        lambda groups, confidence: games_howell(groups, confidence),
        of_ranks=False,
    ),
    KRUSKAL_DUNN: Family(
        lambda groups, confidence: kruskal(groups, confidence=confidence),
        lambda groups, confidence: dunn(groups, "holm"),
        of_ranks=True,
    ),
}


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of the groups before they are compared."""

    # Groups of two values or more.
    groups: Mapping[str, Values]
    levene: TestResult
    alpha: float
    # Whether Levene's test chooses, as in the paper on time namespaces in containers.
    as_in_paper: bool = False

    @property
    def without_scatter(self) -> list[str]:
        """Groups in which all values are the same."""
        return [name for name, values in self.groups.items() if is_constant(values)]

    @property
    def least_n(self) -> int:
        """The size of the smallest group."""
        return min(values.size for values in self.groups.values())

    @property
    def scatter_alike(self) -> bool:
        """Whether Levene's test sees no difference in scatter, of enough values to see one."""
        p = self.levene.p
        return p is not None and p >= self.alpha and self.least_n >= FEWEST_FOR_LEVENE

    @property
    def all_alike(self) -> bool:
        """Whether there is one value only."""
        return is_constant(np.concatenate(list(self.groups.values())))


@dataclass(frozen=True)
class Decision:
    """One row: when it holds, what is done then, and why."""

    when: str
    holds: Callable[[Evidence], bool]
    chosen: str
    because: Callable[[Evidence], str]


DECISIONS = (
    Decision(
        "fewer than two groups have two values",
        lambda known: len(known.groups) < 2,
        NOTHING,
        lambda known: "a test needs two groups with two values or more",
    ),
    Decision(
        "all values of all groups are the same",
        lambda known: known.all_alike,
        IDENTICAL,
        lambda known: "all values of all groups are the same",
    ),
    Decision(
        "a group has no scatter",
        lambda known: bool(known.without_scatter),
        KRUSKAL_DUNN,
        lambda known: (
            f"all values of {' and of '.join(known.without_scatter)} are the same: "
            "tests of means need scatter, those of ranks do not"
        ),
    ),
    Decision(
        "the paper's choice is wanted, and Levene's test finds no difference in scatter",
        lambda known: known.as_in_paper and known.scatter_alike,
        ANOVA_TUKEY,
        lambda known: f"no difference in scatter is seen ({_p(known.levene)})",
    ),
    Decision(
        "all other groups, which may scatter differently",
        lambda known: True,
        WELCH_GAMES_HOWELL,
        lambda known: (
            f"the groups scatter differently ({_p(known.levene)})"
            if known.as_in_paper and known.levene.p is not None
            else "groups may scatter differently"
        ),
    ),
)


def _p(test: TestResult) -> str:
    return f"{test.test}, p = {test.p:.2g}, n = {units.count(test.n)}"


def decide(known: Evidence) -> tuple[str, str]:
    """What the first row that holds has chosen, and why in words."""
    row = next(row for row in DECISIONS if row.holds(known))
    return row.chosen, row.because(known)
