"""Both back ends draw every chart, whatever the values and the names are."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from charts.cells import EVENT, LEVELS, READ, SLEEP, cell, lognormal, places
from eigentime_report import charts
from eigentime_report.charts import DARK, LIGHT
from eigentime_report.charts.grid import Grid
from eigentime_report.charts.plotly_layout import layout
from matplotlib.colors import to_rgb

DESCRIBED = {
    "ccdf": charts.ccdf,
    "ccdf by level": lambda cells: charts.ccdf(cells, panel_by="level"),
    "raw series": charts.raw_series,
    "qq": charts.qq,
    "qq of replicates": lambda cells: charts.qq(cells, of="replicates"),
    "qq log-normal": lambda cells: charts.qq(cells, against="log-normal"),
    "violin": charts.distribution,
    "box": lambda cells: charts.distribution(cells, shape="box"),
    "histogram": charts.interval_histogram,
}

LOADED = {
    (level, load): 1_000.0 * (place + 1)
    for place, load in enumerate(("idle", "cpu", "io", "network"))
    for level in ("baseline", "namespace", "container", "vm")
}
NAMES = ["<script>alert(1)</script>", "_under", "$x^2$", "50 %{x} & more", "名前"]

CELLS = {
    "nothing": [],
    "no samples": [cell([])],
    "one sample": [cell([5.0])],
    "two samples": [cell([5.0, 6.0], quantity=SLEEP)],
    "equal samples": [cell(np.full(50, 19.5)), cell(np.full(50, 19.5), "vm")],
    "all zero": [cell(np.zeros(40), quantity=READ)],
    "all negative": [cell(-lognormal(40, 9), quantity=READ)],
    "both signs": [cell(lognormal(400, 9) - 9, quantity=EVENT)],
    "one far beyond": [cell([*lognormal(200, 9), 1e12])],
    "coarse clock": [cell(np.repeat([0.0, 4e6], [900, 100]), quantity=SLEEP)],
    "histograms": [
        cell([1.0, 2.0, 5.0, 900.0], weights=[3, 9_000_000, 40, 1], quantity=READ)
    ],
    "an empty histogram": [cell([1.0, 2.0], weights=[0, 0], quantity=READ)],
    "one block": [cell(lognormal(90, 9), blocks=1)],
    "many": [cell(lognormal(40_000, 9, 1.5), quantity=SLEEP)],
    "all levels and loads": places(LOADED),
    "twelve levels": [cell(lognormal(20, 9), f"level {n}") for n in range(12)],
    "hostile names": [cell(lognormal(20, 9), name, name) for name in NAMES],
}


@pytest.fixture(params=[LIGHT, DARK], ids=lambda theme: theme.name)
def theme(request):
    return request.param


# The font of images has not all letters.
@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("of", CELLS)
@pytest.mark.parametrize("kind", DESCRIBED)
def test_every_chart_is_drawn_by_both(kind, of, tmp_path):
    chart = DESCRIBED[kind](CELLS[of])
    assert chart.caption and chart.title
    assert chart.is_empty == all(panel.words for panel in chart.panels)
    text = chart.to_plotly().to_json()
    assert len(text) < 200_000
    # Not a number would be no JSON either.
    json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    ElementTree.parse(chart.save(tmp_path / "chart.svg"))


@pytest.mark.parametrize("kind", ["ccdf", "raw series", "qq", "histogram"])
def test_values_that_are_no_numbers_are_left_out_with_words(kind):
    some = DESCRIBED[kind]([cell([np.nan, 1.0, np.inf, 2.0, 3.0, 4.0])])
    assert "2 values of baseline under idle are no finite numbers" in some.caption
    assert not some.is_empty
    assert "NaN" not in some.to_plotly().to_json()
    none = DESCRIBED[kind]([cell([np.nan, np.inf])])
    assert none.is_empty and "2 values of baseline" in none.caption


@pytest.mark.parametrize("kind", DESCRIBED)
def test_the_largest_chart_is_small(kind):
    cells = [
        cell(lognormal(30_000, 900.0, 1.0, seed), level, load, SLEEP, blocks=10)
        for seed, (level, load) in enumerate(LOADED)
    ]
    assert len(DESCRIBED[kind](cells).to_plotly().to_json()) < 200_000


def test_images_have_the_colours_of_their_theme(theme, tmp_path):
    figure = charts.ccdf(places(LOADED)).to_matplotlib(theme)
    axes = figure.axes[0]
    assert figure.get_facecolor()[:3] == pytest.approx(to_rgb(theme.roles["surface"]))
    assert axes.lines[0].get_color() == theme.roles["level-0"]
    assert axes.xaxis.label.get_color() == theme.roles["ink"]


def test_plotly_has_the_colours_of_its_theme(theme):
    figure = charts.ccdf(places(LOADED)).to_plotly(theme)
    assert figure.data[0].line.color == theme.colour(charts.theme.Paint("level-0"))
    paper = figure.layout.template.layout.paper_bgcolor
    assert paper == theme.colour(charts.theme.Paint("surface"))


def test_the_same_chart_makes_the_same_file(tmp_path):
    chart = charts.distribution(places(LOADED))
    once, again = chart.save(tmp_path / "one.svg"), chart.save(tmp_path / "two.svg")
    assert once.read_bytes() == again.read_bytes()
    png = chart.save(tmp_path / "one.PNG").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) > 10_000


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"chart.pdf: charts are saved as .png or .svg"
    ):
        charts.ccdf([]).save(tmp_path / "chart.pdf")


def test_names_are_text_for_plotly():
    figure = charts.ccdf(CELLS["hostile names"]).to_plotly()
    names = {trace.name for trace in figure.data}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in names
    assert not any("<" in name for name in names)
    assert "50 %{x} &amp; more" in names
    # What plotly fills in has no names in it.
    templates = {trace.hovertemplate for trace in figure.data if trace.hovertemplate}
    assert not any("more" in template for template in templates)


def test_names_are_text_for_matplotlib():
    figure = charts.ccdf(CELLS["hostile names"]).to_matplotlib()
    texts = figure.legends[0].get_texts()
    assert [text.get_text() for text in texts] == [*NAMES, "mean"]
    assert not any(text.get_parse_math() for text in texts)
    titles = [axes.get_title("left") for axes in figure.axes if axes.get_visible()]
    assert titles == NAMES


def test_captions_are_below_images():
    chart = charts.ccdf([cell([-1.0, 5.0, 6.0], quantity=READ)])
    drawn = chart.to_matplotlib().get_supxlabel()
    assert "no place, are: baseline, idle 1 of 3 (33 %)." in drawn.replace("\n", " ")


def test_the_legend_toggles_what_it_names():
    figure = charts.ccdf(places(LOADED)).to_plotly()
    entries = {
        trace.legendgroup: trace.name for trace in figure.data if trace.showlegend
    }
    assert list(entries.values()) == [
        "baseline",
        "namespace",
        "container",
        "vm",
        "mean",
    ]
    members = [trace.legendgroup for trace in figure.data if not trace.showlegend]
    assert set(members) == set(entries)


def test_panels_are_below_each_other_where_the_page_is_narrow():
    chart = charts.ccdf(places(LOADED))
    wide, narrow = layout(chart, LIGHT), layout(chart, LIGHT, width=520)
    assert wide["xaxis2"]["domain"][0] > wide["xaxis"]["domain"][1]
    assert narrow["xaxis2"]["domain"] == narrow["xaxis"]["domain"] == (0, 1)
    assert narrow["yaxis2"]["domain"][1] < narrow["yaxis"]["domain"][0]
    assert narrow["height"] > wide["height"]
    series = charts.raw_series(places(LOADED))
    domains = [
        [
            layout(series, LIGHT, width=width)[f"xaxis{n}"]["domain"][0]
            for n in (2, 3, 4)
        ]
        for width in (850, 760, 520)
    ]
    assert [len({0.0, *each}) for each in domains] == [4, 2, 1]


def test_the_lowest_panel_of_each_column_names_the_axis():
    cells = [cell(lognormal(20, 9), f"level {number}") for number in range(3)]
    chart = charts.raw_series(cells)
    grid = Grid.of(chart, 2)
    assert [place.is_lowest for place in grid] == [False, True, True]
    assert [place.is_leftmost for place in grid] == [True, False, True]


def test_a_forest_is_drawn_by_both():
    chart = charts.forest([LEVELS])
    plotly = chart.to_plotly()
    assert plotly.layout.yaxis.ticktext == ("vdso_gettimeofday",)
    figure = chart.to_matplotlib()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["vdso_gettimeofday"]
    # An interval, its point, and the line of no difference.
    assert [len(axes.lines) for axes in figure.axes] == [3, 3]


def test_a_notebook_shows_a_chart_and_not_its_parts():
    chart = charts.ccdf(CELLS["one block"])
    for bundle in (
        chart._repr_mimebundle_(include=None, exclude=None),
        {"text/html": chart._repr_html_()},
    ):
        assert all("plotly" in str(shown).lower() for shown in bundle.values())
    assert "Plotly.newPlot" in chart._repr_html_()
    assert repr(chart).startswith(f"<Chart {chart.key}: ") and len(repr(chart)) < 200
