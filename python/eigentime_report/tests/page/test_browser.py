"""The page in a browser: drawn, quiet, alone, in light and dark, narrow and on paper."""

import re
import zlib

import pytest
from eigentime_report.charts import DARK, LIGHT
from eigentime_report.charts.plotly_layout import layout
from eigentime_report.charts.with_plotly import traces
from eigentime_report.page import Page, render
from page.browser import Browser, program
from page.pages import hostile, whole

STATES = "[...document.querySelectorAll('.plot')].map((plot) => plot.dataset.state)"
# What is folded, and the options that are not chosen, too.
EVERYTHING = """document.querySelectorAll('details, .option').forEach((it) => {
    it.open = true; it.hidden = false; })"""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
# What a plot has really drawn: points and lines with a path, or an annotation.
EMPTY = """[...document.querySelectorAll('.plot')].filter((plot) =>
    !plot.querySelector('.scatterlayer path[d], .annotation text')).map((plot) => plot.dataset.chart)"""
# Of the first plot that is drawn.
FONT = "document.querySelector('.plot .xtick text').style.fill"


def rgb(colour):
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


@pytest.fixture(scope="module")
def browser():
    executable = program()
    if executable is None:
        pytest.skip("needs Chromium: the Debian package chromium")
    with Browser(executable) as started:
        yield started


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(whole()), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, path):
    browser.look()
    browser.open(path)
    browser.run("localStorage.clear()")
    browser.open(path)
    return browser


def test_charts_are_drawn_when_they_are_scrolled_to(opened):
    before = opened.run(STATES)
    assert "drawn" not in before[-4:], "the last ones are not near the window"
    opened.run(EVERYTHING)
    opened.scroll_through()
    assert set(opened.run(STATES)) == {"drawn"}
    assert opened.run(EMPTY) == []


def test_the_page_is_quiet_and_asks_for_nothing(opened):
    opened.run(EVERYTHING)
    opened.scroll_through()
    assert opened.complaints() == []
    assert opened.requests() == []


def test_a_point_under_the_pointer_tells_its_numbers(opened):
    opened.scroll_through()
    said = opened.run(
        """(() => {
            const plot = document.querySelector('[data-chart=data-tail-sleep-nanosleep-1ms-other-slack-50us]');
            Plotly.Fx.hover(plot, [{ curveNumber: 0, pointNumber: 9 }]);
            return plot.querySelector('.hoverlayer .hovertext').textContent;
        })()"""
    )
    assert re.fullmatch(
        r"baseline, idleat least as long [\d.]+ %miss time [\d.]+µs", said
    )


@pytest.mark.parametrize(("dark", "theme"), [(False, LIGHT), (True, DARK)])
def test_the_system_decides_between_light_and_dark(opened, dark, theme, tmp_path):
    opened.look(dark=dark)
    opened.scroll_through()
    assert opened.run(BACKGROUND) == rgb(theme.roles["page"])
    assert opened.run(FONT) == rgb(theme.roles["muted"])
    assert len(opened.picture(tmp_path / "page.png")) > 20_000


def test_the_switch_is_obeyed_and_remembered(opened, path):
    choose = "document.querySelector('input[name=theme][value={}]').click()"
    opened.scroll_through()
    opened.run(choose.format("dark"))
    assert opened.run(BACKGROUND) == rgb(DARK.roles["page"])
    assert opened.run(FONT) == rgb(DARK.roles["muted"])
    opened.open(path)
    assert opened.run(BACKGROUND) == rgb(DARK.roles["page"])
    assert (
        opened.run("document.querySelector('input[name=theme]:checked').value")
        == "dark"
    )
    opened.run(choose.format("auto"))
    assert opened.run(BACKGROUND) == rgb(LIGHT.roles["page"])
    assert opened.run("localStorage.length") == 0


def test_the_network_is_forbidden(opened):
    asked = opened.run(
        "fetch('https://example.org/').then(() => 'sent', () => 'refused')"
    )
    assert asked == "refused"
    assert any("Content Security Policy" in text for text in opened.complaints())


def test_scripts_of_others_do_not_run(opened):
    found = opened.run(
        """(() => {
            const script = document.createElement('script');
            script.textContent = 'window.ran = true';
            document.body.append(script);
            return window.ran === undefined;
        })()"""
    )
    assert found


def test_a_narrow_window_needs_no_scrolling_to_the_side(opened, path):
    opened.look(width=380, height=800)
    opened.open(path)
    opened.run(EVERYTHING)
    opened.scroll_through()
    assert set(opened.run(STATES)) == {"drawn"}
    assert opened.run("document.documentElement.scrollWidth") <= 380
    # The wide table has its own box to scroll in.
    assert opened.run(
        "(() => { const box = document.querySelector('#miss-times .scroll');"
        " return box.scrollWidth > box.clientWidth })()"
    )
    assert opened.run("document.querySelector('nav details').open") is True
    assert opened.complaints() == []


def test_everything_can_be_reached_by_the_keyboard(opened):
    reached = []
    for _ in range(60):
        opened.press("Tab")
        reached.append(
            opened.run(
                "(() => { const it = document.activeElement;"
                " return it.className || it.name || it.getAttribute('href') || it.tagName })()"
            )
        )
    assert reached[0] == "skip"
    assert "theme" in reached and "#overhead" in reached and "scroll" in reached
    assert "SUMMARY" in reached and "SELECT" in reached


