"""Whether clocks went backwards, and whether the vDSO serves them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl
from scipy import stats

from eigentime_report import units
from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import places
from eigentime_report.conclusions.sentence import MAIN, Sentence, capital
from eigentime_report.conclusions.wording import DURATION
from eigentime_report.results import Quantity, Results
from eigentime_report.tables.text import listed

WARPS = "warps"
# With fewer readings it is not said that a clock never went backwards: `eigentime bench` does so.
ENOUGH = 1000
MILLION = 1e6
# More clocks than these are counted.
NAMED = 3

SERVED = "served"
KERNEL = "system_call"

Row: TypeAlias = Mapping[str, Any]


def backwards(analysis: Analysis) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """Of each clock that went back, that which did furthest first; of all that never did; of the others."""
    results, confidence = analysis.results, analysis.confidence
    rows = list(_clocks(results))
    back = sorted((it for it in rows if it["backwards"]), key=lambda it: -it["worst_ns"])
    steady = [it for it in rows if not it["backwards"] and it["readings"] >= ENOUGH]
    few = [it for it in rows if not it["backwards"] and it["readings"] < ENOUGH]
    told = [_went_back(row, results, confidence) for row in back]
    never, unclear = [], []
    if steady:
        readings = sum(row["readings"] for row in steady)
        visible = sorted(row["smallest_visible_ns"] for row in steady)
        most = stats.binomtest(0, readings).proportion_ci(confidence, method="exact").high
        finest, coarsest = units.duration(visible[0]), units.duration(visible[-1])
        seen = f"from {finest} on"
        if finest != coarsest:
            seen += f" by the finest clock, from {coarsest} on by the coarsest one"
        never.append(
            f"{'Elsewhere, no' if back else 'No'} clock went backwards in {units.count(readings)} "
            f"readings (at {100 * confidence:g} % confidence fewer than about 1 in {_many(1 / most)}): "
            f"{_where(steady, results)}. A step back would have been seen {seen}."
        )
    if few:
        names = listed([f"{row['clock']} ({row['level']})" for row in few])
        unclear.append(
            f"Too few readings were compared to say whether these clocks go backwards: {names}; "
            "a longer look (`--warp`) would decide it."
        )
    back_, never_, unclear_ = (
        [Sentence(text, WARPS, MAIN, WARPS) for text in texts] for texts in (told, never, unclear)
    )
    return back_, never_, unclear_


def _clocks(results: Results) -> Iterator[Row]:
    """What is known of each clock at each level."""
    return (
        results.warps.group_by("level", "clock", maintain_order=True)
        .agg(pl.col("readings", "backwards").sum(), pl.col("worst_ns", "smallest_visible_ns").max())
        .iter_rows(named=True)
    )


def _went_back(row: Row, results: Results, confidence: float) -> str:
    number, of = row["backwards"], row["readings"]
    limits = stats.binomtest(number, of).proportion_ci(confidence, method="exact")
    often, seldom = (units.count(round(1 / it)) for it in (limits.high, limits.low))
    return (
        f"{capital(places.level(row['level'], results).there)}, {row['clock']} went backwards: "
        f"{units.count(number)} of {units.count(of)} readings were behind one before them "
        f"(1 in {units.count(round(of / number))}; at {100 * confidence:g} % confidence 1 in {often} "
        f"to 1 in {seldom}), by {units.duration(row['worst_ns'])} at most."
    )


def _where(rows: Sequence[Row], results: Results) -> str:
    """`tsc and CLOCK_MONOTONIC on the host, CLOCK_BOOTTIME in a container`; of many, how many."""
    levels: dict[str, list[str]] = {}
    for row in rows:
        levels.setdefault(row["clock"], []).append(row["level"])
    clocks: dict[tuple[str, ...], list[str]] = {}
    for clock, at in levels.items():
        there = tuple(it for it in results.levels if it in at)
        clocks.setdefault(there, []).append(clock)
    return ", ".join(
        f"{listed(names) if len(names) <= NAMED else f'all {len(names)} clocks'} "
        f"{places.at(at, results)}"
        for at, names in clocks.items()
    )


def _many(number: float) -> str:
    """`7.9 million`, of fewer than a million all figures."""
    if number < MILLION:
        return units.count(int(number))
    return f"{units.number(number / MILLION, 2)} million"


def served(analysis: Analysis) -> Iterator[Sentence]:
    """One sentence: where the vDSO serves all clock reads, and where the kernel does."""
    results = analysis.results
    asked = [
        it
        for it in results.quantities
        if it.subject.startswith("vdso_") or (it.kind, it.subject) == ("read", "clock_gettime")
    ]
    # Those that the kernel serves at a level, with their means under the first load.
    by_kernel: dict[str, dict[Quantity, float]] = {}
    for level in results.levels:
        for quantity in asked:
            cells = [results.cell(quantity, level, load) for load in results.loads]
            there = [cell for cell in cells if cell]
            own = by_kernel.setdefault(level, {}) if there else {}
            if there and KERNEL in there[-1].served:
                own[quantity] = there[0].mean
    if not by_kernel:
        return
    reads = "both clock reads" if len(asked) == 2 else f"all {len(asked)} clock reads"
    if len(asked) == 1:
        reads = asked[0].title
    told = []
    if well := [level for level, its in by_kernel.items() if not its]:
        where = places.at(well, results)
        told.append(f"The vDSO serves {reads} {where}: no read goes into the kernel")
    for level, its in by_kernel.items():
        if its:
            which = listed([quantity.title for quantity in its])
            if len(its) == len(asked) > 1:
                which = f"any of the {len(asked)} clock reads"
            told.append(
                f"{places.level(level, results).there}, {'it' if told else 'the vDSO'} does not "
                f"serve {which}: each is a system call, and takes {DURATION.reach([*its.values()])} "
                "in the mean"
            )
    yield Sentence(f"{capital('; '.join(told))}.", SERVED, MAIN, "vdso")
