import numpy as np
import pytest
from charts.cells import SLEEP, cell, lognormal
from eigentime_report.charts import qq
from eigentime_report.charts.description import Line, Points
from eigentime_report.charts.normal import expected
from eigentime_report.charts.sample import Sample
from scipy import stats


def parts(chart):
    panel = chart.panels[0]
    (points,) = [mark for mark in panel.marks if isinstance(mark, Points)]
    (line,) = [mark for mark in panel.marks if isinstance(mark, Line)]
    return points, line


def correlation(points, is_log=False):
    values = np.log(points.y) if is_log else points.y
    return np.corrcoef(points.x, values)[0, 1]


def test_places_are_nearly_those_of_the_expected_order_statistics():
    # Harter 1961: expected values of the order statistics of 10 normal values.
    harter = [-1.53875, -1.00136, -0.65606, -0.37576, -0.12267]
    found = expected(Sample.of(np.arange(10.0)), np.arange(10.0))
    assert found[:5] == pytest.approx(harter, abs=0.01)
    assert found == pytest.approx(-found[::-1])


def test_normal_values_are_on_the_line():
    values = np.random.default_rng(2).normal(1_000, 50, 400)
    points, line = parts(qq([cell(values)]))
    assert correlation(points) > 0.995
    slope = np.diff(line.y)[0] / np.diff(line.x)[0] * 1e9
    assert slope == pytest.approx(50, rel=0.15)


def test_the_line_goes_through_the_quartiles():
    values = lognormal(999, 100)
    _, line = parts(qq([cell(values)]))
    quartiles = np.quantile(values, [0.25, 0.75]) * 1e-9
    at = stats.norm.ppf([0.25, 0.75])
    found = np.interp(at, line.x, line.y)
    assert found == pytest.approx(quartiles)


def test_log_normal_values_are_on_the_line_of_their_own_kind():
    cells = [cell(lognormal(2_000, 100, 1.0))]
    against_normal, _ = parts(qq(cells))
    chart = qq(cells, against="log-normal")
    points, _ = parts(chart)
    assert chart.panels[0].y.is_log
    assert correlation(points, is_log=True) > 0.995 > correlation(against_normal) + 0.05
    assert "log-normal" in chart.caption
    assert chart.key != qq(cells).key


def test_replicates_are_shown_where_they_are_what_is_tested():
    values = lognormal(1_000, 100)
    one = cell(values, quantity=SLEEP, blocks=10)
    chart = qq([one], of="replicates")
    points, _ = parts(chart)
    assert points.y * 1e9 == pytest.approx(np.sort(one.replicates.mean))
    assert "means of blocks" in chart.caption


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([5.0], "1 value: too few"),
        ([5.0, 6.0], "2 values: too few"),
        ([5.0] * 30, "All 30 values are equal"),
    ],
)
def test_what_cannot_be_compared_is_said(values, words):
    panel = qq([cell(values)]).panels[0]
    assert panel.words == words and not panel.marks


def test_values_of_0_cannot_be_log_normal():
    values = np.concatenate([np.zeros(5), lognormal(95, 10)])
    chart = qq([cell(values)], against="log-normal")
    assert "not shown, are: baseline, idle 5 of 100 (5 %)." in chart.caption
    assert np.all(parts(chart)[0].y > 0)
    mostly = np.concatenate([np.zeros(50), lognormal(50, 10)])
    assert "0 or less" in qq([cell(mostly)], against="log-normal").panels[0].words


def test_both_ends_of_many_values_are_kept():
    values = lognormal(1_000_000, 100, 1.0)
    points, _ = parts(qq([cell(values)]))
    assert len(points.x) < 500
    assert points.y[0] * 1e9 == pytest.approx(values.min())
    assert points.y[-1] * 1e9 == pytest.approx(values.max())
