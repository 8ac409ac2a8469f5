import time

import numpy as np
import pytest
from charts.cells import EVENT, READ, SLEEP, cell, lognormal, places
from eigentime_report.charts import ccdf
from eigentime_report.charts.description import Line
from eigentime_report.charts.sample import Sample
from eigentime_report.charts.tails import tail


def curves(chart):
    """The lines of shares by their names; the means are apart."""
    lines = [mark for panel in chart.panels for mark in panel.marks]
    return {line.name: line for line in lines if isinstance(line, Line)}


def test_each_point_is_the_share_that_is_at_least_as_great():
    values = lognormal(200, 1_000)
    line = curves(ccdf([cell(values)]))["baseline, idle"]
    x, above = line.x[:-1], line.y[:-1]
    assert line.is_step
    for at, share in zip(x, above, strict=True):
        assert share == pytest.approx(100 * np.mean(values * 1e-9 >= at * (1 - 1e-12)))
    assert above[0] == 100
    # The greatest one is one of 200, and from there the line falls.
    assert above[-1] == pytest.approx(0.5)
    assert x[-1] == pytest.approx(values.max() * 1e-9)


def test_a_thinned_line_keeps_to_the_whole_one():
    values = np.sort(lognormal(1_000_000, 1_000, 1.0))
    x, above = tail(Sample.of(values), 400)
    exact = 100 * (len(values) - np.searchsorted(values, x)) / len(values)
    assert above == pytest.approx(exact)
    # Nowhere between two points does the share fall by more than a part of it.
    assert np.max(above[:-1] / above[1:]) < 2.01
    assert set(values[-20:]) <= set(x)
    assert len(x) < 450


def test_counts_make_the_same_line_as_values():
    values, counts = np.arange(1.0, 30.0), np.arange(29, 0, -1)
    weighted = curves(ccdf([cell(values, weights=counts)]))["baseline, idle"]
    plain = curves(ccdf([cell(np.repeat(values, counts))]))["baseline, idle"]
    assert weighted.x.tolist() == plain.x.tolist()
    assert weighted.y == pytest.approx(plain.y)


def test_means_are_dashed():
    values = lognormal(500, 2_000)
    mean = curves(ccdf([cell(values)]))["mean of baseline, idle"]
    assert mean.dash == "dash"
    assert mean.x == pytest.approx(np.full(2, values.mean() * 1e-9))


def test_loads_have_panels_and_levels_colours():
    medians = {
        (level, load): 1_000.0 for level in ("a", "b") for load in ("idle", "cpu")
    }
    chart = ccdf(places(medians))
    assert [panel.title for panel in chart.panels] == ["idle", "cpu"]
    lines = curves(chart)
    assert lines["a, idle"].paint == lines["a, cpu"].paint != lines["b, idle"].paint
    assert [key.text for key in chart.keys] == ["a", "b", "mean"]
    by_level = ccdf(places(medians), panel_by="level")
    assert [panel.title for panel in by_level.panels] == ["a", "b"]
    styles = {name: line.dash for name, line in curves(by_level).items()}
    assert styles["a, idle"] == styles["b, idle"] == "solid"
    assert styles["a, cpu"] == styles["b, cpu"] == "dot"
    assert [key.text for key in by_level.keys] == ["idle", "cpu", "mean"]


def test_a_level_keeps_its_colour_where_others_are_missing():
    levels = ["baseline", "namespace", "container", "vm"]
    values = lognormal(50, 100)
    of_all = ccdf([cell(values, level) for level in levels], levels=levels)
    of_one = ccdf([cell(values, "vm")], levels=levels)
    assert curves(of_one)["vm, idle"].paint == curves(of_all)["vm, idle"].paint


def test_what_is_0_or_less_is_counted_and_said():
    values = np.concatenate([[-5.0, 0.0], lognormal(98, 100)])
    chart = ccdf([cell(values, quantity=READ)])
    line = curves(chart)["baseline, idle"]
    assert "no place, are: baseline, idle 2 of 100 (2 %)." in chart.caption
    # The shares are still those of all.
    assert line.y[0] == pytest.approx(98)
    assert np.all(line.x > 0)


def test_where_all_is_0_or_less_there_are_words():
    chart = ccdf([cell([-1.0, 0.0, -3.0], quantity=READ)])
    assert chart.is_empty
    assert chart.panels[0].words == "Nothing to show"
    assert "no place, are: baseline, idle 3 of 3 (100 %)." in chart.caption


def test_events_are_shown_by_their_distance():
    line = curves(ccdf([cell([-100.0, 50.0, 0.5], quantity=EVENT)]))["baseline, idle"]
    assert line.x[:-1] * 1e9 == pytest.approx([0.5, 50, 100])


def test_one_quantity_is_asked_for():
    both = [cell([1.0]), cell([1.0], quantity=SLEEP)]
    with pytest.raises(
        ValueError, match="sleep/nanosleep/1ms.*choose the cells of one"
    ):
        ccdf(both)


def test_ten_million_samples_are_quick_and_small():
    values = lognormal(10_000_000, 60_000, 0.8)
    begin = time.perf_counter()
    chart = ccdf([cell(values, quantity=SLEEP)])
    taken = time.perf_counter() - begin
    assert taken < 10, "two seconds where nothing else runs"
    assert len(chart.to_plotly().to_json()) < 200_000
    assert "10,000,000 samples" in chart.caption
    line = curves(chart)["baseline, idle"]
    assert line.x[-2] == pytest.approx(values.max() * 1e-9)
    assert line.y[-2] == pytest.approx(100 / 10_000_000)
