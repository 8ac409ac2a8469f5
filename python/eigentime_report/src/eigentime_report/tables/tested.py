"""Tests of quantities over levels or loads: of all at once, and of pairs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eigentime_report.analysis import Analysis, Compared, Factor, analyse
from eigentime_report.lists import grouped, listed
from eigentime_report.results import Results
from eigentime_report.statistics import (
    CLIFFS_DELTA,
    DIFFERS,
    HEDGES_G,
    MEAN_RATIO,
    MEDIAN_RATIO,
    Contrast,
    Effect,
    TestResult,
)
from eigentime_report.tables.measured import TITLES
from eigentime_report.tables.table import Between, Cell, Column, Estimate, Row, Table, with_interval

TESTS = (
    Column("quantity", "Quantity"),
    Column("held", "At or under"),
    Column("what", "What is tested"),
    Column("test", "Test"),
    Column("value", "Test's value", "number"),
    Column("df1", "df1", "df"),
    Column("df2", "df2", "df"),
    Column("p", "p", "p"),
    Column("n", "n", "count"),
    Column("effect", "Effect", band="Effect size"),
    Column("size", "Size", "number", band="Effect size"),
    Column("size_interval", "CI", "number", band="Effect size", is_interval=True),
    Column("magnitude", "Is", band="Effect size"),
    Column("says", "What it says"),
)

# What tells how large a difference is, and what its columns are called.
EFFECTS = {
    HEDGES_G: ("g", "Hedges' g"),
    CLIFFS_DELTA: ("delta", "Cliff's delta"),
    MEAN_RATIO: ("means", "Ratio of means"),
    MEDIAN_RATIO: ("medians", "Ratio of medians"),
}


def in_units(pair: Contrast) -> Estimate:
    """The difference with its interval."""
    return pair.difference, pair.low, pair.high


def in_percent(pair: Contrast) -> Estimate:
    """The same in percent."""
    return pair.percent, pair.percent_low, pair.percent_high


def _effects() -> Iterator[Column]:
    for name, (key, title) in EFFECTS.items():

        def of(it: Any, name: str = name) -> Estimate:
            return sized(it.pair.effect(name))

        yield from with_interval(key, title, "number", of, "Effect sizes")


# Each row is of a comparison, one of its pairs, and its test of ranks.
PAIRS = (
    Column("quantity", "Quantity", of="each.quantity.name"),
    Column("held", "At or under", of="each.held"),
    Column("i", "(I)", of="pair.i"),
    Column("j", "(J)", of="pair.j"),
    *with_interval("difference", "Difference (I − J)", "ns", lambda it: in_units(it.pair)),
    *with_interval("change", "Change", "+%", lambda it: in_percent(it.pair)),
    Column("verdict", "Verdict", of=lambda it: verdict(it.pair)),
    Column("test", "Test", of="pair.test"),
    Column("p", "p", "p", of="pair.p"),
    Column("n", "n", "count", of="pair.n"),
    Column("ranks_test", "Test", band="Ranks", of=lambda it: it.rank and it.rank.test),
    Column("ranks_p", "p", "p", band="Ranks", of=lambda it: it.rank and it.rank.p),
    *_effects(),
    Column("because", "Because", of="pair.because"),
)

WHOLE: Mapping[Factor, str] = {"level": "over levels", "load": "over loads"}

STATISTICS = {"mean": "mean", "median": "median", "sd": "SD"}


def tests_table(
    results: Results, kind: str, factor: Factor = "level", *, analysis: Analysis | None = None
) -> Table:
    """Of each quantity: normality, equal scatter, the test that suits, and the one of ranks."""
    found = analysis or analyse(results)
    compared = list(found.comparisons(kind, factor))
    return Table(
        key=f"tests-{kind}-{factor}s",
        title=f"{TITLES.get(kind, kind)}: tests {WHOLE[factor]}",
        columns=TESTS,
        rows=tuple(row for each in compared for row in _tests(each)),
        notes=(
            *_notes(compared),
            (
                "Welch's ANOVA, whether groups scatter alike or not; where a group does not scatter "
                "at all, Kruskal and Wallis's test of ranks, which stands beside it always. With "
                "--as-in-paper, one-way ANOVA where the test of equal scatter finds no difference."
            ),
        ),
    )


def pairs_table(
    results: Results, kind: str, factor: Factor = "level", *, analysis: Analysis | None = None
) -> Table:
    """Of each two levels, or loads: difference, interval, test, effect sizes and verdict."""
    found = analysis or analyse(results)
    compared = list(found.comparisons(kind, factor))
    confidence = 100 * found.confidence
    return Table(
        key=f"pairs-{kind}-{factor}s",
        title=f"{TITLES.get(kind, kind)}: differences {WHOLE[factor]}",
        columns=PAIRS,
        rows=tuple(row for each in compared for row in _pairs(each)),
        notes=(
            *_notes(compared),
            (
                f"Intervals hold at {confidence:g} % for all pairs of a comparison together, as the p do. "
                "Change is of the mean of (J), and of its median where ranks were tested; it is not told "
                "where that is 0 or less."
            ),
            (
                f"Verdict: pairs differ where p is below {1 - found.confidence:g}; they are the same "
                f"within {100 * found.same_within:g} % where the interval of the change lies within it; "
                "what is neither is undecided, and more blocks would decide it."
            ),
            (
                "The sentences allow for how many quantities are told together: p is adjusted once more "
                "(Holm), so what differs here may be open there. Those of the opening tell by how much "
                "the values of the descriptives differ, which may be far from the mean of the units."
            ),
        ),
    )


def _notes(compared: list[Compared]) -> Iterator[str]:
    if compared:
        statistic = STATISTICS[compared[0].statistic]
        yield f"What is compared is the {statistic} of each unit."
    if any(each.quantity.asked_ns for each in compared):
        yield "Of sleeps of 100 ms it is by how much they are longer than that."
    reasons = grouped((each.why, each) for each in compared)
    for why, its in reasons.items():
        yield f"{_which(its, compared)}: {why}" if len(reasons) > 1 else why


def _which(its: list[Compared], among: list[Compared]) -> str:
    """Of which quantities a note is, and at or under what: `nanosleep (baseline and vm)`."""
    titles = dict.fromkeys(each.quantity.title for each in its)
    is_all = len(titles) == len({each.quantity for each in among})
    held = listed(list(dict.fromkeys(each.held for each in its)))
    return f"{'All' if is_all else listed(list(titles))} ({held})"


def _tests(compared: Compared) -> Iterator[Row]:
    comparison = compared.comparison
    for group, test in comparison.shapiro.items():
        yield _row(compared, f"normal: {group}", test)
    yield _row(compared, "equal scatter", comparison.levene)
    all_equal = f"equal {compared.factor}s"
    if comparison.omnibus.test != comparison.kruskal.test:
        yield _row(compared, all_equal, comparison.omnibus, comparison.because)
    yield _row(compared, all_equal, comparison.kruskal, "; ".join(comparison.disagreements))


def _row(compared: Compared, what: str, test: TestResult, says: str = "") -> Row:
    size: tuple[Cell, ...] = (None,) * 4
    if its := test.effect:
        size = (its.name, its.value, Between.of(its.low, its.high), its.magnitude)
    return Row(
        cells=(
            compared.quantity.name,
            compared.held,
            what,
            test.test,
            test.statistic,
            test.df1,
            test.df2,
            test.p,
            test.n,
            *size,
            test.note or says,
        ),
        group=f"{compared.quantity.name} {compared.held}",
    )


@dataclass(frozen=True)
class _Pair:
    each: Compared
    pair: Contrast
    # The test of ranks of the same pair, if there is one.
    rank: object


def _pairs(compared: Compared) -> Iterator[Row]:
    group = f"{compared.quantity.name} {compared.held}"
    for pair in compared.comparison.pairs:
        rank = compared.comparison.dunn.get((pair.i, pair.j))
        yield Row.of(PAIRS, _Pair(compared, pair, rank), group)


def verdict(pair: Contrast) -> str:
    """The verdict; where pairs differ by less than what counts as the same, that too."""
    return (
        f"{pair.verdict}, and little"
        if pair.verdict == DIFFERS and pair.is_within
        else pair.verdict
    )


def sized(effect: Effect | None) -> Estimate:
    """An effect with its interval."""
    return (effect.value, effect.low, effect.high) if effect else (None, None, None)
