"""Charts on a page are packed: nothing is lost, and little is left."""

import json
import math

import pytest
from charts.cells import SLEEP, cell, lognormal
from charts.test_drawing import CELLS, DESCRIBED, LOADED
from eigentime_report.charts import LIGHT
from eigentime_report.charts.plotly_layout import FEWER_COLUMNS, layout
from eigentime_report.charts.with_plotly import traces
from eigentime_report.page.packed import Shared, packed
from page.unpacking import unpacked


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


def same(found, wanted):
    """Are they equal, numbers to five figures?"""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(
            same(found[key], each) for key, each in wanted.items()
        )
    if hasattr(wanted, "tolist"):
        wanted = [None if math.isnan(it) else it for it in wanted.tolist()]
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float):
        return found == pytest.approx(wanted, rel=5e-5, abs=1e-12)
    return bool(found == wanted)


@pytest.mark.parametrize("of", ["hostile names", "one sample", "all levels and loads"])
@pytest.mark.parametrize("kind", DESCRIBED)
def test_what_is_unpacked_is_what_was_drawn(kind, of):
    chart = DESCRIBED[kind](CELLS[of])
    shared = Shared()
    # Places are right wherever the values before them came from.
    packed(DESCRIBED["ccdf"](CELLS["many"]), shared)
    found = through_json(packed(chart, shared))
    values = through_json(shared.values)
    assert same(unpacked(found, values)["data"], list(traces(chart, LIGHT)))
    assert same(unpacked(found, values)["layout"], layout(chart, LIGHT))
    for width in FEWER_COLUMNS:
        narrow = unpacked(found, values, width)["layout"]
        assert same(narrow, layout(chart, LIGHT, width=width))


def test_gaps_stay_gaps():
    cells = [cell([math.nan] * 30 + [5.0] * 30, blocks=2)]
    chart = DESCRIBED["raw series"](cells)
    shared = Shared()
    found = unpacked(through_json(packed(chart, shared)), shared.values)
    assert any(None in trace["y"] for trace in found["data"] if trace.get("xaxis"))


@pytest.mark.parametrize("kind", DESCRIBED)
def test_the_largest_chart_is_small(kind):
    cells = [
        cell(lognormal(30_000, 900.0, 1.0, seed), level, load, SLEEP, blocks=10)
        for seed, (level, load) in enumerate(LOADED)
    ]
    shared = Shared()
    assert len(json.dumps(packed(DESCRIBED[kind](cells), shared))) < 36_000
    # Once more, and what is shared is there already.
    before = len(shared.values)
    packed(DESCRIBED[kind](cells), shared)
    assert len(shared.values) == before
