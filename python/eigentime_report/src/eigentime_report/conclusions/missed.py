"""Timers that do not keep their interval, so that the evenness of what came says nothing."""

from collections.abc import Iterator

from eigentime_report import units
from eigentime_report.analysis import MISSED, Analysis, keeps_time, missed_share
from eigentime_report.conclusions import places
from eigentime_report.conclusions.sentence import Sentence, below_main
from eigentime_report.conclusions.wording import SHARE
from eigentime_report.results import Cell

ABOUT = TABLE = "events"


def missed(analysis: Analysis) -> Iterator[Sentence]:
    """A sentence for each level where there are any, load after load."""
    results = analysis.results
    for level in results.levels:
        told, shares = [], []
        for load in results.loads:
            cells = [
                cell
                for quantity in analysis.quantities(ABOUT)
                if (cell := results.cell(quantity, level, load))
            ]
            late = [cell for cell in cells if not keeps_time(cell)]
            if late:
                told.append(f"{_told(late, len(cells))} {places.load(load).there}")
                shares += [missed_share(cell) for cell in late]
        if told:
            where = places.level(level, results).there
            yield Sentence(
                f"{where[0].upper()}{where[1:]}, some timers do not keep their interval: they miss "
                f"more than {units.margin(MISSED)} of their events, and how even the others are is "
                f"not compared. These are {'; '.join(told)}.",
                TABLE,
                below_main(max(shares)),
                ABOUT,
            )


def _told(late: list[Cell], count: int) -> str:
    """`2 of 16 (50 to 86 %, most of them clock_nanosleep 10 µs)`."""
    worst = max(late, key=missed_share)
    reach = SHARE.reach([missed_share(cell) for cell in late])
    return f"{len(late)} of {count} ({reach}, {worst.quantity.title} most)"
