"""One group set against another, with a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from eigentime_report import units
from eigentime_report.statistics.decisions import Family
from eigentime_report.statistics.effects import (
    Effect,
    cliffs_delta,
    hedges_g,
    mean_ratio,
    median_ratio,
)
from eigentime_report.statistics.groups import Values, is_constant, summarize
from eigentime_report.statistics.posthoc import Pair
from eigentime_report.statistics.ranges import (
    Range,
    mean_ratio_range,
    median_difference,
)

DIFFERS = "differs"
UNDECIDED = "undecided"
IDENTICAL = "identical"
NOT_TESTED = "not tested"


def same_within_text(same_within: float) -> str:
    """The verdict of equivalence: `same within 1 %`."""
    return f"same within {units.margin(same_within)}"


def coarse_text(resolution: float) -> str:
    """Why a difference cannot be seen: `the clock steps by up to 13 ns`."""
    return f"the clock steps by up to {units.duration(resolution)}"


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Group i minus group j, and what is to be thought of it.

    Differences are of means, or of medians where ranks were tested. All intervals of a
    comparison hold together: those of means by the test itself, the others by Bonferroni.
    """

    i: str
    j: str
    test: str
    n: int
    verdict: str
    because: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    # Of group j's mean or median, or of what was given.
    percent: float | None = None
    percent_low: float | None = None
    percent_high: float | None = None
    # By which part it is more, by the ratio's logarithm, whatever the test says.
    ratio: Range | None = None
    statistic: float | None = None
    p: float | None = None
    effects: tuple[Effect, ...] = ()
    # Whether the interval lies within the limit of `same`, also where groups differ.
    is_within: bool = False
    # Up to which difference the values say nothing, as their clock goes in steps: the intervals
    # have it in them.
    resolution: float = 0.0
    # Whether it is undecided for that reason alone, so that more values would not help.
    is_coarse: bool = False

    def effect(self, name: str) -> Effect | None:
        """The effect of this name."""
        return next((each for each in self.effects if each.name == name), None)


@dataclass(frozen=True)
class Terms:
    """What verdicts are given by."""

    alpha: float
    same_within: float
    percent_of: float | None
    seed: int
    pair_count: int

    @property
    def each(self) -> float:
        """The confidence of each interval with which all hold together."""
        return 1 - self.alpha / max(self.pair_count, 1)


def contrast(
    i: str,
    j: str,
    a: Values,
    b: Values,
    tested: Pair,
    family: Family,
    terms: Terms,
    resolution: float = 0.0,
) -> Contrast:
    """A pair of groups that its family has tested, whose values are known to a resolution."""
    if is_constant(np.concatenate((a, b))):
        return identical(i, j, a, b, terms, resolution)
    if tested.p is None or tested.difference is None:
        return not_tested(i, j, a.size + b.size, tested.note)
    ratio: Range | None
    if family.of_ranks:
        sure, ratio = median_difference(a, b, terms.each, terms.seed)
        by_logarithm = ratio
        middle = float(np.median(b))
    else:
        sure = Range(tested.difference, tested.low, tested.high)
        ratio = by_logarithm = mean_ratio_range(a, b, sure)
        # Beside a verdict stands no interval that says otherwise: the test's own does then.
        if ratio and ratio.leaves_out_zero != sure.leaves_out_zero:
            ratio = None
        middle = summarize(b).mean
    whole, least = terms.percent_of or middle, -1.0
    if terms.percent_of or ratio is None:
        ratio, least = (sure.times(1 / whole) if whole > 0 else None), -inf
    percent = ratio and ratio.widened(resolution / whole, least).times(100)
    percents = (percent.value, *percent.ends) if percent else (None, None, None)
    difference = sure.widened(resolution)
    differs = tested.p < terms.alpha
    is_within = percent is not None and percent.is_within(100 * terms.same_within)
    verdict = (
        DIFFERS
        if differs and sure.shows(resolution)
        else same_within_text(terms.same_within)
        if is_within
        else UNDECIDED
    )
    would_be = ratio is not None and ratio.is_within(terms.same_within)
    is_coarse = verdict == UNDECIDED and (differs or would_be)
    because = f"{by(tested)}; {_reach(percent, terms)}"
    return Contrast(
        i=i,
        j=j,
        test=tested.test,
        n=a.size + b.size,
        verdict=verdict,
        because=f"{coarse_text(resolution)}; {because}" if is_coarse else because,
        difference=difference.value,
        low=difference.low,
        high=difference.high,
        percent=percents[0],
        percent_low=percents[1],
        percent_high=percents[2],
        ratio=by_logarithm,
        statistic=tested.statistic,
        p=tested.p,
        effects=(
            hedges_g(a, b, confidence=terms.each),
            cliffs_delta(a, b, confidence=terms.each),
            mean_ratio(a, b, confidence=terms.each),
            median_ratio(a, b, confidence=terms.each, seed=terms.seed),
        ),
        is_within=is_within,
        resolution=resolution,
        is_coarse=is_coarse,
    )


