"""Groups compared: which tests suit them, what they say, and whether others agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from eigentime_report.statistics import tests
from eigentime_report.statistics.contrasts import Contrast, Terms, contrast, identical, not_tested
from eigentime_report.statistics.decisions import (
    ANOVA_TUKEY,
    IDENTICAL,
    KRUSKAL_DUNN,
    NOTHING,
    choose,
)
from eigentime_report.statistics.samples import Summary, Values, usable
from eigentime_report.statistics.tests import Omnibus, Pair, TestResult, pairs_of


@dataclass(frozen=True)
class Group:
    """What a group is like; the note says why it is not tested."""

    name: str
    n: int
    mean: float
    sd: float | None
    median: float
    note: str = ""


@dataclass(frozen=True)
class Ranked:
    """Dunn's test of a pair of groups; the difference is of mean ranks."""

    i: str
    j: str
    test: str
    difference: float
    p: float | None


@dataclass(frozen=True)
class Comparison:
    """Groups compared, in the order in which they were given."""

    groups: tuple[Group, ...]
    alpha: float
    same_within: float
    shapiro: Mapping[str, TestResult]
    levene: TestResult
    # One of those of `decisions`.
    chosen: str
    because: str
    omnibus: Omnibus
    # Each later group against each earlier one.
    pairs: tuple[Contrast, ...]
    kruskal: Omnibus
    dunn: tuple[Ranked, ...]
    # Where tests of means and of ranks say different things.
    disagreements: tuple[str, ...]

    def pair(self, i: str, j: str) -> Contrast:
        """Group i against group j, of which i was given later."""
        for each in self.pairs:
            if (each.i, each.j) == (i, j):
                return each
        known = ", ".join(f"{each.i} - {each.j}" for each in self.pairs)
        raise KeyError(f"no pair {i} - {j}; there are {known or 'none'}")


def compare(
    groups: Mapping[str, ArrayLike],
    *,
    alpha: float = 0.05,
    same_within: float = 0.01,
    resolutions: Mapping[str, float] = MappingProxyType({}),
    as_in_paper: bool = False,
) -> Comparison:
    """Compares independent groups by Welch's ANOVA and Games-Howell (`decisions`).

    Whether they scatter alike is not tested first: a test that chooses the next one spoils the
    error rates of both. `as_in_paper` does so all the same, to compare with published tables.

    Pairs differ where the post hoc test's p is below alpha: it keeps the error rate by
    itself, whatever the test of all groups says. Else they are the same within
    `same_within` where the interval of the difference lies within that share of group j's
    mean or median; else it is undecided.

    `resolutions` says of groups which differences their values can show: intervals are wider
    by the larger one of both, and what is smaller is undecided.
    """
    if not (0 < alpha < 1 and 0 <= same_within < 1):
        raise ValueError(f"alpha {alpha} and same_within {same_within} are shares of 1")
    rows = {name: usable(values) for name, values in groups.items()}
    described = tuple(_describe(name, values) for name, values in rows.items())
    names = [group.name for group in described if not group.note]
    values = [rows[name] for name in names]
    scatter = tests.levene(values)
    chosen, because = choose(dict(zip(names, values, strict=True)), scatter, alpha, as_in_paper)
    of_ranks = tests.kruskal(values, confidence=1 - alpha)
    dunn = tests.dunn(values)
    omnibus, pairs = _tested(chosen, because, values, alpha, of_ranks, dunn)
    by_names = {(names[it.i], names[it.j]): it for it in pairs}
    count = len(pairs_of(len(names)))

    def contrasted(i: str, j: str) -> Contrast:
        step = max(resolutions.get(i, 0.0), resolutions.get(j, 0.0))
        terms = Terms(alpha, same_within, 1 - alpha / max(count, 1), step)
        if tested := by_names.get((i, j)):
            is_ranked = chosen == KRUSKAL_DUNN
            return contrast(i, j, rows[i], rows[j], tested, is_ranked, terms)
        if chosen == IDENTICAL and i in names and j in names:
            return identical(i, j, rows[i], rows[j], terms)
        why = {it.name: it.note for it in described if it.note}
        notes = [f"{name}: {why[name]}" for name in (i, j) if name in why]
        return not_tested(i, j, rows[i].size + rows[j].size, "; ".join(notes) or because)

    ordered = list(rows)
    found = tuple(contrasted(ordered[i], ordered[j]) for i, j in pairs_of(len(ordered)))
    ranked = tuple(Ranked(names[it.i], names[it.j], it.test, it.difference, it.p) for it in dunn)
    return Comparison(
        groups=described,
        alpha=alpha,
        same_within=same_within,
        shapiro={name: tests.shapiro(row) for name, row in rows.items()},
        levene=scatter,
        chosen=chosen,
        because=because,
        omnibus=omnibus,
        pairs=found,
        kruskal=of_ranks,
        dunn=ranked,
        disagreements=tuple(_disagreements(omnibus, found, of_ranks, ranked, alpha)),
    )


def _describe(name: str, values: Values) -> Group:
    summary, median = Summary.of(values), float(np.median(values))
    if values.size < 2:
        note = "a single value, which does not scatter"
        return Group(name, 1, summary.mean, None, median, note)
    return Group(name, summary.n, summary.mean, summary.sd, median)


def _tested(
    chosen: str,
    because: str,
    values: Sequence[Values],
    alpha: float,
    of_ranks: Omnibus,
    dunn: Sequence[Pair],
) -> tuple[Omnibus, Sequence[Pair]]:
    """The chosen test of all groups, and that of pairs."""
    if chosen in (NOTHING, IDENTICAL):
        return tests.untested("none", sum(row.size for row in values), because), ()
    if chosen == KRUSKAL_DUNN:
        return of_ranks, dunn
    groups = tests.summarize(values)
    if chosen == ANOVA_TUKEY:
        return tests.anova(groups, 1 - alpha), tests.tukey_hsd(groups, 1 - alpha)
    return tests.welch_anova(groups, 1 - alpha), tests.games_howell(groups, 1 - alpha)


def _disagreements(
    omnibus: Omnibus,
    pairs: Sequence[Contrast],
    of_ranks: Omnibus,
    ranked: Sequence[Ranked],
    alpha: float,
) -> Iterator[str]:
    others = {(it.i, it.j): it for it in ranked}
    both: list[tuple[str, Omnibus | Contrast, Omnibus | Ranked]] = [
        ("all groups", omnibus, of_ranks),
        *((f"{it.i} and {it.j}", it, others[it.i, it.j]) for it in pairs if (it.i, it.j) in others),
    ]
    for what, one, other in both:
        if one.p is None or other.p is None or one.test == other.test:
            continue
        if (one.p < alpha) != (other.p < alpha):
            yield f"{what}: {one.test}, p = {one.p:.2g}; {other.test}, p = {other.p:.2g}"
