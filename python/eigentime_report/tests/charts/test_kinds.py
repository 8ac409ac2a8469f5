"""Charts of single quantities: what they show of samples, and that every one of them is drawn."""

import json
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from charts.cells import EVENT, LEVELS, READ, SLEEP, cell, lognormal, places

from eigentime_report import charts
from eigentime_report.charts import DARK, LIGHT, Chart
from eigentime_report.charts.kinds import bin_edges, normal_scores
from eigentime_report.charts.sample import both_ranks, top_ranks
from eigentime_report.statistics.intervals import Ordered

KINDS = {
    it.__name__: it
    for it in (
        charts.ccdf,
        charts.distribution,
        charts.interval_histogram,
        charts.qq,
        charts.raw_series,
    )
}
LOADED = {
    (level, load): 1_000.0 * (place + 1)
    for place, load in enumerate(("idle", "cpu", "io", "network"))
    for level in ("baseline", "namespace", "container", "vm")
}
NAMES = ["<script>alert(1)</script>", "_under", "$x^2$", "50 %{x} & more", "名前"]
CELLS = {
    "one sample": [cell([5.0])],
    "two samples": [cell([5.0, 6.0], quantity=SLEEP)],
    "equal samples": [cell(np.full(50, 19.5)), cell(np.full(50, 19.5), "vm")],
    "all zero": [cell(np.zeros(40), quantity=READ)],
    "all negative": [cell(-lognormal(40, 9), quantity=READ)],
    "both signs": [cell(lognormal(400, 9) - 9, quantity=EVENT)],
    "one far beyond": [cell([*lognormal(200, 9), 1e12])],
    "coarse clock": [cell(np.repeat([0.0, 4e6], [900, 100]), quantity=SLEEP)],
    "histograms": [cell([1.0, 2.0, 5.0, 900.0], weights=[3, 9_000_000, 40, 1], quantity=READ)],
    "many": [cell(lognormal(40_000, 9, 1.5), quantity=SLEEP)],
    "all levels and loads": places(LOADED),
    "twelve levels": [cell(lognormal(20, 9), f"level {n}") for n in range(12)],
    "hostile names": [cell(lognormal(20, 9), name, name) for name in NAMES],
}
NOTHING = {
    "nothing": [],
    "no samples": [cell([])],
    "an empty histogram": [cell([1.0, 2.0], weights=[0, 0], quantity=READ)],
}


def valid(chart: Chart) -> str:
    """The chart as JSON, which Vega-Lite's schema allows, and without NaN."""
    assert chart.drawn is not None
    chart.drawn.to_dict(validate=True)
    text = json.dumps(chart.spec(), allow_nan=False)
    assert len(text) < 400_000
    return text


@pytest.mark.parametrize("of", CELLS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_one_of_vega_lite(kind, of):
    chart = KINDS[kind](CELLS[of])
    assert chart.caption and chart.title
    if not chart.is_empty:
        # The values decide what is drawn: the form of it, which takes long to check, is the kind's.
        if of in ("histograms", "two samples", "hostile names"):
            valid(chart)
        assert set(chart.rows["level"]) <= {it.level for it in CELLS[of]}
    elif kind == "ccdf":
        assert not any((it.values > 0).any() for it in CELLS[of])
    else:
        pytest.fail("it is empty")


@pytest.mark.parametrize("of", NOTHING)
@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_was_measured_there_are_words(kind, of, tmp_path):
    chart = KINDS[kind](NOTHING[of])
    assert chart.is_empty and chart.spec() == {}
    assert chart.caption.startswith("Nothing was measured")
    if kind == "ccdf":
        ElementTree.parse(chart.save(tmp_path / "chart.svg"))


@pytest.mark.parametrize("kind", KINDS)
def test_images_are_drawn_in_the_colours_of_their_theme(kind, tmp_path):
    chart = KINDS[kind](places(LOADED, count=60))
    # The other theme is the one that all other images are drawn in.
    text = chart.save(tmp_path / "chart.svg", DARK).read_text()
    assert DARK.roles["level-3"] in text and DARK.roles["surface"] in text
    assert LIGHT.roles["surface"] not in text
    texts = {it.text for it in ElementTree.fromstring(text).iter() if it.text}
    assert {chart.title, "vm"} <= texts
    assert any(chart.caption.startswith(it) for it in texts if len(it) > 50)


def test_the_suffix_says_the_form_of_an_image(tmp_path):
    chart = charts.distribution(CELLS["one sample"])
    png = chart.save(tmp_path / "one.PNG").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) > 5_000
    with pytest.raises(ValueError, match=r"chart.pdf: charts are saved as .png or"):
        chart.save(tmp_path / "chart.pdf")
    assert [it.name for it in tmp_path.iterdir()] == ["one.PNG"]