def rank_contrast(
    i: str,
    j: str,
    a: Values,
    b: Values,
    tested: Pair,
    terms: Terms,
    resolution: float = 0.0,
) -> Contrast:
    """Dunn's test of a pair; its difference is of mean ranks."""
    if is_constant(np.concatenate((a, b))):
        return identical(i, j, a, b, terms, resolution)
    if tested.p is None:
        return not_tested(i, j, a.size + b.size, tested.note)
    is_seen = abs(float(np.median(a) - np.median(b))) > resolution or resolution == 0
    differs = tested.p < terms.alpha
    because = by(tested)
    return Contrast(
        i=i,
        j=j,
        test=tested.test,
        n=a.size + b.size,
        verdict=DIFFERS if differs and is_seen else UNDECIDED,
        because=because if is_seen else f"{coarse_text(resolution)}; {because}",
        difference=tested.difference,
        statistic=tested.statistic,
        p=tested.p,
        effects=(cliffs_delta(a, b, confidence=terms.each),),
        resolution=resolution,
        is_coarse=differs and not is_seen,
    )


def identical(
    i: str, j: str, a: Values, b: Values, terms: Terms, resolution: float = 0.0
) -> Contrast:
    """Two groups with one and the same value, as far as their clock can tell."""
    n = a.size + b.size
    because = f"all {units.count(n)} values are the same"
    whole = terms.percent_of or float(b[0])
    share = resolution / whole if whole > 0 else None
    is_within = resolution == 0 or (share is not None and share <= terms.same_within)
    percent = None if share is None and resolution else 100 * (share or 0.0)
    return Contrast(
        i=i,
        j=j,
        test="none",
        n=n,
        verdict=IDENTICAL if is_within else UNDECIDED,
        because=because if is_within else f"{coarse_text(resolution)}, and {because}",
        difference=0.0,
        low=-resolution,
        high=resolution,
        percent=None if percent is None else 0.0,
        percent_low=None if percent is None else max(-percent, -100.0),
        percent_high=percent,
        is_within=is_within,
        resolution=resolution,
        is_coarse=not is_within,
    )


def not_tested(i: str, j: str, n: int, because: str) -> Contrast:
    """Two groups that cannot be tested."""
    return Contrast(i=i, j=j, test="none", n=n, verdict=NOT_TESTED, because=because)


def by(tested: Pair) -> str:
    """Which test gave which p."""
    return f"{tested.test}, p = {tested.p:.2g}"


def _reach(percent: Range | None, terms: Terms) -> str:
    if percent is None:
        return "no per cent, as what they are of is not greater than 0"
    if percent.low is None or percent.high is None:
        return "too few values for an interval of the difference"
    confidence = 100 * (1 - terms.alpha)
    low, high = (
        units.percent(end / 100, figures=3) for end in (percent.low, percent.high)
    )
    return f"the {confidence:g} % interval is {low} to {high}"
