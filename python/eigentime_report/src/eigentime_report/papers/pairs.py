"""Pairs of published numbers, beside the measured ones."""

from eigentime_report.conclusions import places
from eigentime_report.papers import sources
from eigentime_report.results import Results
from eigentime_report.tables.table import Row, Table


def published_table(results: Results) -> Table:
    """The numbers of the patch set and the EC2 article; only those whose quantities were
    measured."""
    load = results.loads[0]
    # By the compared quantities: of pairs that differ only in the duration of measurement, one
    # suffices.
    found: dict[tuple[str, str], Row] = {}
    for pair in sources.pairs():
        sides = (pair["first"], pair["second"])
        cells = [results.find(it["ours"], it["level"], load) for it in sides]
        ours = [cell.mean for cell in cells if cell]
        if len(ours) == len(sides):
            values, of = [side["value"] for side in sides], _named(*sides)
            names = (side["name"] for side in sides)
            theirs = (pair["what"], *names, *values, pair["unit"], _change(*values))
            found[pair["citation"], of] = Row((*theirs, *ours, _change(*ours), of))
    citations = dict.fromkeys(citation for citation, _ in found)
    return sources.table("published", found.values(), citations, there=places.load(load).there)


def _change(first: float, second: float) -> float | None:
    return (second / first - 1) * 100 if first > 0 else None


def _named(first: sources.Published, second: sources.Published) -> str:
    if first["ours"] == second["ours"]:
        return f"{first['ours']} at {first['level']} and {second['level']}"
    if first["level"] == second["level"]:
        return f"{first['ours']} and {second['ours']} at {first['level']}"
    return f"{first['ours']} at {first['level']}, {second['ours']} at {second['level']}"
