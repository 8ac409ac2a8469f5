"""The page in a browser: drawn, quiet, alone, in light and dark, narrow and on paper."""

import re

import pytest
from page.browser import Browser, program
from page.pages import HOSTILE, hostile, whole

from eigentime_report.charts import DARK, LIGHT
from eigentime_report.page import Page, render

# What is folded, and the options that are not chosen, too; until all of them are drawn.
EVERYTHING = """document.querySelectorAll('details, .option').forEach((it) => {
    it.open = true; it.hidden = false; })"""
STATES = "[...document.querySelectorAll('.plot')].map((plot) => plot.dataset.state ?? '')"
# What is seen is drawn, or could not be, and nothing is being drawn.
SETTLED = """new Promise((done) => {
    const look = () => [...document.querySelectorAll('.plot')].every((plot) =>
        !plot.checkVisibility() || ['drawn', 'failed'].includes(plot.dataset.state))
        ? done(true) : setTimeout(look, 30);
    look();
})"""
GO = """new Promise((done) => {{
    addEventListener('hashchange', () => done(), {{ once: true }});
    location.hash = '#{}';
}})"""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
# The colour of an axis's words of the first plot.
LABEL = "document.querySelector('.plot .role-axis-label text').getAttribute('fill')"


def rgb(colour):
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


@pytest.fixture(scope="module")
def browser():
    executable = program()
    if executable is None:
        pytest.skip("skipped: needs Chromium: the Debian package chromium")
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


def test_everything_is_drawn_quietly_and_asks_for_nothing(opened):
    assert opened.run(SETTLED)
    opened.run(EVERYTHING)
    opened.scroll_through()
    assert opened.run(SETTLED)
    assert set(opened.run(STATES)) == {"drawn"}
    empty = """[...document.querySelectorAll('.plot')].filter((plot) =>
        !plot.querySelector('.role-mark path[d], .role-mark line'))"""
    assert opened.run(f"{empty}.length") == 0
    assert opened.complaints() == []
    assert opened.requests() == []


def test_a_chart_is_as_wide_as_its_place_and_tells_its_numbers(opened):
    opened.run(SETTLED)
    room, width = opened.run(
        "(() => { const plot = document.querySelector('.plot');"
        " return [plot.clientWidth, plot.querySelector('svg').clientWidth] })()"
    )
    assert 0.9 * room < width <= room
    label = opened.run(
        "document.querySelector('.plot .role-mark [aria-label]').getAttribute('aria-label')"
    )
    assert re.search(r"namespace: \+[\d.]+ % \(\+[\d.]+ % to", label)


@pytest.mark.parametrize(("dark", "theme"), [(False, LIGHT), (True, DARK)])
def test_the_system_decides_between_light_and_dark(opened, path, dark, theme):
    opened.look(dark=dark)
    opened.open(path)
    opened.run(SETTLED)
    assert opened.run(BACKGROUND) == rgb(theme.roles["page"])
    assert opened.run(LABEL) == theme.roles["muted"]


def test_the_switch_is_obeyed_and_remembered(opened, path):
    choose = "document.querySelector('input[name=theme][value={}]').click()"
    opened.run(SETTLED)
    opened.run(choose.format("dark"))
    assert opened.run(BACKGROUND) == rgb(DARK.roles["page"])
    opened.run(
        "new Promise((done) => { const look = () =>"
        f" {LABEL} === '{DARK.roles['muted']}' ? done() : setTimeout(look, 30); look(); }})"
    )
    opened.open(path)
    assert opened.run(BACKGROUND) == rgb(DARK.roles["page"])
    opened.run(choose.format("auto"))
    assert opened.run(BACKGROUND) == rgb(LIGHT.roles["page"])
    assert opened.run("localStorage.length") == 0


def test_neither_the_network_nor_scripts_of_others_are_allowed(opened):
    asked = "fetch('https://example.org/').then(() => 'sent', () => 'refused')"
    assert opened.run(asked) == "refused"
    assert opened.run(
        """(() => {
            const script = document.createElement('script');
            script.textContent = 'window.ran = true';
            document.body.append(script);
            return window.ran === undefined;
        })()"""
    )
    assert any("Content Security Policy" in text for text in opened.complaints())


def test_a_narrow_window_needs_no_scrolling_to_the_side(opened, path):
    opened.look(width=380, height=800)
    opened.open(path)
    opened.run(EVERYTHING)
    opened.scroll_through()
    opened.run(SETTLED)
    assert set(opened.run(STATES)) == {"drawn"}
    assert opened.run("document.documentElement.scrollWidth") <= 380
    # The wide table has its own box to scroll in.
    assert opened.run(
        "(() => { const box = document.querySelector('#miss-times .scroll');"
        " return box.scrollWidth > box.clientWidth })()"
    )
    assert opened.complaints() == []


def test_paper_has_all_that_is_unfolded(opened, tmp_path):
    opened.run(SETTLED)
    # All that is seen was drawn before anybody scrolled to it.
    assert opened.run(STATES).count("drawn") >= 6
    short = pages(opened.paper(tmp_path / "short.pdf"))
    opened.run(EVERYTHING)
    assert pages(opened.paper(tmp_path / "report.pdf")) > short >= 3


def pages(document):
    return len(re.findall(rb"/Type\s*/Page\b", document))


def test_links_open_the_fold_and_choose_the_option_that_they_lead_to(opened):
    assert opened.run("document.getElementById('folded').open") is False
    opened.run(GO.format("folded-table"))
    assert opened.run("document.getElementById('folded').open") is True
    seen = "[...document.querySelectorAll('.option')].map((it) => it.checkVisibility())"
    assert opened.run(seen) == [False, True]
    # By the keyboard, as anything else.
    opened.run("document.querySelector('.choice select').focus()")
    opened.press("ArrowUp")
    assert opened.run(seen) == [True, False]
    opened.run(GO.format("ticks"))
    assert opened.run(seen) == [False, True]


def test_hostile_names_do_nothing_and_are_seen(browser, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(render(hostile()), encoding="utf-8")
    browser.look()
    browser.open(path)
    browser.run(SETTLED)
    browser.scroll_through()
    assert set(browser.run(STATES)) == {"drawn"}
    assert browser.complaints() == []
    assert HOSTILE in browser.run("document.querySelector('.plot').textContent")


def test_without_scripts_the_words_and_tables_are_there(browser, path):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.look()
        browser.open(path)
        text = browser.run("document.body.innerText")
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
