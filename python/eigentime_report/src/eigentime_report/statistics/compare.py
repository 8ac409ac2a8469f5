"""Comparison of groups: the suitable tests, their results, and a verdict for each pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, hypot, inf, log
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from eigentime_report import units
from eigentime_report.statistics import tests
from eigentime_report.statistics.description import (
    FEWEST_FOR_MEDIANS,
    MEAN_RATIO,
    MEDIAN_RATIO,
    Effect,
    cliffs_delta,
    hedges_g,
    median_draws,
)
from eigentime_report.statistics.intervals import Interval, Summary, Values, is_constant, usable
from eigentime_report.statistics.tests import Pair, TestResult, pairs_of

ANOVA_TUKEY = "anova+tukey"
WELCH_GAMES_HOWELL = "welch+games-howell"
KRUSKAL_DUNN = "kruskal+dunn"
IDENTICAL = "identical"
NOTHING = "nothing"

# With fewer values, Levene's test hardly ever notices different scatter: relying on it makes
# Tukey's test err twice as often as it claims (tests/statistics/test_simulated.py).
FEWEST_FOR_LEVENE = 10


def choose(
    groups: Mapping[str, Values], levene: TestResult, alpha: float, as_in_paper: bool
) -> tuple[str, str]:
    """The procedure for groups of two values or more, and the reason in words."""
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


DIFFERS = "differs"
UNDECIDED = "undecided"
NOT_TESTED = "not tested"

# Ratios with a greater logarithm are practically infinite.
FARTHEST = 200.0


def same_within_text(same_within: float) -> str:
    """The verdict of equivalence: `same within 1 %`."""
    return f"same within {units.margin(same_within)}"


def coarse_text(resolution: float) -> str:
    """Why a difference cannot be seen: `the clock steps by up to 13 ns`."""
    return f"the clock steps by up to {units.duration(resolution)}"


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Group i minus group j, and its assessment.

    Differences are of means, or of medians if ranks were tested. All intervals of a comparison
    hold simultaneously: those of means by the test itself, the others by Bonferroni.
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
    # Of group j's mean or median.
    percent: float | None = None
    percent_low: float | None = None
    percent_high: float | None = None
    p: float | None = None
    effects: tuple[Effect, ...] = ()
    # Whether the interval lies within the limit of `same`, even if the groups differ.
    is_within: bool = False
    # The smallest difference that the values can show, because their clock has steps: the intervals
    # include it.
    resolution: float = 0.0
    # Whether it is undecided only for that reason, so that more values would not help.
    is_coarse: bool = False

    @property
    def in_units(self) -> Interval | None:
        """The difference with its interval, if it was tested."""
        return None if self.difference is None else Interval(self.difference, self.low, self.high)

    @property
    def in_percent(self) -> Interval | None:
        """The same in percent, if possible."""
        its = self.percent
        return None if its is None else Interval(its, self.percent_low, self.percent_high)

    def effect(self, name: str) -> Effect | None:
        """The effect with this name."""
        return next((each for each in self.effects if each.name == name), None)


@dataclass(frozen=True)
class Terms:
    """The criteria for verdicts."""

    alpha: float
    same_within: float
    # The confidence of each interval, so that all hold simultaneously.
    each: float
    resolution: float


def contrast(
    i: str, j: str, a: Values, b: Values, tested: Pair, of_ranks: bool, terms: Terms
) -> Contrast:
    """The contrast of a pair for which a test has a p, unless all values are equal."""
    if is_constant(np.concatenate((a, b))):
        return identical(i, j, a, b, terms)
    step, p = terms.resolution, tested.p
    if p is None:
        return not_tested(i, j, a.size + b.size, tested.note)
    medians, of_medians = median_difference(a, b, terms.each)
    sure = Interval(tested.difference, tested.low, tested.high)
    of_means = None if of_ranks else mean_ratio(a, b, sure)
    ratio, middle = of_means, float(b.mean())
    if of_ranks:
        sure, ratio, middle = medians, of_medians, float(np.median(b))
    unseen = step / middle if middle > 0 else inf
    # The interval of a logarithm has no end below -1.
    is_bounded = ratio is not None and (ratio.low or 0.0) > -1
    percent = ratio and ratio.widened(unseen, -1.0 if is_bounded else -inf).times(100)
    known = sure.widened(step)
    differs = p < terms.alpha
    is_within = percent is not None and percent.is_within(100 * terms.same_within)
    verdict = UNDECIDED
    if differs and _shows(sure, step):
        verdict = DIFFERS
    elif is_within:
        verdict = same_within_text(terms.same_within)
    would_be = ratio is not None and ratio.is_within(terms.same_within)
    is_coarse = verdict == UNDECIDED and (differs or would_be)
    because = f"{tested.test}, p = {p:.2g}; {_reach(percent, terms)}"
    return Contrast(
        i=i,
        j=j,
        test=tested.test,
        n=a.size + b.size,
        verdict=verdict,
        because=f"{coarse_text(step)}; {because}" if is_coarse else because,
        difference=known.value,
        low=known.low,
        high=known.high,
        percent=percent.value if percent else None,
        percent_low=percent.low if percent else None,
        percent_high=percent.high if percent else None,
        p=p,
        effects=(
            hedges_g(a, b, confidence=terms.each),
            cliffs_delta(a, b, confidence=terms.each),
            _ratio(MEAN_RATIO, of_means),
            _ratio(MEDIAN_RATIO, of_medians),
        ),
        is_within=is_within,
        resolution=step,
        is_coarse=is_coarse,
    )


def identical(i: str, j: str, a: Values, b: Values, terms: Terms) -> Contrast:
    """Two groups with the same single value, within the resolution of their clock."""
    n, step, value = a.size + b.size, terms.resolution, float(b[0])
    share = step and (step / value if value > 0 else inf)
    is_within = share <= terms.same_within
    because = f"all {units.count(n)} values are the same"
    is_known = share < inf
    return Contrast(
        i=i,
        j=j,
        test="none",
        n=n,
        verdict=IDENTICAL if is_within else UNDECIDED,
        because=because if is_within else f"{coarse_text(step)}, and {because}",
        difference=0.0,
        low=-step,
        high=step,
        percent=0.0 if is_known else None,
        percent_low=max(-100 * share, -100.0) if is_known else None,
        percent_high=100 * share if is_known else None,
        is_within=is_within,
        resolution=step,
        is_coarse=not is_within,
    )


def not_tested(i: str, j: str, n: int, because: str) -> Contrast:
    """Two groups that cannot be tested."""
    return Contrast(i=i, j=j, test="none", n=n, verdict=NOT_TESTED, because=because)


def _ratio(name: str, share: Interval | None) -> Effect:
    """The relative difference, from a ratio."""
    if share is None:
        return Effect(name, note="it is not of what is 0 or less, or was not tested")
    low, high = (None if it is None else 1 + it for it in (share.low, share.high))
    return Effect(name, 1 + share.value, low, high)


def _shows(sure: Interval, resolution: float) -> bool:
    """Whether it exceeds the resolution of the clock, including its interval if there is one."""
    if resolution == 0:
        return True
    if sure.low is None or sure.high is None:
        return abs(sure.value) > resolution
    return sure.low > resolution or sure.high < -resolution


def mean_ratio(a: Values, b: Values, difference: Interval) -> Interval | None:
    """The relative difference of the means, with an interval of the logarithm of their ratio.

    It is as wide as the test's, divided between both means according to their scatter. An
    interval never contradicts its verdict: if the means differ, it is the test's own. None if a
    mean is not above 0.
    """
    one, other = Summary.of(a), Summary.of(b)
    if other.mean <= 0:
        return None
    own = difference.times(1 / other.mean)
    scatter = hypot(one.error**0.5, other.error**0.5)
    if one.mean <= 0 or own.low is None or own.high is None or scatter == 0:
        return own
    reach = (own.high - own.low) / 2 * other.mean / scatter
    reach *= hypot(one.error**0.5 / one.mean, other.error**0.5 / other.mean)
    middle = log(one.mean) - log(other.mean)
    low, high = (exp(min(middle + it, FARTHEST)) - 1 for it in (-reach, reach))
    found = Interval(own.value, low, high)
    return found if found.leaves_out_zero == own.leaves_out_zero else own


def median_difference(a: Values, b: Values, confidence: float) -> tuple[Interval, Interval | None]:
    """The difference of the medians, and relative to the second one if that is above 0."""
    one, other = float(np.median(a)), float(np.median(b))
    difference = Interval(one - other, None, None)
    if min(a.size, b.size) < FEWEST_FOR_MEDIANS:
        return difference, difference.times(1 / other) if other > 0 else None
    first, second = median_draws(a, b)
    alpha = (1 - confidence) / 2
    low, high = map(float, np.quantile(first - second, (alpha, 1 - alpha)))
    difference = Interval(one - other, low, high)
    if min(one, other, float(second.min())) <= 0:
        return difference, difference.times(1 / other) if other > 0 else None
    low, high = map(float, np.quantile(first / second - 1, (alpha, 1 - alpha)))
    return difference, Interval((one - other) / other, low, high)


def _reach(percent: Interval | None, terms: Terms) -> str:
    if percent is None:
        return "no per cent, as what they are of is not greater than 0"
    if percent.low is None or percent.high is None:
        return "too few values for an interval of the difference"
    low, high = (units.percent(end / 100, figures=3) for end in (percent.low, percent.high))
    return f"the {100 * (1 - terms.alpha):g} % interval is {low} to {high}"


@dataclass(frozen=True)
class Group:
    """The properties of a group; the note says why it is not tested."""

    name: str
    n: int
    mean: float
    sd: float | None
    median: float
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Compared groups, in the given order."""

    groups: tuple[Group, ...]
    alpha: float
    same_within: float
    values: Mapping[str, Values] = field(repr=False, compare=False)
    levene: TestResult
    # One of the above: the tests used.
    chosen: str
    because: str
    omnibus: TestResult
    # Each later group against each earlier one.
    pairs: tuple[Contrast, ...]
    kruskal: TestResult
    # Dunn's test by the names of each pair; the differences are of mean ranks.
    dunn: Mapping[tuple[str, str], Pair]

    @cached_property
    def shapiro(self) -> Mapping[str, TestResult]:
        """Whether each group's values could come from a normal distribution."""
        return {name: tests.shapiro(row) for name, row in self.values.items()}

    @property
    def disagreements(self) -> list[str]:
        """Where tests of means and of ranks disagree."""
        both: list[tuple[str, TestResult | Contrast, TestResult | Pair]] = [
            ("all groups", self.omnibus, self.kruskal),
            *((f"{i} and {j}", self.pair(i, j), ranked) for (i, j), ranked in self.dunn.items()),
        ]
        return [
            f"{what}: {one.test}, p = {one.p:.2g}; {other.test}, p = {other.p:.2g}"
            for what, one, other in both
            if one.p is not None and other.p is not None and one.test != other.test
            if (one.p < self.alpha) != (other.p < self.alpha)
        ]

    def pair(self, i: str, j: str) -> Contrast:
        """Group i against group j, which comes earlier."""
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
    """Compares independent groups by Welch's ANOVA and Games-Howell (see `choose`).

    Whether they scatter alike is not tested first: a test that selects the next one spoils the
    error rates of both. `as_in_paper` nevertheless does so, to compare with published tables.

    Pairs differ if the post hoc test's p is below alpha: it controls the error rate by itself,
    whatever the test of all groups says. Otherwise they are the same within `same_within` if the
    interval of the difference lies within that share of group j's mean or median; otherwise it is
    undecided.

    `resolutions` are the smallest differences that the groups' values can show: intervals are
    wider by the larger one of both, and smaller differences are undecided.
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
    ranked = {(names[it.i], names[it.j]): it for it in dunn}
    return Comparison(
        groups=described,
        alpha=alpha,
        same_within=same_within,
        values=rows,
        levene=scatter,
        chosen=chosen,
        because=because,
        omnibus=omnibus,
        pairs=found,
        kruskal=of_ranks,
        dunn=ranked,
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
    of_ranks: TestResult,
    dunn: Sequence[Pair],
) -> tuple[TestResult, Sequence[Pair]]:
    """The chosen test of all groups, and that of pairs."""
    if chosen in (NOTHING, IDENTICAL):
        return tests.untested("none", sum(row.size for row in values), because), ()
    if chosen == KRUSKAL_DUNN:
        return of_ranks, dunn
    groups = tests.summarize(values)
    if chosen == ANOVA_TUKEY:
        return tests.anova(values, 1 - alpha), tests.tukey_hsd(groups, 1 - alpha)
    return tests.welch_anova(values, 1 - alpha), tests.games_howell(groups, 1 - alpha)
