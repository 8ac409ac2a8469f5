"""Pages of made-up results: every kind of part, and names that would break a careless page."""

from __future__ import annotations

from dataclasses import dataclass

from charts.cells import EVENT, READ, SLEEP, cell, compared, lognormal, places

from eigentime_report.charts import (
    Chart,
    ccdf,
    distribution,
    forest,
    interval_histogram,
    overview,
    qq,
    raw_series,
)
from eigentime_report.page import Choice, Facts, Fold, Page, Section
from eigentime_report.tables import Column, Row, Table

HOSTILE = "</script><script>alert(1)</script>"
LEVELS = ("baseline", "namespace", "container", "vm")
LOADS = ("idle", "cpu", "io", "network")


@dataclass(frozen=True)
class Said:
    """A sentence."""

    text: str
    table_key: str


def table(key: str = "overhead", columns: int = 4, first: str = "baseline") -> Table:
    """A table of some numbers."""
    return Table(
        key,
        f"Table of {key}",
        (
            Column("level", "level"),
            *(Column(f"c{number}", f"column {number}", "ns") for number in range(columns)),
        ),
        tuple(
            Row((level, *(19.25 * (number + 1) for number in range(columns))))
            for level in (first, *LEVELS[1:])
        ),
        notes=("Means of 200 records.",),
        caption="Nanoseconds.",
    )


def sleeps() -> list[Chart]:
    """Charts of sleeps at four levels under four loads."""
    medians = {
        (level, load): 60_000.0 * (1 + at_level) * (1 + 3 * under)
        for under, load in enumerate(LOADS)
        for at_level, level in enumerate(LEVELS)
    }
    cells = places(medians, count=2_000)
    return [
        ccdf(cells, levels=LEVELS, loads=LOADS),
        raw_series(cells, levels=LEVELS, loads=LOADS),
        distribution(cells, levels=LEVELS, loads=LOADS),
    ]


def whole() -> Page:
    """Everything that a page can have."""
    events = [
        cell(lognormal(3_000, 900, seed=n) - 900, level, "idle", EVENT)
        for n, level in enumerate(LEVELS)
    ]
    reads = [cell([-2.0, 17.0, 18.0, 90.0], "vm", weights=[9, 900, 80, 2], quantity=READ)]
    costs = compared({level: (50 + n, 0.4, 20) for n, level in enumerate(LEVELS)})
    effects = forest([costs])
    tail, series, spread = sleeps()
    nothing = ccdf([])
    return Page(
        "What time costs on testbed",
        "Measured on 21 September 2026",
        overview([costs]),
        (
            Said("In a time namespace, a vDSO read costs 3.1 % more.", "overhead"),
            Said("Under io, sleeps miss 4.1 times as much.", "miss-times"),
        ),
        (Said("No clock went backwards.", "overhead"),),
        ("The machine was busy by 12 % before one block.",),
        (
            Facts("Machine", (("host", "testbed"), ("kernel", "Linux 6.18"))),
            Facts("vm", (("accelerator", "KVM"),), (("boot", "3 s (1 of 2 runs)"),)),
        ),
        (
            Section("calls", "Calls", (table(), effects)),
            Section("sleeps", "Sleeps", (table("miss-times", 16), tail, spread)),
            Section(
                "events",
                "Events",
                (
                    Choice(
                        "quantities",
                        "Quantity by quantity",
                        "Quantity",
                        (
                            Fold("reads", "Reads", (ccdf(reads),)),
                            Fold("ticks", "Ticks", (interval_histogram(events), qq(events))),
                        ),
                        first=1,
                    ),
                ),
            ),
            Section(
                "rest",
                "The rest",
                (
                    Fold("more", "More charts", (series, nothing)),
                    Fold("folded", "A table", (table("folded-table"),)),
                ),
            ),
        ),
    )


def hostile() -> Page:
    """A page whose every word comes from somebody who means harm."""
    cells = [cell(lognormal(50, 90), HOSTILE, HOSTILE, SLEEP)]
    return Page(
        HOSTILE,
        HOSTILE,
        None,
        (Said(HOSTILE, "table"),),
        (),
        (HOSTILE,),
        (Facts(HOSTILE, ((HOSTILE, HOSTILE),)),),
        (
            Section(
                "section",
                HOSTILE,
                (
                    table("table", first=HOSTILE),
                    ccdf(cells),
                    raw_series(cells),
                    distribution(cells),
                ),
            ),
        ),
    )
