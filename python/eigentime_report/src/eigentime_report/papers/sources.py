"""The papers' published numbers, from the TOML files here, for comparison with the measured
ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from eigentime_report.tables.table import Row, Table, tabled, text_data

Published: TypeAlias = Mapping[str, Any]

CONTAINERS = "time-namespaces-in-containers"
TIMING = "timing-precision"
EVENTS = "timer-events"
PAIRS = ("time-namespace-patch-set", "system-calls-on-ec2")


def table(
    name: str, rows: Iterable[Row | tuple[Any, str]], after: Iterable[str], **told: Any
) -> Table:
    """A table from this package."""
    return tabled(name, rows, after=after, package="eigentime_report.papers", **told)


def published(name: str) -> Published:
    """All numbers of a source, as in its file."""
    return text_data("eigentime_report.papers", name)


def citation(name: str) -> str:
    """One line for a note: who, what, where, when."""
    its = published(name)["source"]
    address = f"https://doi.org/{its['doi']}" if "doi" in its else its.get("url", "")
    line = (
        f"{', '.join(its['authors'])}: “{its['title']}”, {its['published']}, {its['year']} "
        f"({its['where']}; {its['setting']}). {address}"
    )
    return line.rstrip()


def notes(name: str, *more: str, **numbers: float | str) -> tuple[str, ...]:
    """The notes below a table beside the source's numbers; they mention our `numbers`."""
    words = published(name)["words"]
    own = (it.format(**numbers) for it in words["notes"])
    return (*own, *more, f"The paper: {citation(name)}", *words.get("remarks", ()))


def metrics() -> Iterator[Published]:
    """The metrics of Table IV, in its order, with means and deviations by level."""
    overhead = published(CONTAINERS)["overhead"]
    for row in overhead["metrics"]:
        by_level = {
            name: dict(zip(overhead["levels"], row[name], strict=True))
            for name in ("means_ns", "sds_ns")
        }
        yield {"post_hoc": (), **row, **by_level}


def timing_row(table: str, function: str, level: str, load: str) -> Published | None:
    """The timing paper's row for one of our levels and loads."""
    its = published(TIMING)
    wanted = (function, its["platforms"].get(level), its["loads"].get(load))
    rows = its["tables"][table]
    return next((it for it in rows if (it["function"], it["platform"], it["load"]) == wanted), None)


def pairs() -> Iterator[Published]:
    """Pairs of numbers for one call each; `ours` is the corresponding quantity of each side."""
    for name in PAIRS:
        for row in published(name)["pairs"]:
            ours = {"first": row["ours"], "second": row.get("second_ours", row["ours"])}
            sides = {side: {"ours": it, **_each(row[side])} for side, it in ours.items()}
            yield {**row, **sides, "citation": citation(name)}


def _each(side: Published) -> Published:
    """With the value for one call, if the published one is the time of many."""
    return side if "value" in side else {**side, "value": side["seconds"] * 1e9 / side["calls"]}