def test_a_notebook_shows_a_chart_and_not_its_parts():
    chart = charts.ccdf(CELLS["two samples"])
    assert "vega" in str(chart._repr_mimebundle_()).lower()
    assert repr(chart).startswith(f"<Chart {chart.key}: ") and len(repr(chart)) < 200


def test_a_level_keeps_its_colour_where_others_are_missing():
    levels = ["baseline", "namespace", "container", "vm"]
    chart = charts.ccdf([cell(lognormal(50, 100), "vm")], levels=levels)
    line = chart.spec()["spec"]["layer"][0]["encoding"]["color"]
    assert line["scale"]["domain"] == levels and line["legend"]["values"] == ["vm"]


def test_one_quantity_is_asked_for():
    both = [cell([1.0]), cell([1.0], quantity=SLEEP)]
    with pytest.raises(ValueError, match="sleep/nanosleep/1ms.*choose the cells"):
        charts.ccdf(both)


def test_panels_are_in_the_order_of_the_loads():
    cells = list(reversed(places(LOADED)))
    loads = ["idle", "cpu", "io", "network"]
    chart = charts.ccdf(cells, loads=loads)
    assert chart.spec()["facet"]["sort"] == loads
    assert chart.spec()["columns"] == 2


def test_each_point_of_a_tail_is_the_share_that_is_at_least_as_great():
    values = lognormal(200, 1_000)
    rows = charts.ccdf([cell(values)]).rows
    exact = [np.mean(values * 1e-9 >= at * (1 - 1e-12)) for at in rows["value"]]
    assert rows["share"].to_list() == pytest.approx(exact)
    assert rows["share"][0] == 1 and rows["share"][-1] == pytest.approx(1 / 200)
    assert rows["value"][-1] == pytest.approx(values.max() * 1e-9)


def test_many_samples_make_a_small_chart_that_keeps_to_the_whole():
    values = lognormal(300_000, 60_000, 0.8)
    chart = charts.ccdf([cell(values, quantity=SLEEP)])
    assert len(valid(chart)) < 100_000
    share = chart.rows["share"].to_numpy()
    # Nowhere between two points does the share fall by more than a part of it.
    assert np.max(share[:-1] / share[1:]) < 2.01
    assert share[-1] == pytest.approx(1 / 300_000)
    assert chart.rows["value"][-1] == pytest.approx(values.max() * 1e-9)


def test_counts_make_the_same_chart_as_values():
    values, counts = np.arange(1.0, 30.0), np.arange(29, 0, -1)
    for kind in (charts.ccdf, charts.interval_histogram, charts.qq):
        weighted = kind([cell(values, weights=counts)])
        plain = kind([cell(np.repeat(values, counts))])
        assert weighted.rows.equals(plain.rows)


def test_what_is_0_or_less_is_counted_and_said():
    values = np.concatenate([[-5.0, 0.0], lognormal(98, 100)])
    chart = charts.ccdf([cell(values, quantity=READ)])
    assert "no place, are: baseline, idle 2 of 100 (2 %)." in chart.caption
    # The shares are still those of all.
    assert chart.rows["share"][0] == pytest.approx(0.98)
    none = charts.ccdf([cell([-1.0, 0.0, -3.0], quantity=READ)])
    assert none.is_empty and "3 of 3 (100 %)." in none.caption


def test_tails_of_events_are_by_their_distance():
    rows = charts.ccdf([cell([-100.0, 50.0, 5.0], quantity=EVENT)]).rows
    assert (rows["value"] * 1e9).to_list() == pytest.approx([5, 50, 100])


def test_percentiles_are_those_of_the_samples():
    values = lognormal(1_000, 100)
    rows = charts.distribution([cell(values)]).rows
    for name, part in (("p1", 1), ("p25", 25), ("p50", 50), ("p99", 99)):
        exact = np.percentile(values, part, method="inverted_cdf") * 1e-9
        assert rows[name].drop_nulls().to_list() == pytest.approx([exact])
    # The medians of its five blocks.
    assert len(rows["value"].drop_nulls()) == 5


