import numpy as np
import pytest
from charts.cells import EVENT, cell, places
from eigentime_report.charts import interval_histogram
from eigentime_report.charts.description import Line
from eigentime_report.charts.intervals import bins
from eigentime_report.charts.sample import Sample

DRAWN = np.random.default_rng(6).normal(0, 800, 5_000)


def outline(chart, panel=0):
    return next(mark for mark in chart.panels[panel].marks if isinstance(mark, Line))


def shares(chart, panel=0):
    """The edges of the bins in nanoseconds, and the percent in each."""
    line = outline(chart, panel)
    return line.x[::2] * 1e9, line.y[1:-1:2]


def test_bins_hold_the_share_of_events_in_them():
    edges, found = shares(interval_histogram([cell(DRAWN, quantity=EVENT)]))
    counts, _ = np.histogram(DRAWN, edges)
    assert found == pytest.approx(100 * counts / len(DRAWN), abs=0.05)


def test_what_is_beyond_the_panel_is_said():
    values = np.concatenate([DRAWN, [900_000.0, -70_000.0]])
    chart = interval_histogram([cell(values, quantity=EVENT)])
    _, found = shares(chart)
    inside = found.sum() / 100 * len(values)
    outside = len(values) - round(inside)
    assert outside >= 2
    assert f"Beyond the panels are: baseline, idle {outside} of 5,002" in chart.caption


def test_zero_is_marked():
    panel = interval_histogram([cell(DRAWN, quantity=EVENT)]).panels[0]
    zero = panel.marks[-1]
    assert zero.dash == "dash" and zero.x.tolist() == [0, 0]
    assert tuple(zero.y) == panel.y.range


def test_values_in_steps_have_bins_of_whole_steps():
    values = np.random.default_rng(1).integers(-40, 40, 3_000) * 26.0
    edges = bins(Sample.of(values), -1_040, 1_040)
    steps = np.diff(edges) / 26
    assert steps == pytest.approx(np.full(len(steps), round(steps[0])))
    # No value is at the edge of a bin, where rounding would decide.
    assert np.min(np.abs(values[:, None] - edges[None, :])) > 1


def test_steps_that_are_rounded_make_no_comb():
    random = np.random.default_rng(1)
    steps = np.rint(random.normal(0, 6, 20_000)) * 10.0
    # Two readings, each shown to the next nanosecond.
    values = steps + random.integers(-1, 2, len(steps))
    chart = interval_histogram([cell(values, quantity=EVENT)])
    edges, found = shares(chart)
    widths = np.diff(edges) / 10
    assert widths == pytest.approx(np.full(len(widths), round(widths[0])), rel=0.01)
    middle = found[found > found.max() / 3]
    assert np.all(np.abs(np.diff(middle)) < 0.35 * found.max())


def test_levels_of_one_kind_share_a_scale_and_others_have_their_own():
    near = interval_histogram(
        [cell(DRAWN, "a", quantity=EVENT), cell(DRAWN * 2, "b", quantity=EVENT)]
    )
    assert near.shares_x and near.panels[0].x == near.panels[1].x
    far = interval_histogram(
        [cell(DRAWN, "a", quantity=EVENT), cell(DRAWN * 50, "vm", quantity=EVENT)]
    )
    assert not far.shares_x and far.panels[0].x != far.panels[1].x
    assert "own range" in far.caption and far.columns == 2
    near_wide, far_wide = (
        float(panel.title.split("(")[1].split()[0]) for panel in far.panels
    )
    # In microseconds: 50 times as much.
    assert far_wide / near_wide == pytest.approx(50, rel=0.05)
    assert all(panel.title.endswith(" µs wide)") for panel in far.panels)


def test_counts_make_the_same_histogram_as_values():
    values, counts = np.arange(-20.0, 20.0), np.arange(1, 41)
    weighted = interval_histogram([cell(values, weights=counts, quantity=EVENT)])
    plain = interval_histogram([cell(np.repeat(values, counts), quantity=EVENT)])
    assert outline(weighted).y == pytest.approx(outline(plain).y)


def test_equal_values_are_one_bin():
    chart = interval_histogram([cell(np.full(9, 3.0), quantity=EVENT)])
    edges, found = shares(chart)
    assert found.tolist() == [100]
    assert edges[0] < 3 < edges[1]


def test_each_level_and_load_has_a_panel():
    medians = {(level, load): 1_000.0 for level in "ab" for load in ("idle", "cpu")}
    chart = interval_histogram(places(medians))
    assert [panel.title for panel in chart.panels] == [
        "a, idle",
        "b, idle",
        "a, cpu",
        "b, cpu",
    ]
    assert chart.columns == 2
