"""Groups compared: which tests suit them, what they say, and whether others agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from eigentime_report.statistics.assumptions import TestResult, levene, shapiro
from eigentime_report.statistics.contrasts import (
    Contrast,
    Terms,
    contrast,
    identical,
    not_tested,
    rank_contrast,
)
from eigentime_report.statistics.decisions import FAMILIES, IDENTICAL, Evidence, decide
from eigentime_report.statistics.groups import Values, summarize, unusable, values_of
from eigentime_report.statistics.intervals import SEED
from eigentime_report.statistics.omnibus import Omnibus, kruskal, untested
from eigentime_report.statistics.posthoc import dunn, pairs_of


@dataclass(frozen=True)
class Group:
    """What a group is like; the note says why it is not tested."""

    name: str
    n: int
    mean: float | None
    sd: float | None
    median: float | None
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Groups compared, in the order in which they were given."""

    groups: tuple[Group, ...]
    alpha: float
    same_within: float
    shapiro: Mapping[str, TestResult]
    levene: TestResult
    # One of decisions.FAMILIES, or "identical", or "nothing".
    chosen: str
    because: str
    omnibus: Omnibus
    # Each later group against each earlier one.
    pairs: tuple[Contrast, ...]
    kruskal: Omnibus
    dunn: tuple[Contrast, ...]
    # Whether tests of means and of ranks say the same; None where one of both was not made.
    agreement: bool | None
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
    percent_of: float | None = None,
    resolutions: Mapping[str, float] = MappingProxyType({}),
    as_in_paper: bool = False,
    seed: int = SEED,
) -> Comparison:
    """Compares independent groups by Welch's ANOVA and Games-Howell (decisions.DECISIONS).

    Whether they scatter alike is not tested first: a test that chooses the next one spoils the
    error rates of both. `as_in_paper` does so all the same, to compare with published tables.

    Pairs differ where the post hoc test's p is below alpha: it keeps the error rate by
    itself, whatever the test of all groups says. Else they are the same within
    `same_within` where the interval of the difference lies within that share of group j's
    mean or median, or of `percent_of`, which suits values around 0; else it is undecided.

    `resolutions` says of groups which differences their values can show: intervals are wider
    by the larger one of both, and what is smaller is undecided.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is between 0 and 1, not {alpha}")
    if not 0 <= same_within < 1:
        raise ValueError(f"same_within is a share from 0 to below 1, not {same_within}")
    if percent_of is not None and not 0 < percent_of < np.inf:
        raise ValueError(f"percent_of is greater than 0, not {percent_of}")
    rows = {name: values_of(values) for name, values in groups.items()}
    described = tuple(_describe(name, values) for name, values in rows.items())
    tested = {group.name: rows[group.name] for group in described if not group.note}
    names, values = list(tested), list(tested.values())
    known = Evidence(tested, levene(values), alpha, as_in_paper)
    chosen, because = decide(known)
    terms = Terms(alpha, same_within, percent_of, seed, len(pairs_of(len(names))))

    def known_to(i: str, j: str) -> float:
        return max(resolutions.get(i, 0.0), resolutions.get(j, 0.0))

    of_ranks = kruskal(values, confidence=1 - alpha)
    ranked = tuple(
        rank_contrast(
            names[it.i],
            names[it.j],
            values[it.i],
            values[it.j],
            it,
            terms,
            known_to(names[it.i], names[it.j]),
        )
        for it in dunn(values)
    )
    found: dict[tuple[str, str], Contrast] = {}
    if family := FAMILIES.get(chosen):
        omnibus = family.omnibus(values, 1 - alpha)
        for it in family.pairs(values, 1 - alpha):
            i, j = names[it.i], names[it.j]
            found[i, j] = contrast(
                i, j, values[it.i], values[it.j], it, family, terms, known_to(i, j)
            )
    else:
        omnibus = untested("none", sum(row.size for row in rows.values()), because)
        if chosen == IDENTICAL:
            found = {
                (i, j): identical(i, j, tested[i], tested[j], terms, known_to(i, j))
                for i, j in _pairs_of_names(names)
            }
    notes = {group.name: group.note for group in described}
    pairs = tuple(
        found.get((i, j))
        or not_tested(i, j, rows[i].size + rows[j].size, _why(i, j, notes, because))
        for i, j in _pairs_of_names(list(rows))
    )
    comparable = family is not None and not family.of_ranks
    disagreements = (
        _disagreements(omnibus, pairs, of_ranks, ranked, alpha) if comparable else ()
    )
    return Comparison(
        groups=described,
        alpha=alpha,
        same_within=same_within,
        shapiro={name: shapiro(row) for name, row in rows.items()},
        levene=known.levene,
        chosen=chosen,
        because=because,
        omnibus=omnibus,
        pairs=pairs,
        kruskal=of_ranks,
        dunn=ranked,
        agreement=not disagreements if comparable else None,
        disagreements=disagreements,
    )


def _describe(name: str, values: Values) -> Group:
    if reason := unusable(values):
        return Group(name, values.size, None, None, None, reason)
    summary = summarize(values)
    median = float(np.median(values))
    if values.size < 2:
        note = "a single value, which does not scatter"
        return Group(name, 1, summary.mean, None, median, note)
    return Group(name, summary.n, summary.mean, summary.sd, median)


def _pairs_of_names(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(names[i], names[j]) for i, j in pairs_of(len(names))]


def _why(i: str, j: str, notes: Mapping[str, str], because: str) -> str:
    own = [f"{name}: {notes[name]}" for name in (i, j) if notes[name]]
    return "; ".join(own) or because


def _disagreements(
    omnibus: Omnibus,
    pairs: Sequence[Contrast],
    of_ranks: Omnibus,
    ranked: Sequence[Contrast],
    alpha: float,
) -> tuple[str, ...]:
    """Where tests of means and of ranks say different things."""
    others = {(it.i, it.j): it for it in ranked}
    both: list[tuple[str, Omnibus | Contrast, Omnibus | Contrast]] = [
        ("all groups", omnibus, of_ranks)
    ]
    both += [
        (f"{it.i} and {it.j}", it, others[it.i, it.j])
        for it in pairs
        if it.p is not None
    ]
    return tuple(
        f"{what}: {one.test}, p = {one.p:.2g}; {other.test}, p = {other.p:.2g}"
        for what, one, other in both
        if one.p is not None
        and other.p is not None
        and (one.p < alpha) != (other.p < alpha)
    )
