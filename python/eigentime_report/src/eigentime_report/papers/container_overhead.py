"""Table IV of the paper on time namespaces in containers, of any run, with the paper's beside it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from eigentime_report import statistics
from eigentime_report.conclusions import places
from eigentime_report.papers import sources
from eigentime_report.results import Cell, Results
from eigentime_report.statistics.compare import WELCH_GAMES_HOWELL
from eigentime_report.tables.table import Cell as TableCell
from eigentime_report.tables.table import Column, Marked, Row, Table

COLUMNS = (
    Column("metric", "Metric"),
    Column("level", "Level", band="Descriptives"),
    Column("mean", "Mean", "ns", band="Descriptives", figures=5),
    Column("sd", "Std. dev.", "ns", band="Descriptives", figures=4),
    Column("n", "n", "count", band="Descriptives"),
    Column("overhead", "Overhead", "+%", band="Descriptives"),
    Column("test", "Test", band="ANOVA"),
    Column("df1", "df1", "df", band="ANOVA"),
    Column("df2", "df2", "df", band="ANOVA"),
    Column("f", "F", "number", band="ANOVA", figures=4),
    Column("p", "Sig.", "p", band="ANOVA"),
    Column("i", "(I) level", band="Post hoc tests"),
    Column("j", "(J) level", band="Post hoc tests"),
    Column("difference", "Mean diff. (I − J)", "ns", band="Post hoc tests", figures=4),
    Column("pair_p", "Sig.", "p", band="Post hoc tests"),
    Column("lower", "LB", "ns", band="Post hoc tests"),
    Column("upper", "UB", "ns", band="Post hoc tests"),
    Column("paper_mean", "Mean", "ns", band="In the paper", figures=5),
    Column("paper_sd", "Std. dev.", "ns", band="In the paper", figures=4),
    Column("paper_overhead", "Overhead", "+%", band="In the paper"),
    Column("paper_difference", "Mean diff. (I − J)", "ns", band="In the paper", figures=4),
    Column("paper_significance", "Sig.", band="In the paper"),
)

NOTES = (
    "Overhead: by how much the mean is above that of the first level.",
    (
        "As in the paper, each record is a unit of the tests, although records that are made one after "
        "the other have more in common than those of different blocks. The verdicts of this report are "
        "those of the tables of tests, whose units are blocks where there are enough of them."
    ),
    (
        "{tests} Post hoc tests follow a significant ANOVA only, as in the paper; N/A stands where it "
        "was not."
    ),
    (
        "(a) Welch's ANOVA. (b) Asymptotically F distributed. (c) The mean difference is significant at "
        "the {alpha:g} level. LB and UB: {confidence:g} % confidence interval of the difference."
    ),
)


# By `as_in_paper`.
TESTS = {
    False: (
        "Welch's ANOVA and Games-Howell (a), whether variances differ or not; --as-in-paper tests "
        "variances first."
    ),
    True: (
        "As in the paper, variances are tested first: where they differ, Welch's ANOVA and "
        "Games-Howell follow (a), else one-way ANOVA and Tukey's HSD."
    ),
}


def overhead_table(
    results: Results, load: str = "idle", *, confidence: float = 0.95, as_in_paper: bool = False
) -> Table:
    """Mean, deviation, ANOVA and post hoc tests of each metric of the paper, over all levels."""
    if load not in results.loads:
        raise ValueError(
            f"load {load}: nothing was measured under it; there is {', '.join(results.loads)}"
        )
    published = sources.overhead()
    rows: list[Row] = []
    absent = []
    for metric in published.metrics.values():
        cells = _cells(results, metric.metric, load)
        if not cells:
            absent.append(metric.metric)
            continue
        rows += _rows(metric, cells, 1 - confidence, as_in_paper)
    notes = [
        note.format(alpha=1 - confidence, confidence=100 * confidence, tests=TESTS[as_in_paper])
        for note in NOTES
    ]
    if absent and rows:
        notes.append(f"Not measured here {places.load(load).there}: {', '.join(absent)}.")
    return Table(
        key=f"overhead-{load}",
        title=f"What levels cost {places.load(load).there}: Table IV of the paper",
        columns=COLUMNS,
        rows=tuple(rows),
        notes=(*notes, f"The paper: {published.source.citation}", *published.remarks),
    )


def _cells(results: Results, metric: str, load: str) -> dict[str, Cell]:
    quantity = next((it for it in results.quantities if it.name == f"calls/{metric}"), None)
    if quantity is None:
        return {}
    return {cell.level: cell for cell in results.cells(quantity, load)}


@dataclass(frozen=True)
class _Measured:
    """The records of a metric by level, and their comparison."""

    records: Mapping[str, NDArray[np.float64]]
    # None where there is one level.
    comparison: statistics.Comparison | None
    alpha: float

    @property
    def levels(self) -> tuple[str, ...]:
        """The first one is what the others are compared with."""
        return tuple(self.records)

    @property
    def is_welch(self) -> bool:
        """Was it Welch's test that suited?"""
        return self.comparison is not None and self.comparison.chosen == WELCH_GAMES_HOWELL

    @property
    def is_significant(self) -> bool:
        """Do the levels differ at all?"""
        p = self.comparison.omnibus.p if self.comparison else None
        return p is not None and p < self.alpha


