"""Generated values with known effects: the stated error rates, and effects that are found.

Rates are held against the binomial distribution: a right procedure fails one of these
tests once in a thousand seeds, and the seeds are fixed.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from eigentime_report.statistics import (
    DIFFERS,
    Effect,
    Interval,
    compare,
    factorial,
    mean_interval,
    quantile_interval,
)
from eigentime_report.statistics.compare import mean_ratio, median_difference
from eigentime_report.statistics.description import cliffs_delta, hedges_g
from eigentime_report.statistics.tests import (
    Pair,
    games_howell,
    kruskal,
    levene,
    summarize,
    tukey_hsd,
    welch_anova,
)

ALPHA = 0.05
CHANCE = 1e-3

Generator = np.random.Generator
Values = NDArray[np.float64]


def assert_rate(times: int, of: int, low: float, high: float | None = None) -> None:
    """So many times of so many is what a rate between low and high gives."""
    high = low if high is None else high
    assert stats.binom.cdf(times, of, low) > CHANCE, f"{times} of {of} is too seldom"
    assert stats.binom.sf(times - 1, of, high) > CHANCE, f"{times} of {of} is too often"


def generators(count: int, seed: int) -> Iterator[Generator]:
    """One for each repetition."""
    return map(np.random.default_rng, np.random.SeedSequence(seed).spawn(count))


def skewed(generator: Generator, n: int, sd: float = 1.0) -> Values:
    """As times are: a long tail on the right, with the mean at 0."""
    values: Values = sd * (generator.lognormal(0, 0.5, n) - np.exp(0.125))
    return values


SCATTER: dict[str, Callable[[Generator], list[Values]]] = {
    "equal": lambda g: [g.normal(100, 2, 12) for _ in range(3)],
    "few and unequal": lambda g: [g.normal(100, sd, 5) for sd in (1, 1, 3)],
    "unequal": lambda g: [g.normal(100, sd, 15) for sd in (1, 2, 6)],
    "unequal sizes": lambda g: [g.normal(100, sd, n) for sd, n in ((1, 30), (2, 20), (4, 12))],
    "skewed": lambda g: [100 + skewed(g, 20) for _ in range(3)],
    "steps": lambda g: [np.round(g.normal(100, 1, 20)) for _ in range(3)],
}


@pytest.mark.parametrize("scatter", SCATTER)
def test_nothing_is_found_where_nothing_is(scatter: str) -> None:
    """Any pair of the post hoc test, and the test of all groups: no more than alpha."""
    count = 60
    pairs = groups = 0
    for generator in generators(count, 100):
        values = SCATTER[scatter](generator)
        pairs += any((pair.p or 0) < ALPHA for pair in games_howell(summarize(values)))
        groups += (welch_anova(values).p or 0) < ALPHA
    assert_rate(groups, count, 0.02, ALPHA)
    assert_rate(pairs, count, 0.02, ALPHA)


def test_few_values_do_not_show_that_scatter_differs() -> None:
    """Why the table of decisions does not ask Levene's test about five values."""
    count = 600
    seen = wrong = 0
    for generator in generators(count, 114):
        groups = [generator.normal(100, sd, 5) for sd in (1, 1, 1, 4)]
        p = levene(groups).p
        assert p is not None
        seen += p < ALPHA
        wrong += any((pair.p or 0) < ALPHA for pair in tukey_hsd(summarize(groups)))
    assert seen < 0.4 * count
    assert wrong > stats.binom.isf(CHANCE, count, ALPHA)


def test_large_effects_are_found() -> None:
    count = 60
    told = exact = 0
    for generator in generators(count, 101):
        found = compare(
            {
                "baseline": generator.normal(100, 2, 15),
                "namespace": generator.normal(106, 3, 15),
                "container": generator.normal(106, 3, 15),
            }
        )
        verdicts = [pair.verdict == DIFFERS for pair in found.pairs]
        told += verdicts[:2] == [True, True]
        exact += not verdicts[2]
    assert told >= 56
    assert_rate(exact, count, 0.95, 0.99)


def test_sameness_is_said_where_it_is_and_seldom_else() -> None:
    """Groups 1 % apart are called the same within 1 % in at most alpha of all cases."""
    count = 80
    same = wrong = 0
    for generator in generators(count, 102):
        a = generator.normal(1000, 10, 30)
        near, far = generator.normal(1000, 10, 30), generator.normal(1010, 10, 30)
        same += compare({"a": a, "b": near}).pairs[0].is_within
        wrong += compare({"a": a, "b": far}).pairs[0].is_within
    assert same > 0.85 * count
    assert wrong <= stats.binom.isf(CHANCE, count, ALPHA)


