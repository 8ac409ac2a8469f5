"""Which of function, level and load matter, as in the timing paper."""

from dataclasses import dataclass

from eigentime_report.analysis import Analysis, FactorTest, analyse
from eigentime_report.results import Results
from eigentime_report.statistics import FactorEffect
from eigentime_report.tables.descriptives import TITLES
from eigentime_report.tables.table import Between, Column, Row, Table


@dataclass(frozen=True)
class _Tried:
    """A test, and one of its effects."""

    test: FactorTest
    effect: FactorEffect


BAND = "Effect size"
COLUMNS = (
    Column("among", "Among", of=lambda it: it.test.among or "all"),
    Column("statistic", "Statistic", of="test.statistic"),
    Column("term", "Factor or interaction", of="effect.term"),
    Column("test", "Test", of="effect.test"),
    Column("value", "Test's value", "number", of="effect.statistic"),
    Column("df1", "df1", "df", of="effect.df1"),
    Column("df2", "df2", "df", of="effect.df2"),
    Column("p", "p", "p", of="effect.p"),
    Column("n", "n", "count", of="effect.n"),
    Column("effect", "Effect", band=BAND, of="effect.effect.name"),
    Column("size", "Size", "number", band=BAND, of="effect.effect.value"),
    Column(
        "size_interval",
        "CI",
        "number",
        band=BAND,
        is_interval=True,
        of=lambda it: Between.of(it.effect.effect.low, it.effect.effect.high),
    ),
    Column("says", "What it says", of=lambda it: it.effect.note or it.effect.effect.note),
)

NOTES = (
    (
        "Tried on the median, MAD, maximum and minimum of each unit: {units}. The factors are those that "
        "were varied: the function (what is called, read or slept by), the level (the paper's platform) "
        "and the load."
    ),
    (
        "ANOVA-type statistic of ranks (Brunner, Dette and Munk 1997): it assumes no distribution. The "
        "effect is the range of relative effects: how much more likely a value at one of the factor's "
        "levels is greater than any other, than at another of its levels."
    ),
)


def factors_table(results: Results, kind: str, *, analysis: Analysis | None = None) -> Table:
    """Function × level × load and their interactions on median, MAD, maximum and minimum."""
    tests = (analysis or analyse(results)).factor_tests(kind)
    names = {"batches" if it.unit == "batch" else f"{it.unit}s" for it in tests}
    left_out = sorted({name for test in tests for name in test.left_out})
    notes = [note.format(units=" or ".join(sorted(names))) for note in NOTES]
    if left_out:
        notes.append(f"Not measured everywhere, and not in it: {', '.join(left_out)}.")
    return Table(
        key=f"factors-{kind}",
        title=f"{TITLES.get(kind, kind)}: which of function, level and load matter",
        columns=COLUMNS,
        rows=tuple(
            Row.of(COLUMNS, _Tried(test, effect), f"{test.among} {test.statistic}")
            for test in tests
            for effect in test.effects
        ),
        notes=tuple(notes),
    )
