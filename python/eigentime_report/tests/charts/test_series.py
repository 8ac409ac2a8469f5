import numpy as np
import pytest
from charts.cells import READ, SLEEP, cell, lognormal, places
from eigentime_report.charts import raw_series
from eigentime_report.charts.description import Line, Patch, Points, Span


def marks(chart, kind, panel=0):
    return [mark for mark in chart.panels[panel].marks if isinstance(mark, kind)]


def test_few_samples_are_all_there_in_their_order():
    values = lognormal(100, 500)
    chart = raw_series([cell(values)])
    (points,) = marks(chart, Points)
    assert points.y * 1e9 == pytest.approx(values)
    assert np.all(np.diff(points.x) == 1)


def test_the_median_of_each_block_is_bold():
    values = lognormal(100, 500)
    (line,) = marks(raw_series([cell(values, blocks=4)]), Line)
    medians = [np.median(part) for part in np.split(values, 4)]
    assert line.y * 1e9 == pytest.approx(np.repeat(medians, 2))
    assert line.x.tolist() == [0, 25, 25, 50, 50, 75, 75, 100]
    assert line.width > 2


def test_every_other_block_is_shaded():
    spans = marks(raw_series([cell(lognormal(100, 500), blocks=5)]), Span)
    assert [(span.low, span.high) for span in spans] == [(20, 40), (60, 80)]


def test_many_samples_become_an_envelope_that_holds_them_all():
    values = lognormal(50_000, 500)
    chart = raw_series([cell(values)])
    (patch,) = marks(chart, Patch)
    half = len(patch.x) // 2
    high, low = patch.y[:half], patch.y[half:][::-1]
    assert high.max() * 1e9 == pytest.approx(values.max())
    assert low.min() * 1e9 == pytest.approx(values.min())
    # Each piece stands for the samples around its place.
    edges = np.linspace(0, len(values), half + 1).astype(int)
    for place, part in enumerate(np.split(values, edges[1:-1])):
        assert patch.x[place] == pytest.approx(edges[place : place + 2].mean())
        assert high[place] * 1e9 == pytest.approx(part.max())
        assert low[place] * 1e9 == pytest.approx(part.min())
    assert "from the least to the greatest" in chart.caption
    assert not marks(chart, Points)


def test_readings_are_shown_by_block():
    values = [10.0, 20.0, 30.0, 10.0, 20.0, 30.0]
    counts = [1, 5, 1, 6, 0, 1]
    chart = raw_series(
        [cell(values, quantity=READ, weights=counts, blocks=[0, 0, 0, 1, 1, 1])]
    )
    (line,) = marks(chart, Line)
    assert line.x.tolist() == [-0.5, 0.5, 0.5, 1.5]
    assert line.y * 1e9 == pytest.approx([20, 20, 10, 10])
    assert "kept as histograms" in chart.caption


def test_levels_far_apart_are_on_one_logarithmic_scale():
    chart = raw_series(places({("a", "idle"): 100.0, ("vm", "idle"): 50_000.0}))
    assert {panel.y for panel in chart.panels} == {chart.panels[0].y}
    assert chart.panels[0].y.is_log
    near = raw_series(places({("a", "idle"): 100.0, ("b", "idle"): 120.0}))
    assert not near.panels[0].y.is_log


def test_a_few_zeros_on_a_logarithmic_scale_are_said():
    values = np.concatenate([[0.0], lognormal(999, 1_000, 2.0)])
    chart = raw_series([cell(values, quantity=SLEEP)])
    assert chart.panels[0].y.is_log
    assert "no place, are: baseline, idle 1 of 1,000 (0.1 %)." in chart.caption
    (patch,) = marks(chart, Patch)
    assert np.all(patch.y > 0)


def test_many_blocks_are_not_shaded():
    chart = raw_series([cell(lognormal(1_000, 10), blocks=500)])
    assert not marks(chart, Span)


def test_ten_million_samples_are_small():
    chart = raw_series([cell(lognormal(10_000_000, 60_000), quantity=SLEEP)])
    assert len(chart.to_plotly().to_json()) < 200_000
