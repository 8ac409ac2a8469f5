import numpy as np
import pytest
from charts.cells import CALL, LEVELS, SLEEP, compared
from eigentime_report.charts import forest
from eigentime_report.charts.description import Line, Points
from eigentime_report.charts.effects import Row, Scale
from eigentime_report.charts.ticks import log_ticks


def marks(chart, kind, panel=0):
    return [mark for mark in chart.panels[panel].marks if isinstance(mark, kind)]


def test_each_level_has_a_panel_with_its_difference_and_interval():
    chart = forest([LEVELS])
    assert [panel.title for panel in chart.panels] == ["namespace", "container"]
    found = LEVELS.against_base("namespace")
    (points,), (_, interval) = marks(chart, Points), marks(chart, Line)
    assert points.x == pytest.approx([found.percent])
    assert interval.x[:2] == pytest.approx([found.percent_low, found.percent_high])
    assert found.percent == pytest.approx(5, abs=1)


def test_the_verdict_decides_colour_and_shape():
    chart = forest([LEVELS])
    differs, same = marks(chart, Points, 0)[0], marks(chart, Points, 1)[0]
    assert differs.paint.role == "differs" and same.paint.role == "same"
    assert differs.symbol != same.symbol
    assert [key.text for key in chart.keys] == [
        "differs",
        "the same, as far as it matters",
    ]
    assert differs.labels[0].startswith("vdso_gettimeofday, namespace: +")
    assert differs.labels[0].endswith(", differs")


def test_no_difference_is_a_line():
    zero, _ = marks(forest([LEVELS]), Line)
    assert zero.x.tolist() == [0, 0] and zero.y.tolist() == [0.6, -0.6]


def test_quantities_are_rows_in_their_order():
    two = [LEVELS, compared({"baseline": (10, 1, 9), "namespace": (20, 1, 9)}, SLEEP)]
    chart = forest(two)
    assert chart.panels[0].y.ticks == ((0.0, CALL.title), (1.0, SLEEP.title))
    assert sorted(y for points in marks(chart, Points) for y in points.y) == [0, 1]
    # The first row is at the top.
    low, high = chart.panels[0].y.range
    assert low > high


def test_rows_of_several_loads_say_which():
    again = compared({"baseline": (10, 1, 9), "namespace": (20, 1, 9)}, held="cpu")
    names = [name for _, name in forest([LEVELS, again]).panels[0].y.ticks]
    assert names == ["vdso_gettimeofday, idle", "vdso_gettimeofday, cpu"]


def test_identical_values_are_a_point_at_0():
    chart = forest([compared({"a": (7, 0, 9), "b": (7, 0, 9)})])
    (points,) = marks(chart, Points)
    assert points.x.tolist() == [0] and points.paint.role == "same"


def test_what_was_not_tested_has_no_row():
    chart = forest([compared({"a": (7, 0, 1), "b": (8, 0, 1)})])
    assert chart.is_empty
    assert "No percentage is known of vdso_gettimeofday (b)" in chart.caption


def test_large_differences_are_ratios_on_a_logarithmic_scale():
    usual = compared({"baseline": (100, 0.1, 20), "vm": (100.5, 0.1, 20)})
    far = compared({"baseline": (100, 1, 20), "vm": (9_000, 1, 20)}, SLEEP)
    chart = forest([usual, far])
    axis = chart.panels[0].x
    assert axis.is_log and axis.title == "times as much"
    points = [(x, y) for it in marks(chart, Points) for x, y in zip(it.x, it.y)]
    (small, _), (large, _) = sorted(points, key=lambda point: point[1])
    assert small == pytest.approx(1 + usual.against_base("vm").percent / 100)
    assert large == pytest.approx(1 + far.against_base("vm").percent / 100)
    assert axis.range[0] < 1 < small < large < axis.range[1]
    zero, *_ = marks(chart, Line)
    assert zero.x.tolist() == [1, 1]
    # From end to end.
    written = dict(log_ticks(axis, 4))
    assert written[1.0] == "1" and max(written) > 30


def test_half_as_much_is_as_far_away_as_twice_as_much():
    half = compared({"baseline": (100, 0.1, 20), "vm": (50, 0.1, 20)})
    twice = compared({"baseline": (100, 0.1, 20), "vm": (200, 0.1, 20)}, SLEEP)
    chart = forest([half, twice])
    points = [np.log(x) for it in marks(chart, Points) for x in it.x]
    assert sum(points) == pytest.approx(0, abs=0.01)
    assert "half as much" in chart.caption


def test_panels_of_other_sizes_have_their_own_scales():
    levels = {"baseline": (100, 1, 30), "namespace": (102, 1, 30), "vm": (900, 1, 30)}
    chart = forest([compared(levels)])
    near, far = (panel.x for panel in chart.panels)
    assert not near.is_log and near.range[1] < 10 and far.is_log
    assert not chart.shares_x and "its own scale" in chart.caption


def test_intervals_beyond_what_ratios_can_be_are_cut_off():
    usual = Row("a", "vm", 30, 10, 55, "differs")
    wild = Row("b", "vm", 30, -117, 27_151, "undecided")
    scale = Scale.of([usual, wild])
    low, high = scale.axis.range
    assert 0.07 < low < 0.1 and 13 < high < 20
    assert scale.place(np.array([-117.0, 27_151.0])).tolist() == [low, high]
    assert scale.cuts(wild) and not scale.cuts(usual)


def test_nothing_instead_of_something_is_at_the_end():
    gone = Row("a", "vm", -100, None, None, "differs")
    scale = Scale.of([gone])
    low, high = scale.axis.range
    assert 0 < low < 1 < high
    assert scale.place(np.array([-100.0])).tolist() == [low]


def test_panels_are_in_the_order_of_the_loads():
    some = compared({"idle": (10, 1, 9), "network": (20, 1, 9)})
    more = compared({"idle": (10, 1, 9), "io": (20, 1, 9), "network": (20, 1, 9)})
    every = compared({"idle": (9, 1, 9), "cpu": (20, 1, 9), "io": (20, 1, 9)})
    titles = [panel.title for panel in forest([some, more, every]).panels]
    assert titles == ["cpu", "io", "network"]


def test_small_differences_are_on_a_linear_scale():
    axis = forest([LEVELS]).panels[0].x
    assert axis.title == "difference" and not axis.ticks
    assert axis.range[1] == pytest.approx(
        LEVELS.against_base("namespace").percent_high, 0.2
    )


def test_without_comparisons_there_are_words():
    chart = forest([])
    assert chart.is_empty and "Nothing" in chart.panels[0].words
