"""Which of function, level and load matter, as in the timing paper."""

from eigentime_report.analysis import Analysis, analyse
from eigentime_report.results import Results
from eigentime_report.tables.descriptives import TITLES
from eigentime_report.tables.table import Between, Column, Row, Table

COLUMNS = (
    Column("among", "Among"),
    Column("statistic", "Statistic"),
    Column("term", "Factor or interaction"),
    Column("test", "Test"),
    Column("value", "Test's value", "number"),
    Column("df1", "df1", "df"),
    Column("df2", "df2", "df"),
    Column("p", "p", "p"),
    Column("n", "n", "count"),
    Column("effect", "Effect", band="Effect size"),
    Column("size", "Size", "number", band="Effect size"),
    Column("size_interval", "CI", "number", band="Effect size", is_interval=True),
    Column("says", "What it says"),
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


def factors_table(
    results: Results, kind: str, *, analysis: Analysis | None = None
) -> Table:
    """Function × level × load and their interactions on median, MAD, maximum and minimum."""
    found = analysis or analyse(results)
    tests = found.factor_tests(kind)
    rows = [
        Row(
            cells=(
                test.among or "all",
                test.statistic,
                effect.term,
                effect.test,
                effect.statistic,
                effect.df1,
                effect.df2,
                effect.p,
                effect.n,
                effect.effect.name,
                effect.effect.value,
                Between.of(effect.effect.low, effect.effect.high),
                effect.note or effect.effect.note,
            ),
            group=f"{test.among} {test.statistic}",
        )
        for test in tests
        for effect in test.effects
    ]
    units = sorted(
        {"batches" if test.unit == "batch" else f"{test.unit}s" for test in tests}
    )
    left_out = sorted({name for test in tests for name in test.left_out})
    notes = [note.format(units=" or ".join(units)) for note in NOTES]
    if left_out:
        notes.append(f"Not measured everywhere, and not in it: {', '.join(left_out)}.")
    return Table(
        key=f"factors-{kind}",
        title=f"{TITLES.get(kind, kind)}: which of function, level and load matter",
        columns=COLUMNS,
        rows=tuple(rows),
        notes=tuple(notes),
    )
