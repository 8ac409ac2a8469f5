"""Which points of a line are needed for it to look the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eigentime_report.charts.description import Floats


def needed(x: Floats, y: Floats, tolerance: float) -> npt.NDArray[np.bool_]:
    """Those from which no other one is further away than this (Ramer 1972, Douglas and Peucker).

    Further in the direction of y, so that x has to grow.
    """
    kept = np.zeros(len(x), dtype=np.bool_)
    kept[[0, -1]] = True
    parts = [(0, len(x) - 1)]
    while parts:
        first, last = parts.pop()
        if last - first < 2:
            continue
        between = slice(first + 1, last)
        straight = np.interp(x[between], x[[first, last]], y[[first, last]])
        far = np.abs(y[between] - straight)
        furthest = int(far.argmax())
        if far[furthest] > tolerance:
            middle = first + 1 + furthest
            kept[middle] = True
            parts += [(first, middle), (middle, last)]
    return kept
