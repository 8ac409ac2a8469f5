"""Pairs of numbers that others have published, beside what they are here."""

from eigentime_report import papers
from eigentime_report.results import Cell, Results
from eigentime_report.tables.table import Column, Row, Table
from eigentime_report.tables.text import under

COLUMNS = (
    Column("what", "What"),
    Column("first", "First", band="Published"),
    Column("second", "Second", band="Published"),
    Column("first_value", "First", "number", band="Published", figures=4),
    Column("second_value", "Second", "number", band="Published", figures=4),
    Column("unit", "Unit", band="Published"),
    Column("change", "Change", "+%", band="Published"),
    Column("first_ours", "First", "ns", band="Here", figures=4),
    Column("second_ours", "Second", "ns", band="Here", figures=4),
    Column("change_ours", "Change", "+%", band="Here"),
    Column("quantities", "Of", band="Here"),
)


def published_table(results: Results) -> Table:
    """The patch set's and the EC2 article's numbers; only those whose quantities were measured."""
    load = results.loads[0] if results.loads else ""
    # By what is compared here: of pairs that differ in how long they were measured, one stands for all.
    rows: dict[tuple[str, ...], Row] = {}
    sources: dict[str, None] = {}
    for pair in papers.pairs():
        first = _cell(results, pair.first_quantity, pair.first.level, load)
        second = _cell(results, pair.second_quantity, pair.second.level, load)
        if first is None or second is None:
            continue
        ours = [cell.mean for cell in (first, second)]
        named = _named(pair)
        rows[pair.source.citation, named] = Row(
            cells=(
                pair.what,
                pair.first.name,
                pair.second.name,
                pair.first.value,
                pair.second.value,
                pair.unit,
                (pair.second.value / pair.first.value - 1) * 100,
                *ours,
                (ours[1] / ours[0] - 1) * 100 if ours[0] > 0 else None,
                named,
            )
        )
        sources[pair.source.citation] = None
    return Table(
        key="published",
        title="What others have published",
        columns=COLUMNS,
        rows=tuple(rows.values()),
        notes=(
            (
                f"Ours are means {under(load)}. Where the unit is ticks, the published numbers hold the "
                "reading of the counter around each call as well, so that only the changes compare."
            ),
            "What others have measured several times stands here once, as they measured it longest.",
            *sources,
        ),
    )


def _cell(results: Results, name: str, level: str, load: str) -> Cell | None:
    quantity = next((it for it in results.quantities if it.name == name), None)
    if quantity is None or level not in results.levels:
        return None
    return results.cell(quantity, level, load)


def _named(pair: papers.Pair) -> str:
    first, second = pair.first_quantity, pair.second_quantity
    if first == second:
        return f"{first} at {pair.first.level} and {pair.second.level}"
    if pair.first.level == pair.second.level:
        return f"{first} and {second} at {pair.first.level}"
    return f"{first} at {pair.first.level}, {second} at {pair.second.level}"