def _rows(
    metric: sources.Metric, cells: Mapping[str, Cell], alpha: float, as_in_paper: bool
) -> Iterator[Row]:
    records = {level: cell.by("record").mean for level, cell in cells.items()}
    comparison = None
    if len(records) > 1:
        comparison = statistics.compare(records, alpha=alpha, as_in_paper=as_in_paper)
    its = _Measured(records, comparison, alpha)
    name: TableCell = Marked(metric.metric, "a") if its.is_welch else metric.metric
    for place, (level, pair) in enumerate(zip_longest(its.levels, _pairs(its.levels))):
        yield Row(
            cells=(
                name,
                *(_described(its, level) if level else [None] * 5),
                *(_tested(its) if place == 0 else [None] * 5),
                *(_paired(its, *pair) if pair else [None] * 6),
                *_published(metric, level, pair, its.levels[0]),
            ),
            group=metric.metric,
        )


def _pairs(levels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """In the paper's order: each level with the first one, and with those after it."""
    for place, level in enumerate(levels[1:], start=1):
        yield level, levels[0]
        yield from ((level, other) for other in levels[place + 1 :])


def _described(its: _Measured, level: str) -> list[TableCell]:
    numbers = statistics.describe(its.records[level])
    first = its.levels[0]
    base = float(np.mean(its.records[first]))
    is_known = level != first and base > 0
    overhead = (numbers.mean / base - 1) * 100 if is_known else None
    return [level, numbers.mean, numbers.sd, numbers.n, overhead]


def _tested(its: _Measured) -> list[TableCell]:
    if its.comparison is None:
        return [None] * 5
    omnibus = its.comparison.omnibus
    f: TableCell = omnibus.statistic
    if its.is_welch and omnibus.statistic is not None:
        f = Marked(omnibus.statistic, "b")
    return [omnibus.test, omnibus.df1, omnibus.df2, f, omnibus.p]


def _paired(its: _Measured, i: str, j: str) -> list[TableCell]:
    if its.comparison is None or not its.is_significant:
        return [i, j, "N/A", None, None, None]
    difference, p, low, high = _difference(its.comparison, i, j)
    value: TableCell = difference
    if difference is not None and p is not None and p < its.alpha:
        value = Marked(difference, "c")
    return [i, j, value, p, low, high]


def _difference(
    comparison: statistics.Comparison, i: str, j: str
) -> tuple[float | None, float | None, float | None, float | None]:
    """Difference, p, lower and upper end; the comparison has each pair in one order only."""
    for it in comparison.pairs:
        if (it.i, it.j) == (i, j):
            return it.difference, it.p, it.low, it.high
        if (it.i, it.j) == (j, i):
            return _negative(it.difference), it.p, _negative(it.high), _negative(it.low)
    return None, None, None, None


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def _published(
    metric: sources.Metric, level: str | None, pair: tuple[str, str] | None, base: str
) -> list[TableCell]:
    cells: list[TableCell] = [None] * 3
    if level is not None and level in metric.means_ns:
        is_other = level != base and base in metric.means_ns
        overhead = metric.change_percent(level, base) if is_other else None
        cells = [metric.means_ns[level], metric.sds_ns[level], overhead]
    for row in metric.post_hoc:
        if pair == (row.i, row.j):
            return [*cells, row.difference_ns, row.significance]
    return [*cells, None, None]
