"""Effects of factors and their interactions, without assuming a distribution.

The test is the ANOVA-type statistic of Brunner, Dette and Munk (1997, JASA 92, 1494-1502), for the
hypotheses of Akritas, Arnold and Brunner (1997, JASA 92, 258-265): cells may scatter differently,
have unequal sizes, ties and outliers. The better known aligned rank transform finds interactions
where there are none (Tsandilas and Casiez 2025).

Ranks are pseudo-ranks, and effects are relative effects with the intervals of Brunner,
Konietschke, Pauly and Puri (2017, JRSS B 79, 1463-1485), so that neither depends on the sizes of
the cells. A relative effect is the probability that a value of one cell is greater than one of
any cell, with ties counted half: 0.5 if a factor has no effect.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from eigentime_report.statistics.description import CONFIDENCE, Effect
from eigentime_report.statistics.intervals import Values, t_beyond, usable
from eigentime_report.statistics.tests import TestResult

TEST = "ANOVA-type statistic"
RANGE = "range of relative effects"
TIMES = " × "

# Smaller traces are rounding errors of 0.
NOTHING = 1e-14


@dataclass(frozen=True, kw_only=True)
class FactorEffect(TestResult):
    """The effect of one factor or interaction; without a statistic and a p, the note gives the
    reason.

    It is the largest difference between the relative effects of the term's levels, after
    subtracting the effects of its parts.
    """

    test: str = TEST
    term: str
    effect: Effect


def factorial(
    values: ArrayLike, factors: Mapping[str, Sequence[str]], *, confidence: float = CONFIDENCE
) -> list[FactorEffect]:
    """The effects of crossed factors and of their interactions.

    `factors` has each factor's level for every value. Factors with one level are left out.
    """
    row = usable(values)
    design = _Design.of(factors)

    def untested(term: Sequence[str], why: str) -> FactorEffect:
        return FactorEffect(
            term=TIMES.join(term), n=row.size, effect=Effect(RANGE, note=why), note=why
        )

    if reason := design.lacks():
        tested = [untested(term, reason) for term in design.terms()]
    else:
        cells = _Cells.of(row, design)
        tested = [_test(term, design, cells, confidence) for term in design.terms()]
    return tested + [
        untested((name,), f"it has one level: {levels[0]}")
        for name, levels in factors.items()
        if name not in design.names
    ]


@dataclass(frozen=True, eq=False)
class _Design:
    """Factors with two or more levels, and the cell of each value: the last factor varies
    fastest."""

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    cell: NDArray[np.int64]

    @classmethod
    def of(cls, factors: Mapping[str, Sequence[str]]) -> "_Design":
        """The design, with levels in the order of their first occurrence."""
        levels = {name: tuple(dict.fromkeys(given)) for name, given in factors.items()}
        names = tuple(name for name, its in levels.items() if len(its) > 1)
        cell = np.zeros(len(next(iter(factors.values()))), dtype=np.int64)
        for name in names:
            codes = np.array([levels[name].index(level) for level in factors[name]])
            cell = cell * len(levels[name]) + codes
        return cls(names, tuple(levels[name] for name in names), cell)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of values in each cell."""
        return np.bincount(self.cell, minlength=prod(map(len, self.levels)))

    def terms(self) -> list[tuple[str, ...]]:
        """The factors, then their interactions."""
        counts = range(1, len(self.names) + 1)
        return [term for count in counts for term in combinations(self.names, count)]

    def lacks(self) -> str:
        """The cells that prevent a test of the design; empty if there are none."""
        labels = [TIMES.join(cell) for cell in product(*self.levels)]
        for size, what in enumerate(("no values", "a single value, which does not scatter,")):
            if found := [it for it, n in zip(labels, self.sizes, strict=True) if n == size]:
                return f"{what} at {_some(found)}"
        return ""

    def centring(self, term: tuple[str, ...]) -> Values:
        """The projection of cells on what a term adds to its parts."""
        return self._kron(term, lambda n: np.eye(n) - 1 / n, lambda n: np.full((n, n), 1 / n))

    def averaging(self, term: tuple[str, ...]) -> Values:
        """The mean over all other factors, for each combination of the term's levels."""
        return self._kron(term, np.eye, lambda n: np.full((1, n), 1 / n))

    def _kron(
        self, term: tuple[str, ...], own: Callable[[int], Values], other: Callable[[int], Values]
    ) -> Values:
        """The Kronecker product of one matrix per factor, for those of the term and the others."""
        known = zip(self.names, self.levels, strict=True)
        parts = ((own if name in term else other)(len(levels)) for name, levels in known)
        found: Values = reduce(np.kron, parts)  # type: ignore[arg-type]
        return found