@pytest.mark.parametrize("test", [tukey_hsd, games_howell])
def test_intervals_of_pairs_hold_together(test: Callable[..., list[Pair]]) -> None:
    count, means = 150, (10, 11, 15)
    held = 0
    for generator in generators(count, 103):
        sds = (1, 1, 1) if test is tukey_hsd else (1, 3, 6)
        groups = [generator.normal(mean, sd, 12) for mean, sd in zip(means, sds)]
        held += all(
            (pair.low or 0) <= means[pair.i] - means[pair.j] <= (pair.high or 0)
            for pair in test(summarize(groups))
        )
    assert_rate(held, count, 0.94, 0.96)


def medians_apart(a: Values, b: Values) -> Interval:
    """By which share the first median is more, as it stands beside verdicts."""
    _, share = median_difference(a, b, 1 - ALPHA)
    assert share is not None
    return share


def means_apart(a: Values, b: Values) -> Interval:
    """By which share the first mean is more."""
    (pair,) = games_howell(summarize([b, a]))
    share = mean_ratio(a, b, Interval(pair.difference, pair.low, pair.high))
    assert share is not None
    return share


NORMAL_OVERLAP = 2 * stats.norm.cdf(0.8 / np.sqrt(2)) - 1


@pytest.mark.parametrize(
    ("interval", "truth", "low", "high"),
    [
        (lambda g: hedges_g(g.normal(0.8, 1, 10), g.normal(0, 1, 10)), 0.8, 0.94, 0.96),
        (lambda g: hedges_g(g.normal(2, 1, 15), g.normal(0, 3, 15)), 2 / np.sqrt(5), 0.94, 0.965),
        (
            lambda g: cliffs_delta(g.normal(0.8, 1, 15), g.normal(0, 1, 15)),
            NORMAL_OVERLAP,
            0.93,
            0.98,
        ),
        (lambda g: means_apart(g.normal(12, 1, 8), g.normal(10, 3, 8)), 0.2, 0.93, 0.97),
        (
            lambda g: medians_apart(g.lognormal(0.3, 0.5, 25), g.lognormal(0, 0.5, 25)),
            np.exp(0.3) - 1,
            0.93,
            0.98,
        ),
        (lambda g: medians_apart(g.normal(110, 9, 5), g.normal(100, 9, 5)), 0.1, 0.88, 0.98),
        (lambda g: mean_interval(g.normal(5, 2, 6), 0.95), 5, 0.94, 0.96),
        (lambda g: quantile_interval(g.exponential(1, 400), 0.9), np.log(10), 0.93, 0.97),
        (lambda g: quantile_interval(g.exponential(1, 41), 0.5), np.log(2), 0.93, 0.98),
    ],
    ids=[
        "g",
        "g, unequal",
        "delta",
        "ratio of means",
        "ratio of medians",
        "ratio of medians of 5",
        "mean",
        "90th percentile",
        "median",
    ],
)
def test_intervals_hold_the_truth(
    interval: Callable[[Generator], Effect | Interval], truth: float, low: float, high: float
) -> None:
    count, held = 400, 0
    for generator in generators(count, 104):
        found = interval(generator)
        assert found.low is not None and found.high is not None
        held += found.low <= truth <= found.high
    assert_rate(held, count, low, high)


def test_explained_variance_holds_the_truth() -> None:
    count, means, n = 250, np.array([0.0, 0.5, 1.0]), 20
    truth = np.var(means) / (np.var(means) + 1)
    held = 0
    for generator in generators(count, 105):
        found = welch_anova([generator.normal(mean, 1, n) for mean in means])
        assert found.effect.low is not None and found.effect.high is not None
        held += found.effect.low <= truth <= found.effect.high
    assert_rate(held, count, 0.93, 0.97)


BLOCKS, PER_BLOCK = 8, 40


def in_blocks(generator: Generator, mean: float) -> Values:
    """A row for each block: values of one block are nearer to each other."""
    drift = generator.normal(0, 1, (BLOCKS, 1))
    return mean + drift + generator.normal(0, 1, (BLOCKS, PER_BLOCK))


