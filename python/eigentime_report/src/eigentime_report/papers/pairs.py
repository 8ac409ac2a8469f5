"""Pairs of numbers that others have published, beside what they are here."""

from dataclasses import dataclass

from eigentime_report.conclusions import places
from eigentime_report.papers import sources
from eigentime_report.results import Results
from eigentime_report.tables.table import Column, Row, Table


@dataclass(frozen=True)
class _Beside:
    """A published pair, and the means of the same here."""

    pair: sources.Pair
    ours: tuple[float, float]


COLUMNS = (
    Column("what", "What", of="pair.what"),
    Column("first", "First", band="Published", of="pair.first.name"),
    Column("second", "Second", band="Published", of="pair.second.name"),
    *(
        Column(
            f"{it}_value", it.title(), "number", band="Published", figures=4, of=f"pair.{it}.value"
        )
        for it in ("first", "second")
    ),
    Column("unit", "Unit", band="Published", of="pair.unit"),
    Column(
        "change",
        "Change",
        "+%",
        band="Published",
        of=lambda it: _change(it.pair.first.value, it.pair.second.value),
    ),
    Column("first_ours", "First", "ns", band="Here", figures=4, of=lambda it: it.ours[0]),
    Column("second_ours", "Second", "ns", band="Here", figures=4, of=lambda it: it.ours[1]),
    Column("change_ours", "Change", "+%", band="Here", of=lambda it: _change(*it.ours)),
    Column("quantities", "Of", band="Here", of=lambda it: _named(it.pair)),
)


def published_table(results: Results) -> Table:
    """The patch set's and the EC2 article's numbers; only those whose quantities were measured."""
    load = results.loads[0] if results.loads else ""
    # By what is compared here: of pairs that differ in how long they were measured, one stands for all.
    found: dict[tuple[str, str], _Beside] = {}
    for pair in sources.pairs():
        means = [
            mean
            for side in (pair.first, pair.second)
            if (mean := _mean(results, side, load)) is not None
        ]
        if len(means) == 2:
            key = pair.source.citation, _named(pair)
            found[key] = _Beside(pair, (means[0], means[1]))
    return Table(
        key="published",
        title="What others have published",
        columns=COLUMNS,
        rows=tuple(Row.of(COLUMNS, it) for it in found.values()),
        notes=(
            (
                f"Ours are means {places.load(load).there}. Where the unit is ticks, the published numbers hold the "
                "reading of the counter around each call as well, so that only the changes compare."
            ),
            "What others have measured several times stands here once, as they measured it longest.",
            *dict.fromkeys(citation for citation, _ in found),
        ),
    )


def _change(first: float, second: float) -> float | None:
    return (second / first - 1) * 100 if first > 0 else None


def _mean(results: Results, side: sources.Side, load: str) -> float | None:
    quantity = next((it for it in results.quantities if it.name == side.ours), None)
    if quantity is None or side.level not in results.levels:
        return None
    cell = results.cell(quantity, side.level, load)
    return cell.mean if cell else None


def _named(pair: sources.Pair) -> str:
    first, second = pair.first, pair.second
    if first.ours == second.ours:
        return f"{first.ours} at {first.level} and {second.level}"
    if first.level == second.level:
        return f"{first.ours} and {second.ours} at {first.level}"
    return f"{first.ours} at {first.level}, {second.ours} at {second.level}"