def test_paper_has_all_that_is_unfolded_in_light(browser, path, tmp_path):
    browser.look(dark=True)
    browser.open(path)
    short = browser.paper(tmp_path / "short.pdf")
    # All were drawn for it, and afterwards it is dark again.
    states = browser.run(STATES)
    assert states == [*["drawn"] * 3, None, *["drawn"] * 2, None, None]
    browser.run(EVERYTHING)
    printed = browser.paper(tmp_path / "report.pdf")
    assert set(browser.run(STATES)) == {"drawn"}
    assert pages(printed) > pages(short) >= 3
    assert browser.run(BACKGROUND) == rgb(DARK.roles["page"])
    assert browser.run(FONT) == rgb(DARK.roles["muted"])
    streams = [
        inflated(stream)
        for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", printed, re.DOTALL)
    ]
    # Neither the page nor a chart is painted with what is behind them in the dark.
    for role in "page", "surface":
        assert not any(painted(DARK.roles[role]).search(stream) for stream in streams)
    assert any(painted(LIGHT.roles["level-0"]).search(stream) for stream in streams)
    assert browser.complaints() == []


def pages(document):
    return len(re.findall(rb"/Type\s*/Page\b", document))


def painted(colour):
    """How a PDF's stream sets this colour, for lines or areas."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    numbers = " ".join(f"{part:.4f}".lstrip("0").rstrip("0") for part in parts)
    return re.compile(re.escape(numbers).encode() + rb" (rg|RG)")


def inflated(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


def test_links_open_the_fold_that_they_lead_into(opened, path):
    assert opened.run("document.getElementById('folded').open") is False
    opened.run("location.hash = '#folded-table'")
    opened.run("new Promise((done) => setTimeout(done, 50))")
    assert opened.run("document.getElementById('folded').open") is True


def test_of_a_choice_one_option_is_seen(opened):
    seen = """[...document.querySelectorAll('.option')].map((it) =>
        it.checkVisibility() && [...it.querySelectorAll('.plot')].map((plot) => plot.dataset.state))"""
    opened.scroll_through()
    assert opened.run(seen) == [False, ["drawn", "drawn"]]
    # By the keyboard, as anything else.
    opened.run("document.querySelector('.choice select').focus()")
    opened.press("ArrowUp")
    opened.scroll_through()
    assert opened.run("document.activeElement.value") == "reads"
    assert opened.run(seen) == [["drawn"], False]
    # What was not seen as the colours changed has the new ones when it is.
    opened.look(dark=True)
    opened.run("location.hash = '#ticks'")
    opened.scroll_through()
    assert opened.run("document.querySelector('.choice select').value") == "ticks"
    colours = opened.run(
        "[...document.querySelectorAll('#ticks .xtick text')].map((it) => it.style.fill)"
    )
    assert set(colours) == {rgb(DARK.roles["muted"])}
    assert opened.complaints() == []


def test_the_script_unpacks_what_was_packed(opened):
    opened.scroll_through()
    (chart,) = (it for it in whole().charts() if it.key.startswith("tail-sleep"))
    found = opened.run(
        f"""(() => {{
            const plot = document.querySelector('[data-chart=data-{chart.key}]');
            return {{
                names: plot.data.map((it) => it.name),
                axes: plot.data.map((it) => it.yaxis ?? null),
                anchors: [plot.layout.xaxis.anchor, plot.layout.yaxis3.anchor],
                domain: plot.layout.xaxis2.domain,
                range: plot.layout.xaxis.range,
                y: [...plot._fullData[0].y],
            }};
        }})()"""
    )
    drawn = list(traces(chart, LIGHT))
    wanted = layout(chart, LIGHT)
    assert found["names"] == [it["name"] for it in drawn]
    assert found["axes"] == [it.get("yaxis") for it in drawn]
    assert found["anchors"] == ["y", "x3"]
    assert found["domain"] == pytest.approx(wanted["xaxis2"]["domain"], rel=1e-4)
    assert found["range"] == pytest.approx(wanted["xaxis"]["range"], rel=1e-4)
    assert found["y"] == pytest.approx(drawn[0]["y"].tolist(), rel=1e-6)


def test_hostile_names_do_nothing_and_are_seen(browser, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(render(hostile()), encoding="utf-8")
    browser.look()
    browser.open(path)
    browser.scroll_through()
    assert browser.complaints() == []
    assert set(browser.run(STATES)) == {"drawn"}
    seen = browser.run("document.querySelector('.plot .legendtext').textContent")
    assert seen == "</script><script>alert(1)</script>"


def test_without_scripts_the_words_and_tables_are_there(browser, path):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.look()
        browser.open(path)
        text = browser.call("DOM.getDocument", depth=0) and browser.run(
            "document.body.innerText"
        )
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "The charts are missing" in text
    # Neither are they boxes that say nothing.
    assert "Quantity by quantity" not in text and "Tail" not in text
    assert "Table of overhead" in text and "costs 3.1\N{NO-BREAK SPACE}% more" in text


def test_a_page_without_charts_is_quiet_too(browser, tmp_path):
    path = tmp_path / "empty.html"
    path.write_text(render(Page("Nothing")), encoding="utf-8")
    browser.look()
    browser.open(path)
    assert browser.complaints() == []
