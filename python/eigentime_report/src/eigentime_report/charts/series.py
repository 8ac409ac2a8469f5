"""All samples in the order in which they were taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from eigentime_report.charts.description import (
    Axis,
    Chart,
    Floats,
    Key,
    Line,
    Mark,
    Panel,
    Patch,
    Points,
    Span,
)
from eigentime_report.charts.sample import Ints, Sample
from eigentime_report.charts.scales import least_of, not_positive, shared_time_axis
from eigentime_report.charts.selection import (
    Selection,
    Shown,
    level_group,
    seconds,
    sentences,
)
from eigentime_report.charts.theme import Paint
from eigentime_report.results import Cell

# Up to so many samples in all panels, and in one, are drawn as points, all of them.
SINGLE = 5_000
SINGLE_IN_PANEL = 300
# Points or pieces of an envelope in all panels together, and in one panel at least.
PIECES = 1_400
LEAST_PIECES = 50
# More blocks than this would be a pattern and no help.
SHADED = 200

_ORDER = "Samples in the order in which they were taken; the bold line is the median"
_BLOCKS = " of each block, and every other block is shaded."
_HISTOGRAMS = (
    "Readings are kept as histograms, in which their order within a block is lost: the bold "
    "line is the median of each block, and the area around it reaches from its least to its "
    "greatest reading."
)


def raw_series(
    cells: Iterable[Cell],
    *,
    levels: Sequence[str] | None = None,
    loads: Sequence[str] | None = None,
) -> Chart:
    """The samples in order, a panel for each level and load, with their median bold."""
    selection = Selection.of(cells, levels, loads)
    kind = "Series"
    if not selection.shown:
        return selection.nothing(kind)
    shown = selection.shown
    meaning = selection.quantity.meaning if selection.quantity else ""
    y = shared_time_axis(meaning, shown)
    pieces = max(PIECES // len(shown), LEAST_PIECES)
    is_histogram = any(one.cell.weights is not None for one in shown)
    if is_histogram:
        x = Axis("block")
        panels = [
            Panel(_title(one, selection), x, y, tuple(_by_block(one, y)))
            for one in shown
        ]
        caption = [_HISTOGRAMS]
    else:
        x = Axis("sample")
        limit = min(SINGLE // len(shown), SINGLE_IN_PANEL)
        panels = [
            Panel(_title(one, selection), x, y, tuple(_in_order(one, limit, pieces, y)))
            for one in shown
        ]
        has_blocks = any(len(_starts(one.cell)) > 2 for one in shown)
        caption = [_ORDER + (_BLOCKS if has_blocks else ".")]
        if any(len(one.cell.values) > limit for one in shown):
            caption.append(
                f"Where there are many, each of up to {pieces} pieces of the area reaches from "
                "the least to the greatest of the samples that it stands for."
            )
    if y.is_log:
        caption.append("The scale of time is logarithmic.")
        caption.append(not_positive(shown))
    return Chart(
        selection.key(kind),
        selection.title(kind),
        tuple(panels),
        (Key("median", "median", Paint("ink")),),
        sentences(*caption, *selection.remarks),
        columns=min(len(panels), len(selection.levels), 4)
        if len(selection.loads) > 1
        else min(len(panels), 2),
        height=220,
        shares_x=False,
    )


def _title(one: Shown, selection: Selection) -> str:
    return one.name if len(selection.loads) > 1 else one.cell.level


def _in_order(one: Shown, limit: int, pieces: int, y: Axis) -> Iterator[Mark]:
    """Shaded blocks, points or an envelope, and the median of each block."""
    values = one.cell.values
    finite = np.isfinite(values)
    group = level_group(one.cell.level)
    starts = _starts(one.cell)
    if len(starts) - 1 <= SHADED:
        for low, high in zip(starts[1:-1:2], starts[2::2], strict=False):
            yield Span(float(low), float(high), Paint("shade", "faint"))
    if len(values) <= limit:
        order = np.flatnonzero(finite)
        yield Points(
            np.asarray(order + 0.5, dtype=np.float64),
            seconds(values[finite]),
            one.paint("soft"),
            one.name,
            group,
            one.symbol,
            size=3.5,
        )
    else:
        yield _envelope(one, pieces, group, y)
    medians = [_median(values[low:high]) for low, high in pairwise(starts)]
    x = np.repeat(starts, 2)[1:-1].astype(np.float64)
    bold = seconds(np.repeat(medians, 2))
    yield Line(x, bold, Paint("ink"), f"median of {one.name}", "median", 2.6)


def _envelope(one: Shown, pieces: int, group: str, y: Axis) -> Patch:
    values = one.cell.values
    edges = np.linspace(0, len(values), pieces + 1).astype(np.int64)
    low = np.fmin.reduceat(values, edges[:-1])
    high = np.fmax.reduceat(values, edges[:-1])
    x = (edges[:-1] + edges[1:]) / 2
    outline = np.concatenate([high, low[::-1]])
    return Patch(
        np.concatenate([x, x[::-1]]),
        np.maximum(seconds(outline), least_of(y)),
        one.paint("soft"),
        one.name,
        group,
    )


def _by_block(one: Shown, y: Axis) -> Iterator[Mark]:
    """The least, the median and the greatest value of each block of a histogram."""
    cell = one.cell
    found = list(_samples_by_block(cell))
    x = np.array([block for block, _ in found])
    lows = np.array([sample.low for _, sample in found])
    highs = np.array([sample.high for _, sample in found])
    medians = np.array([sample.median for _, sample in found])
    # A block reaches to both sides of its number, so that a single one is seen.
    sides = np.column_stack([x - 0.5, x + 0.5]).ravel()
    outline = np.concatenate([np.repeat(highs, 2), np.repeat(lows, 2)[::-1]])
    group = level_group(cell.level)
    yield Patch(
        np.concatenate([sides, sides[::-1]]),
        np.maximum(seconds(outline), least_of(y)),
        one.paint("faint"),
        one.name,
        group,
    )
    bold = seconds(np.repeat(medians, 2))
    yield Line(sides, bold, Paint("ink"), f"median of {one.name}", "median", 2.6)


def _samples_by_block(cell: Cell) -> Iterator[tuple[float, Sample]]:
    for block in np.unique(cell.blocks):
        own = cell.blocks == block
        weights = None if cell.weights is None else cell.weights[own]
        sample = Sample.of(cell.values[own], weights)
        if sample.count:
            yield float(block), sample


def _starts(cell: Cell) -> Ints:
    """Where each block begins, and the end of the last one."""
    count = len(cell.values)
    changes = np.flatnonzero(np.diff(cell.blocks)) + 1
    return np.concatenate([[0], changes, [count]]).astype(np.int64)


def _median(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")
