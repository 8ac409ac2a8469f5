"""Table IV of the paper on time namespaces in containers, for any run, beside the paper's
numbers."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from eigentime_report import statistics
from eigentime_report.conclusions import places
from eigentime_report.papers import sources
from eigentime_report.results import Cell, Results
from eigentime_report.statistics.compare import WELCH_GAMES_HOWELL
from eigentime_report.tables.table import Cell as TableCell
from eigentime_report.tables.table import Marked, Row, Table


def overhead_table(
    results: Results, load: str = "idle", *, confidence: float = 0.95, as_in_paper: bool = False
) -> Table:
    """Mean, deviation, ANOVA and post hoc tests of each metric of the paper, over all levels."""
    if load not in results.loads:
        raise ValueError(
            f"load {load}: nothing was measured under it; there is {', '.join(results.loads)}"
        )
    rows: list[Row] = []
    absent = []
    for metric in sources.metrics():
        found = (results.find(f"calls/{metric['metric']}", it, load) for it in results.levels)
        if cells := [cell for cell in found if cell]:
            rows += _rows(metric, cells, 1 - confidence, as_in_paper)
        else:
            absent.append(metric["metric"])
    there = places.load(load).there
    more = [f"Not measured here {there}: {', '.join(absent)}."] if absent and rows else []
    tests = sources.published(sources.CONTAINERS)["words"]["tests"]
    notes = sources.notes(
        sources.CONTAINERS,
        *more,
        alpha=1 - confidence,
        confidence=100 * confidence,
        tests=tests["as_in_paper" if as_in_paper else "by_default"],
    )
    return sources.table("overhead", rows, notes, load=load, there=there)


def _rows(
    metric: sources.Published, cells: Sequence[Cell], alpha: float, as_in_paper: bool
) -> Iterator[Row]:
    records = {cell.level: cell.by("record").mean for cell in cells}
    first = cells[0].level
    comparison = statistics.compare(records, alpha=alpha, as_in_paper=as_in_paper)
    omnibus = comparison.omnibus
    is_welch = comparison.chosen == WELCH_GAMES_HOWELL
    tested: list[TableCell] = [None] * 5
    if len(cells) > 1:
        f = _marked(omnibus.statistic, "b", is_welch)
        tested = [omnibus.test, omnibus.df1, omnibus.df2, f, omnibus.p]
    for level, pair in zip_longest(records, _pairs(list(records))):
        yield Row(
            cells=(
                _marked(metric["metric"], "a", is_welch),
                *(_described(records, level) if level else [None] * 5),
                *(tested if level == first else [None] * 5),
                *(_paired(comparison, *pair) if pair else [None] * 6),
                *_published(metric, level, pair, first),
            ),
            group=metric["metric"],
        )


def _marked(value: float | str | None, mark: str, is_so: bool) -> TableCell:
    return value if value is None or not is_so else Marked(value, mark)


def _pairs(levels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """In the paper's order: each level with the first one, and with those after it."""
    for place, level in enumerate(levels[1:], start=1):
        yield level, levels[0]
        yield from ((level, other) for other in levels[place + 1 :])


def _described(records: Mapping[str, NDArray[np.float64]], level: str) -> list[TableCell]:
    numbers = statistics.describe(records[level])
    first = next(iter(records))
    base = float(np.mean(records[first]))
    is_known = level != first and base > 0
    overhead = (numbers.mean / base - 1) * 100 if is_known else None
    return [level, numbers.mean, numbers.sd, numbers.n, overhead]


def _paired(comparison: statistics.Comparison, i: str, j: str) -> list[TableCell]:
    p = comparison.omnibus.p
    if p is None or p >= comparison.alpha:
        return [i, j, "N/A", None, None, None]
    # The comparison has each pair in only one order.
    names = [group.name for group in comparison.groups]
    sign = 1 if names.index(i) > names.index(j) else -1
    it = comparison.pair(i, j) if sign > 0 else comparison.pair(j, i)
    value, *ends = (None if end is None else sign * end for end in (it.difference, it.low, it.high))
    is_significant = it.p is not None and it.p < comparison.alpha
    return [i, j, _marked(value, "c", is_significant), it.p, *ends[::sign]]


def _published(
    metric: sources.Published, level: str | None, pair: tuple[str, str] | None, base: str
) -> list[TableCell]:
    cells: list[TableCell] = [None] * 3
    means = metric["means_ns"]
    if level in means:
        is_other = level != base and base in means
        overhead = (means[level] / means[base] - 1) * 100 if is_other else None
        cells = [means[level], metric["sds_ns"][level], overhead]
    for row in metric["post_hoc"]:
        if pair == (row["i"], row["j"]):
            return [*cells, row["difference_ns"], row["significance"]]
    return [*cells, None, None]
