"""Whether the vDSO serves the clocks that programs ask it for."""

from collections.abc import Iterator, Sequence

from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import places
from eigentime_report.conclusions.sentence import MAIN, Sentence
from eigentime_report.conclusions.wording import DURATION
from eigentime_report.results import Quantity, Results
from eigentime_report.tables.text import listed

KERNEL = "system_call"
# The single reading that asks it.
READ = "clock_gettime"
ABOUT = "vdso"
TABLE = "served"


def asks_vdso(quantity: Quantity) -> bool:
    """Is it the vDSO that is asked?"""
    return (
        quantity.subject.startswith("vdso_")
        or quantity.subject == READ
        and quantity.kind == "read"
    )


def served(analysis: Analysis) -> Iterator[Sentence]:
    """One sentence: where the vDSO serves all, and where the kernel does."""
    results = analysis.results
    asked = [quantity for quantity in results.quantities if asks_vdso(quantity)]
    by_kernel = {
        level: found
        for level in results.levels
        if (found := _by_kernel(results, asked, level)) is not None
    }
    if not by_kernel:
        return
    reads = "both clock reads" if len(asked) == 2 else f"all {len(asked)} clock reads"
    if len(asked) == 1:
        reads = asked[0].title
    told = []
    if well := [level for level, quantities in by_kernel.items() if not quantities]:
        where = places.at(well, results)
        told.append(f"The vDSO serves {reads} {where}: no read goes into the kernel")
    for level, quantities in by_kernel.items():
        if quantities:
            which = listed([quantity.title for quantity in quantities])
            if len(quantities) == len(asked) > 1:
                which = f"any of the {len(asked)} clock reads"
            told.append(
                f"{places.level(level, results).there}, {'it' if told else 'the vDSO'} does not "
                f"serve {which}: each is a system call, and takes "
                f"{_mean(results, quantities, level)} in the mean"
            )
    text = "; ".join(told)
    yield Sentence(f"{text[0].upper()}{text[1:]}.", TABLE, MAIN, ABOUT)


def _by_kernel(
    results: Results, asked: Sequence[Quantity], level: str
) -> list[Quantity] | None:
    """Those that the kernel serves at a level; None where none was measured."""
    cells = {
        quantity: cell
        for quantity in asked
        for load in results.loads
        if (cell := results.cell(quantity, level, load))
    }
    if not cells:
        return None
    return [quantity for quantity, cell in cells.items() if KERNEL in cell.served]


def _mean(results: Results, quantities: Sequence[Quantity], level: str) -> str:
    """From the least to the greatest mean, under the first load, as the table has them."""
    cells = [
        next(
            it for load in results.loads if (it := results.cell(quantity, level, load))
        )
        for quantity in quantities
    ]
    return DURATION.reach([cell.mean for cell in cells])
