import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from eigentime_report.charts import DARK, LIGHT, ccdf
from eigentime_report.page import Fold, Page, Section, render
from eigentime_report.page.render import _ENDS, data, unbroken
from page.pages import HOSTILE, LEVELS, Said, hostile, table, whole
from page.unpacking import unpacked
from plotly.offline import get_plotlyjs_version

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Parsed(HTMLParser):
    """What a browser would make of a page: elements with attributes, and scripts' text."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.scripts = []
        self.text = []
        self.open = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, found):
        if self.open and self.open[-1] == "script":
            self.scripts[-1][1] += found
        else:
            self.text.append(found)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def html():
    return render(whole())


@pytest.fixture(scope="module")
def parsed(html):
    return Parsed(html)


def test_the_page_is_well_formed(parsed):
    assert parsed.open == []
    assert [attributes["lang"] for attributes in parsed.all("html")] == ["en"]


def test_only_scripts_of_the_report_may_run(parsed):
    (policy,) = [
        attributes["content"]
        for attributes in parsed.all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    allowed = re.findall(r"'(sha256-[^']+)'", policy)
    found = [
        f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
        for attributes, text in parsed.scripts
        if attributes.get("type") != "application/json"
    ]
    assert found == allowed
    # The policy is there before the first script.
    names = [name for name, _ in parsed.elements]
    assert names.index("meta") < names.index("script")


def test_nothing_comes_from_elsewhere(parsed):
    for tag, attributes in parsed.elements:
        for name in ("src", "href", "action", "data", "srcset"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:")), f"{tag} {name}={value}"
        assert not any(name.startswith("on") for name in attributes)


def test_plotly_is_there_once_and_only_where_it_is_needed(html):
    # The smallest of its bundles, and of the version that draws in notebooks.
    assert html.count(f"plotly.js (basic - minified) v{get_plotlyjs_version()}\n") == 1
    assert "plotly.js (" not in render(Page("No charts"))


def test_ids_are_unique_and_links_lead_somewhere(parsed):
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in parsed.all("a"):
        assert attributes["href"].removeprefix("#") in ids
    for _, attributes in parsed.elements:
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in ids


def test_sentences_come_first_and_link_to_their_tables(html, parsed):
    assert html.index("costs 3.1\N{NO-BREAK SPACE}% more") < html.index('id="facts"')
    assert html.index("costs 3.1\N{NO-BREAK SPACE}% more") < html.index("<table")
    links = [
        a for a in parsed.all("a") if a.get("aria-label", "").startswith("Table of")
    ]
    assert [a["href"] for a in links] == ["#overhead", "#miss-times", "#overhead"]


def test_every_part_is_there(html, parsed):
    page = whole()
    assert [attributes["id"] for attributes in parsed.all("section")] == [
        "conclusions",
        "notes",
        "facts",
        *(section.key for section in page.sections),
    ]
    assert len(parsed.all("table")) == 3
    plots = [a for a in parsed.all("div") if a.get("class") == "plot"]
    assert [a["data-chart"] for a in plots] == [
        f"data-{chart.key}" for chart in page.charts()
    ]
    for chart in page.charts():
        assert chart.title in html
    assert "Made by" in html and "noscript" in html
    assert "21 September 2026" in html and "busy by 12\N{NO-BREAK SPACE}%" in html


def test_parts_are_labelled_for_those_who_do_not_see_them(parsed):
    for tag in "main", "nav", "header", "footer", "h1":
        assert len(parsed.all(tag)) == 1
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    for attributes in parsed.all("div"):
        if attributes.get("class") == "plot":
            assert attributes["role"] == "img"
            assert attributes["aria-labelledby"] in ids
            assert attributes.get("aria-describedby", ids[0]) in ids
        if attributes.get("class") == "scroll":
            assert attributes["tabindex"] == "0" and attributes["role"] == "region"
    assert parsed.all("a")[0]["class"] == "skip"


def test_headings_leave_out_no_level(parsed):
    levels = [int(tag[1]) for tag, _ in parsed.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def figures(parsed):
    """The charts' data, unpacked."""
    scripts = {attributes.get("id"): text for attributes, text in parsed.scripts}
    shared = json.loads(scripts["common"])["shared"]
    return [
        unpacked(json.loads(text), shared)
        for key, text in scripts.items()
        if key and key.startswith("data-")
    ]


def test_charts_are_data_that_plotly_takes(parsed):
    found = figures(parsed)
    assert len(found) == len(list(whole().charts()))
    for chart in found:
        assert set(chart) == {"data", "layout"}
        assert chart["layout"]["height"] > 100
        assert "title" not in chart["layout"]


def test_dark_colours_are_known_for_all_of_a_chart(parsed):
    scripts = {attributes.get("id"): text for attributes, text in parsed.scripts}
    dark = json.loads(scripts["common"])["colours"]
    used = set(re.findall(r"rgba\([^)]*\)", json.dumps(figures(parsed))))
    assert used and used <= set(dark)
    for theme in LIGHT, DARK:
        assert theme.roles["surface"] in render(Page("Colours"))


def test_hostile_names_are_only_text():
    html = render(hostile())
    parsed = Parsed(html)
    assert parsed.open == []
    # A script in the head, plotly, the page's own, what is common and three charts.
    assert len(parsed.scripts) == 7
    assert not any(
        "alert(1)" in text for _, text in parsed.scripts if "<" in text[:200]
    )
    assert "".join(parsed.text).count(HOSTILE) >= 10
    for figure in figures(parsed):
        names = {trace.get("name") for trace in figure["data"]}
        assert any("&lt;/script&gt;" in (name or "") for name in names)


def test_json_in_a_script_is_itself_again():
    value = {"a": "</script><!-- \u2028 & é", "b": [1, 2.5, None, True]}
    text = data(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028") & set(text)
    with pytest.raises(ValueError, match="JSON"):
        data(float("nan"))


@pytest.mark.parametrize("text", ["</script>", "<SCRIPT src=x>", "a<!--b"])
def test_what_would_end_a_script_is_written_otherwise(text):
    assert "<" not in _ENDS.sub(r"\\x3c", text)


def test_a_page_without_anything_is_a_page():
    parsed = Parsed(render(Page("Nothing")))
    assert "Nothing can be concluded" in "".join(parsed.text)
    assert "noscript" not in {name for name, _ in parsed.elements}


def test_a_sentence_without_its_table_is_refused():
    page = replace(whole(), sentences=(Said("So it is.", "nowhere"),))
    with pytest.raises(ValueError, match="'So it is.' refers to the table 'nowhere'"):
        render(page)


@pytest.mark.parametrize(
    "blocks",
    [
        (table(), table()),
        (table("contents"),),
        (table(), Fold("fold", "Fold", (table(),))),
        (ccdf([]), ccdf([])),
    ],
)
def test_a_key_is_there_once(blocks):
    with pytest.raises(ValueError, match="one key"):
        render(Page("Twice", sections=(Section("s", "S", (), blocks),)))


def test_the_same_page_is_the_same_file(html):
    assert render(whole()) == html


def test_levels_are_named_in_charts(html):
    assert all(f'"name":"{level}"' in html for level in LEVELS)


def test_numbers_stay_beside_their_units():
    text = "898 ns (2 to 3.5 µs; -4 %), 5 sleeps in 3 s, 2 msec"
    assert unbroken(text) == (
        "898\N{NO-BREAK SPACE}ns (2 to 3.5\N{NO-BREAK SPACE}µs; -4\N{NO-BREAK SPACE}%), "
        "5 sleeps in 3\N{NO-BREAK SPACE}s, 2 msec"
    )