def _some(labels: Sequence[str], most: int = 3) -> str:
    more = len(labels) - most
    return ", ".join(labels[:most]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, eq=False)
class _Cells:
    """The relative effects of the cells, and their covariances."""

    sizes: NDArray[np.int64]
    relative: Values
    # Of each cell's mean pseudo-rank, times n, if factors have no effect: the cells are
    # independent.
    variance: Values
    # Of the relative effects in general: all depend on each other.
    covariance: Values

    @classmethod
    def of(cls, values: Values, design: _Design) -> "_Cells":
        """From the share of each cell's values that each value exceeds, with ties counted half."""
        sizes = design.sizes
        count = sizes.size
        members = [np.flatnonzero(design.cell == cell) for cell in range(count)]
        exceeded = np.stack([_share_below(values[rows], values) for rows in members])
        pseudo_ranks = exceeded.mean(axis=0)
        covariance = np.zeros((count, count))
        for cell, rows in enumerate(members):
            # A value of this cell raises its own effect and lowers the others'.
            moves = -exceeded[:, rows] / count
            moves[cell] = (exceeded[:, rows].sum(axis=0) - exceeded[cell, rows]) / count
            covariance += np.cov(moves) / rows.size
        return cls(
            sizes,
            np.array([pseudo_ranks[rows].mean() for rows in members]),
            np.array([pseudo_ranks[rows].var(ddof=1) / rows.size for rows in members]),
            covariance,
        )


def _share_below(cell: Values, values: Values) -> Values:
    ordered = np.sort(cell)
    less = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    return np.asarray((less + up_to) / (2 * cell.size), dtype=np.float64)


def _test(term: tuple[str, ...], design: _Design, cells: _Cells, confidence: float) -> FactorEffect:
    centring = design.centring(term)
    scatter = centring * cells.variance
    trace = float(np.trace(scatter))
    between = float(cells.relative @ centring @ cells.relative)
    n, name = int(cells.sizes.sum()), TIMES.join(term)
    if trace <= NOTHING:
        why = "no cell scatters: " + (
            "the levels do not overlap" if between > NOTHING else "all values are alike"
        )
        return FactorEffect(term=name, n=n, effect=Effect(RANGE, note=why), note=why)
    diagonal = np.diag(centring)
    df1 = trace**2 / float(np.sum(scatter * scatter.T))
    df2 = float(diagonal @ cells.variance) ** 2 / float(
        np.sum(np.square(diagonal * cells.variance) / (cells.sizes - 1))
    )
    statistic = between / trace
    p = float(special.fdtrc(df1, df2, statistic))
    size = _range(term, design, cells, df2, confidence)
    return FactorEffect(term=name, n=n, effect=size, statistic=statistic, df1=df1, df2=df2, p=p)


def _range(
    term: tuple[str, ...], design: _Design, cells: _Cells, df: float, confidence: float
) -> Effect:
    """The largest difference, with an interval that holds for all of them together."""
    contrast = design.averaging(term) @ design.centring(term)
    parts = contrast @ cells.relative
    covariance = contrast @ cells.covariance @ contrast.T
    first, second = np.triu_indices(parts.size, k=1)
    differences = np.abs(parts[first] - parts[second])
    own = np.diag(covariance)
    variances = own[first] + own[second] - 2 * covariance[first, second]
    t = t_beyond((1 - confidence) / 2 / differences.size, df)
    reach = t * np.sqrt(np.maximum(variances, 0.0))
    low = max(float((differences - reach).max()), 0.0)
    high = min(float((differences + reach).max()), 1.0)
    note = "" if reach.max() > NOTHING else "the levels do not overlap"
    return Effect(RANGE, float(differences.max()), low, high, note)