def test_blocks_are_compared_by_their_means() -> None:
    """Means of blocks keep alpha; values taken as independent find what is not there."""
    count = 40
    by_blocks = by_values = found = 0
    for generator in generators(count, 107):
        a, b, far = (in_blocks(generator, mean) for mean in (100, 100, 103))
        by_blocks += compare({"a": a.mean(1), "b": b.mean(1)}).pairs[0].verdict == DIFFERS
        by_values += compare({"a": a.ravel(), "b": b.ravel()}).pairs[0].verdict == DIFFERS
        found += compare({"a": a.mean(1), "b": far.mean(1)}).pairs[0].verdict == DIFFERS
    assert_rate(by_blocks, count, 0.02, ALPHA)
    assert by_values > 0.5 * count
    assert found > 0.95 * count


def test_intervals_of_quantiles_reckon_with_blocks() -> None:
    count = 100
    blocks = np.repeat(np.arange(BLOCKS), PER_BLOCK)
    held = {True: 0, False: 0}
    for generator in generators(count, 108):
        sample = in_blocks(generator, 100).ravel()
        for is_known in held:
            interval = quantile_interval(sample, 0.5, None, blocks if is_known else None)
            assert interval.low is not None and interval.high is not None
            held[is_known] += interval.low <= 100 <= interval.high
    assert_rate(held[True], count, 0.91, 0.98)
    assert held[False] < 0.5 * count


def factorial_rejections(
    effects: Callable[[Generator], Values], count: int, seed: int
) -> dict[str, int]:
    """How often each term of a 3 x 2 design of 8 values a cell is significant."""
    cells = [(a, b) for a in range(3) for b in range(2) for _ in range(8)]
    factors = {"function": [f"f{a}" for a, _ in cells], "load": [f"l{b}" for _, b in cells]}
    times: dict[str, int] = {}
    for generator in generators(count, seed):
        for effect in factorial(effects(generator), factors):
            assert effect.p is not None
            times[effect.term] = times.get(effect.term, 0) + (effect.p < ALPHA)
    return times


FUNCTION = np.repeat([0, 1, 2], 16)
LOAD = np.tile(np.repeat([0, 1], 8), 3)


@pytest.mark.parametrize(
    "noise",
    [
        lambda g: skewed(g, 48),
        lambda g: np.round(2 * g.standard_t(3, 48)),
        # A main effect of the other factor, and its scatter, must not be taken for more.
        lambda g: 3 * LOAD + (1 + 3 * LOAD) * g.normal(0, 1, 48),
    ],
    ids=["skewed", "heavy tails with ties", "the other factor scatters"],
)
def test_factors_that_do_nothing_are_not_found(noise: Callable[[Generator], Values]) -> None:
    count = 200
    times = factorial_rejections(noise, count, 109)
    for term in ("function", "function × load"):
        assert_rate(times[term], count, 0.025, 0.06)


def test_factors_and_interactions_are_found() -> None:
    def effects(generator: Generator) -> Values:
        return 2.0 * FUNCTION + 2.0 * LOAD + skewed(generator, 48, 1.5)

    times = factorial_rejections(effects, 30, 110)
    assert times["function"] == 30
    assert times["load"] >= 25
    only_together = factorial_rejections(
        lambda g: 2.0 * (1 - 2 * LOAD) * (FUNCTION - 1) + g.normal(0, 1, 48), 30, 111
    )
    assert only_together["function × load"] == 30
    assert only_together["function"] <= 6


def test_relative_effects_hold_the_truth() -> None:
    count, held = 300, 0
    # Of two normal cells, 1 apart: from the probability of being less to that of being greater.
    truth = stats.norm.cdf(1 / np.sqrt(2)) - 0.5
    for generator in generators(count, 112):
        values = np.concatenate((generator.normal(0, 1, 15), generator.normal(1, 1, 15)))
        (found,) = factorial(values, {"level": ["a"] * 15 + ["b"] * 15})
        assert found.effect.low is not None and found.effect.high is not None
        held += found.effect.low <= truth <= found.effect.high
    assert_rate(held, count, 0.92, 0.97)


def test_ranks_keep_alpha() -> None:
    count = 300
    times = sum(
        (kruskal([skewed(g, 12) for _ in range(3)]).p or 0) < ALPHA for g in generators(count, 113)
    )
    assert_rate(times, count, 0.03, ALPHA)
