import numpy as np
import pytest
from charts.cells import READ, SLEEP, cell, lognormal, places
from eigentime_report.charts import distribution
from eigentime_report.charts.description import Line, Patch, Points
from eigentime_report.charts.distribution import density
from eigentime_report.charts.sample import Sample


def marks(chart, kind, panel=0):
    return [mark for mark in chart.panels[panel].marks if isinstance(mark, kind)]


def test_a_violin_is_widest_where_values_are_most_frequent():
    values = np.random.default_rng(4).normal(100, 5, 20_000)
    at, heights = density(Sample.of(values), is_log=False)
    assert at[np.argmax(heights)] == pytest.approx(100, abs=1.5)
    # Of a normal distribution, one standard deviation away.
    assert np.interp(105, at, heights) == pytest.approx(np.exp(-0.5), abs=0.06)


def test_two_modes_are_two_bulges():
    random = np.random.default_rng(4)
    values = np.concatenate(
        [random.normal(100, 2, 3_000), random.normal(130, 2, 3_000)]
    )
    at, heights = density(Sample.of(values), is_log=False)
    assert np.interp([100, 130], at, heights) == pytest.approx([1, 1], abs=0.15)
    assert np.interp(115, at, heights) < 0.05


def test_counts_make_the_same_violin_as_values():
    values, counts = np.arange(50.0, 60.0), np.array([1, 3, 9, 20, 40, 39, 22, 8, 2, 1])
    of_counts = density(Sample.of(values, counts), is_log=False)
    of_values = density(Sample.of(np.repeat(values, counts)), is_log=False)
    for weighted, plain in zip(of_counts, of_values, strict=True):
        assert weighted == pytest.approx(plain)


def test_levels_stand_side_by_side_and_loads_in_panels():
    medians = {
        (level, load): 1_000.0 for level in ("a", "b") for load in ("idle", "io")
    }
    chart = distribution(places(medians))
    assert [panel.title for panel in chart.panels] == ["idle", "io"]
    assert chart.panels[0].x.ticks == ((0.0, "a"), (1.0, "b"))
    centres = [patch.x.mean() for patch in marks(chart, Patch)]
    assert centres == pytest.approx([0, 1])


def test_points_are_the_medians_of_replicates():
    one = cell(lognormal(300, 1_000), quantity=SLEEP, blocks=6)
    (points,) = marks(distribution([one]), Points)
    assert points.y * 1e9 == pytest.approx(one.replicates.median)
    assert len(set(points.x)) == 6


def test_the_median_and_the_quartiles_are_drawn():
    values = lognormal(301, 1_000)
    quartiles, median = marks(distribution([cell(values)]), Line)
    assert median.y * 1e9 == pytest.approx(np.full(2, np.median(values)))
    expected = np.quantile(values, [0.25, 0.75], method="inverted_cdf")
    assert quartiles.y * 1e9 == pytest.approx(expected)


def test_whiskers_end_at_the_last_samples_within_the_fences():
    values = np.array([10.0, 11, 12, 13, 14, 15, 16, 17, 18, 19, 40])
    chart = distribution([cell(values)], shape="box")
    (box,) = marks(chart, Patch)
    assert sorted(set(np.round(box.y * 1e9, 6))) == [12, 18]
    ends = [line.y * 1e9 for line in marks(chart, Line)[:2]]
    assert ends[0] == pytest.approx([10, 12]) and ends[1] == pytest.approx([18, 19])


def test_equal_values_are_a_line_and_words():
    chart = distribution([cell(np.full(30, 7.0)), cell(lognormal(30, 8), "vm")])
    assert "All samples are equal, and a line, at baseline, idle." in chart.caption
    assert len(marks(chart, Patch)) == 1


def test_one_of_ten_that_is_far_away_does_not_flatten_the_others():
    values = np.array([98.0, 99, 99.5, 100, 100.2, 100.8, 101, 101.5, 102, 900])
    chart = distribution([cell(values)])
    low, high = np.array(chart.panels[0].y.range) * 1e9
    assert low < 98 and 102 < high < 115
    assert "Beyond the axis are: baseline, idle 1 of 10 (10 %)." in chart.caption


def test_few_values_that_belong_together_are_all_shown():
    values = np.array([90.0, 94, 97, 99, 100, 101, 103, 106, 109, 118])
    chart = distribution([cell(values)])
    low, high = np.array(chart.panels[0].y.range) * 1e9
    assert low < 90 and high > 118
    assert "Beyond" not in chart.caption


def test_values_beyond_a_linear_axis_are_counted():
    values = np.concatenate([-np.ones(500), np.ones(499), [1_000.0]])
    chart = distribution([cell(values, quantity=READ)])
    assert not chart.panels[0].y.is_log
    assert "Beyond the axis are: baseline, idle 1 of 1,000 (0.1 %)." in chart.caption
