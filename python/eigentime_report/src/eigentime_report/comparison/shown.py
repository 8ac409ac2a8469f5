"""Changes and outcomes as tables, and as a forest plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from eigentime_report.charts import Chart, forest
from eigentime_report.comparison.changes import Change, Changes
from eigentime_report.comparison.judgement import Judgement
from eigentime_report.comparison.shifts import middles
from eigentime_report.statistics import HEDGES_G, NOT_TESTED
from eigentime_report.tables import Between, Column, Row, Table
from eigentime_report.tables.text import listed

# Medians of all values, which one disturbed block does not move.
MEDIANS = "Median of all"

COLUMNS = (
    Column("quantity", "Quantity"),
    Column("level", "Level"),
    Column("load", "Load"),
    Column("statistic", "What"),
    Column("before", "Before", "ns", figures=4),
    Column("after", "Afterwards", "ns", figures=4),
    Column("change", "Change", "+%"),
    Column("change_interval", "CI", "+%", is_interval=True),
    Column("verdict", "Verdict"),
    Column("test", "Test"),
    Column("p", "p", "p"),
    Column("n", "n", "count"),
    Column("difference", "Difference", "ns"),
    Column("difference_interval", "CI", "ns", is_interval=True),
    Column("g", "Hedges' g", "number"),
    Column("unit", "Unit"),
    Column("median_before", "Before", "ns", band=MEDIANS, figures=4),
    Column("median_after", "Afterwards", "ns", band=MEDIANS, figures=4),
)

WHAT = {"mean": "mean", "median": "mean of medians", "sd": "mean of SDs"}

# The key of the table of outcomes.
CONDITIONS = "conditions"

# Circumstances by words, where their names say too little.
CALLED = {"eigentime": "version of Eigentime", "probe": "measuring program"}

TITLES = {"calls": "Calls", "read": "Single readings", "sleep": "Sleeps", "events": "Timer events"}


def key(kind: str) -> str:
    """The key of the table of a kind."""
    return f"changes-{kind}"


def changes_table(changes: Changes, kind: str) -> Table:
    """Before, afterwards and the difference of all quantities of a kind, with tests."""
    own = changes.of(kind)
    limit = 1 - changes.confidence
    return Table(
        key=key(kind),
        title=f"{TITLES.get(kind, kind)}: before and afterwards",
        columns=COLUMNS,
        rows=tuple(map(_row, own)),
        notes=(
            *dict.fromkeys(it.why for it in own),
            *_untested(own),
            (
                "Each verdict stands for itself: where nothing at all has changed, about one of "
                f"{round(1 / limit)} differs by chance. The sentences allow for that. Intervals hold "
                f"at {100 * changes.confidence:g} %."
            ),
        ),
    )


def _untested(changes: Sequence[Change]) -> Iterator[str]:
    """Why something was not tested: a note for each reason."""
    reasons: dict[str, list[str]] = {}
    for it in changes:
        if it.pair.verdict == NOT_TESTED:
            place = f"{it.quantity.name} at {it.held}"
            reasons.setdefault(it.pair.because, []).append(place)
    for reason, where in reasons.items():
        yield f"Not tested: {listed(where)}: {reason}."


def _row(change: Change) -> Row:
    pair = change.pair
    before, after = middles(change.comparison)
    hedges = next((it.value for it in pair.effects if it.name == HEDGES_G), None)
    return Row(
        cells=(
            change.quantity.name,
            change.level,
            change.load,
            WHAT[change.statistic] + (" miss time" if change.quantity.asked_ns else ""),
            before,
            after,
            pair.percent,
            Between.of(pair.percent_low, pair.percent_high),
            pair.verdict,
            pair.test,
            pair.p,
            pair.n,
            pair.difference,
            Between.of(pair.low, pair.high),
            hedges,
            change.unit,
            *change.medians,
        ),
        group=change.quantity.name,
    )


def changes_chart(changes: Changes, kind: str) -> Chart:
    """A forest plot of the changes of a kind."""
    title = f"{TITLES.get(kind, kind)}: by how much they have changed"
    chart = forest(changes.of(kind), key=f"{key(kind)}-effects", title=title)
    caption = (
        "By how many percent there is more afterwards than before; 0 is no change. The lines are "
        f"intervals at {100 * changes.confidence:g} %."
    )
    return replace(chart, caption=caption)


def circumstances_table(changes: Changes) -> Table:
    """Which folders were compared, and what their runs differ in besides."""
    columns = (Column("what", "What"), Column("before", "Before"), Column("after", "Afterwards"))
    both = (changes.before, changes.after)
    known = (
        ("folder", *(", ".join(map(str, it.folders)) for it in both)),
        ("begun", *(", ".join(run.begin for run in it.runs) for it in both)),
        *changes.circumstances,
    )
    rows = tuple(Row((CALLED.get(name, name), *told)) for name, *told in known)
    return Table("circumstances", "What was compared", columns, rows)


def conditions_table(judgements: Sequence[Judgement]) -> Table:
    """What became of each condition, wherever it was judged."""
    columns = (
        Column("condition", "Condition"),
        Column("outcome", "Outcome"),
        Column("quantity", "Quantity"),
        Column("level", "Level"),
        Column("load", "Load"),
        Column("because", "Because"),
    )
    rows = tuple(
        Row(
            (
                it.condition.text.strip(),
                it.outcome.value,
                it.quantity.name if it.quantity else None,
                it.level,
                it.load,
                it.text,
            ),
            group=it.condition.text,
        )
        for it in judgements
    )
    return Table(CONDITIONS, "What was not to be", columns, rows)