@pytest.mark.parametrize(("greatest", "scaled"), [(100.0, None), (9_000.0, "log")])
def test_times_that_differ_much_are_on_a_logarithmic_scale(greatest, scaled):
    for kind in (charts.distribution, charts.raw_series):
        chart = kind([cell([*lognormal(50, 60), greatest])])
        encoding = chart.spec()["spec"]["layer"][0]["encoding"]
        axis = encoding["y" if kind is charts.raw_series else "x"]
        assert axis["scale"].get("type") == scaled
        assert ("logarithmic" in chart.caption) is (scaled == "log")


def test_a_series_has_each_blocks_median_and_all_extremes():
    values = 100 + np.arange(1_000.0)
    rows = charts.raw_series([cell(values, blocks=4)]).rows
    medians = rows.drop_nulls("median")
    assert medians["x"].to_list() == [0, 1, 2, 3]
    assert (medians["median"] * 1e9).to_list() == pytest.approx([224, 474, 724, 974])
    pieces = rows.drop_nulls("low")
    assert len(pieces) == 120
    assert pieces["low"].min() == pytest.approx(100e-9)
    assert pieces["high"].max() == pytest.approx(1_099e-9)
    assert pieces["x2"][:-1].to_list() == pytest.approx(pieces["x"][1:].to_list())


def test_a_series_of_readings_has_a_piece_for_each_block():
    values, blocks = [1.0, 5.0, 2.0, 9.0], [0, 0, 1, 1]
    weights = [9, 1, 1, 9]
    chart = charts.raw_series([cell(values, weights=weights, blocks=blocks)])
    low, high, median = (chart.rows[it].drop_nulls() * 1e9 for it in ("low", "high", "median"))
    assert low.to_list() == pytest.approx([1, 2])
    assert high.to_list() == pytest.approx([5, 9])
    assert median.to_list() == pytest.approx([1, 9])


def test_a_histogram_has_the_middle_of_the_samples():
    values = np.concatenate([np.linspace(-50, 50, 1_000), [1e9]])
    rows = charts.interval_histogram([cell(values, quantity=EVENT)]).rows
    assert rows["share"].sum() == pytest.approx(0.99, abs=0.01)
    assert rows["x2"].max() < 60e-9


def test_bins_are_as_wide_as_steps_of_the_clock():
    edges = bin_edges(0.0, 1_000.0, 13.0)
    assert np.diff(edges) == pytest.approx(26.0)
    assert edges[0] == -6.5 and edges[-1] > 1_000
    assert len(bin_edges(0.0, 1_000.0, 0.001)) <= 63
    # One value is a narrow bin around it.
    (low, high, *_) = bin_edges(20.0, 20.0, 0.0)
    assert low < 20 < high


def test_normal_samples_are_on_the_line():
    count = 2_001
    ranks = np.arange(count)
    values = 100 + 7 * normal_scores(count, ranks)
    rows = charts.qq([cell(values)]).rows
    points, line = rows.drop_nulls("value"), rows.drop_nulls("line")
    at = np.interp(points["x"], line["x"], line["line"])
    assert points["value"].to_numpy() == pytest.approx(at, rel=1e-3)


def test_ranks_have_both_ends():
    assert top_ranks(5, 60).tolist() == both_ranks(5, 60).tolist() == [0, 1, 2, 3, 4]
    top, both = top_ranks(1_000_000, 200), both_ranks(1_000_000, 200)
    assert len(top) < 230 and len(both) < 230
    for ranks in top, both:
        assert ranks[0] == 0 and set(range(999_980, 1_000_000)) <= set(ranks)
    assert set(range(20)) <= set(both)


def test_quantiles_of_counts_are_those_of_values():
    values, counts = [3.0, 1.0, 2.0], [2, 5, 3]
    sample = Ordered.of(values, counts)
    plain = np.repeat(values, counts)
    for part in (0.0, 0.25, 0.5, 0.51, 0.8, 0.81, 1.0):
        exact = np.quantile(plain, part, method="inverted_cdf")
        assert sample.reached_by(part) == exact
    assert sample.below([1.0, 2.5, 9.0]).tolist() == [0, 8, 10]


def test_rows_hold_no_more_than_is_drawn():
    rows = charts.forest([LEVELS]).rows
    assert isinstance(rows, pl.DataFrame) and len(rows) == 2
