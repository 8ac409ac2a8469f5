"""Whether clocks went backwards."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from scipy import stats

from eigentime_report import units
from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import places
from eigentime_report.conclusions.sentence import MAIN, Sentence
from eigentime_report.results import Results
from eigentime_report.tables.text import listed

ABOUT = "warps"
TABLE = "warps"
# With fewer readings it is not said that a clock never went backwards: `eigentime bench` does so.
ENOUGH = 1000
MILLION = 1e6
# More clocks than these are counted.
NAMED = 3


def went_back(analysis: Analysis) -> list[Sentence]:
    """A sentence for each clock that did at a level, that which did furthest first."""
    rows = [row for row in _clocks(analysis.results) if row["backwards"]]
    rows.sort(key=lambda row: -row["worst_ns"])
    return [_went_back(row, analysis) for row in rows]


def never_back(analysis: Analysis) -> Iterator[Sentence]:
    """One sentence for all clocks that never did."""
    rows = list(_clocks(analysis.results))
    steady = [it for it in rows if not it["backwards"] and it["readings"] >= ENOUGH]
    if not steady:
        return
    readings = sum(row["readings"] for row in steady)
    visible = sorted(row["smallest_visible_ns"] for row in steady)
    _, limits = _share(0, readings, analysis.confidence)
    who = "Elsewhere, no clock" if any(row["backwards"] for row in rows) else "No clock"
    yield Sentence(
        f"{who} went backwards in {units.count(readings)} readings ({limits}): "
        f"{_where(steady, analysis.results)}. A step back would have been seen {_from(visible)}.",
        TABLE,
        MAIN,
        ABOUT,
    )


def unclear(analysis: Analysis) -> Iterator[Sentence]:
    """One sentence for clocks of which too few readings were compared."""
    few = [
        row
        for row in _clocks(analysis.results)
        if not row["backwards"] and row["readings"] < ENOUGH
    ]
    if few:
        names = listed([f"{row['clock']} ({row['level']})" for row in few])
        yield Sentence(
            f"Too few readings were compared to say whether these clocks go backwards: {names}; "
            "a longer look (`--warp`) would decide it.",
            TABLE,
            MAIN,
            ABOUT,
        )


def _clocks(results: Results) -> Iterator[dict[str, Any]]:
    """What is known of each clock at each level."""
    if results.warps.is_empty():
        return
    yield from (
        results.warps.group_by("level", "clock", maintain_order=True)
        .agg(
            pl.col("readings").sum(),
            pl.col("backwards").sum(),
            pl.col("worst_ns").max(),
            pl.col("smallest_visible_ns").max(),
        )
        .iter_rows(named=True)
    )


def _went_back(row: Mapping[str, Any], analysis: Analysis) -> Sentence:
    where = places.level(row["level"], analysis.results).there
    share, limits = _share(row["backwards"], row["readings"], analysis.confidence)
    return Sentence(
        f"{where[0].upper()}{where[1:]}, {row['clock']} went backwards: "
        f"{units.count(row['backwards'])} of {units.count(row['readings'])} readings were "
        f"behind one before them ({share}; {limits}), by "
        f"{units.duration(row['worst_ns'])} at most.",
        TABLE,
        MAIN,
        ABOUT,
    )


def _where(rows: Sequence[Mapping[str, Any]], results: Results) -> str:
    """`tsc and CLOCK_MONOTONIC on the host, CLOCK_BOOTTIME in a container`; of many, how many."""
    levels: dict[str, list[str]] = {}
    for row in rows:
        levels.setdefault(row["clock"], []).append(row["level"])
    clocks: dict[tuple[str, ...], list[str]] = {}
    for clock, at in levels.items():
        clocks.setdefault(tuple(it for it in results.levels if it in at), []).append(
            clock
        )
    return ", ".join(
        f"{listed(names) if len(names) <= NAMED else f'all {len(names)} clocks'} "
        f"{places.at(at, results)}"
        for at, names in clocks.items()
    )


def _from(visible: Sequence[float]) -> str:
    """`from 26 ns (the finest clock) to 4 ms (the coarsest) on`."""
    finest, coarsest = units.duration(visible[0]), units.duration(visible[-1])
    if finest == coarsest:
        return f"from {finest} on"
    return (
        f"from {finest} on by the finest clock, from {coarsest} on by the coarsest one"
    )


def _many(number: float) -> str:
    """`7.9 million`, of fewer than a million all figures."""
    if number < MILLION:
        return units.count(int(number))
    return f"{units.number(number / MILLION, 2)} million"


def _share(number: int, of: int, confidence: float) -> tuple[str, str]:
    """The share, and between what it is by Clopper and Pearson."""
    limits = stats.binomtest(number, of).proportion_ci(confidence, method="exact")
    percent = f"{confidence * 100:g} % confidence"
    if number == 0:
        return (
            "none",
            f"at {percent} fewer than about 1 in {_many(1 / limits.high)}",
        )
    return (
        f"1 in {units.count(round(of / number))}",
        (
            f"at {percent} 1 in {units.count(round(1 / limits.high))} to 1 in "
            f"{units.count(round(1 / limits.low))}"
        ),
    )
