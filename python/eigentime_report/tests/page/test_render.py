import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from page.pages import HOSTILE, Said, hostile, table, whole

from eigentime_report.charts import DARK, LIGHT, ccdf
from eigentime_report.page import Fold, Page, Section, render
from eigentime_report.page.render import _ENDS, data, unbroken

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Parsed(HTMLParser):
    """What a browser would make of a page: elements with attributes, and scripts' text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.text, self.open = [], [], [], []
        self.feed(text)
        self.close()
        self.ids = [its["id"] for _, its in self.elements if "id" in its]

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

    def charts(self):
        """The specifications of the charts."""
        return [
            json.loads(gzip.decompress(base64.b64decode(text)))
            for attributes, text in self.scripts
            if attributes.get("type") == "application/gzip"
        ]


@pytest.fixture(scope="module")
def html():
    return render(whole())


@pytest.fixture(scope="module")
def parsed(html):
    return Parsed(html)


def test_only_scripts_of_the_report_may_run(parsed):
    assert parsed.open == []
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
        if "type" not in attributes
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


def test_what_draws_is_there_once_and_only_where_it_is_needed(html):
    assert html.count("window.vegaEmbed=") == 1
    assert "vegaEmbed=" not in render(Page("No charts"))


def test_ids_are_unique_and_links_lead_somewhere(parsed):
    assert len(parsed.ids) == len(set(parsed.ids))
    for attributes in parsed.all("a"):
        assert attributes["href"].removeprefix("#") in parsed.ids
    for _, attributes in parsed.elements:
        assert attributes.get("aria-labelledby", parsed.ids[0]) in parsed.ids


def test_the_picture_comes_first_then_sentences_that_link_to_their_tables(html, parsed):
    sentence = html.index("costs 3.1\N{NO-BREAK SPACE}% more")
    assert html.index('id="overview"') < sentence < html.index('id="facts"')
    assert sentence < html.index("<table")
    links = [a for a in parsed.all("a") if a.get("aria-label", "").startswith("Table of")]
    assert [a["href"] for a in links] == ["#overhead", "#miss-times", "#overhead"]


def test_every_part_is_there_and_labelled(html, parsed):
    page = whole()
    assert [attributes["id"] for attributes in parsed.all("section")] == [
        "conclusions",
        "notes",
        "facts",
        *(section.key for section in page.sections),
    ]
    assert len(parsed.all("table")) == 3
    drawn = [chart for chart in page.charts() if not chart.is_empty]
    plots = [a for a in parsed.all("div") if a.get("class") == "plot"]
    assert [a["data-chart"] for a in plots] == [f"data-{it.key}" for it in drawn]
    assert all(it["role"] == "img" and it["aria-labelledby"] for it in plots)
    assert parsed.charts() == [chart.spec() for chart in drawn]
    for chart in page.charts():
        assert chart.title in html
    for box in parsed.all("div"):
        assert box.get("class") != "scroll" or box["tabindex"] == "0"
    for tag in "main", "nav", "header", "footer", "h1", "noscript":
        assert len(parsed.all(tag)) == 1
    assert parsed.all("a")[0]["class"] == "skip"
    levels = [int(tag[1]) for tag, _ in parsed.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_both_themes_are_there(parsed):
    scripts = {attributes.get("id"): text for attributes, text in parsed.scripts}
    configs = json.loads(scripts["themes"])
    for theme in LIGHT, DARK:
        assert configs[theme.name]["range"]["category"] == theme.levels
        assert theme.roles["surface"] in render(Page("Colours"))


def test_hostile_names_are_only_text():
    parsed = Parsed(render(hostile()))
    assert parsed.open == []
    # A script in the head, Vega, the page's own, the themes and three charts.
    assert len(parsed.scripts) == 7
    assert not any("alert(1)" in text for _, text in parsed.scripts)
    assert "".join(parsed.text).count(HOSTILE) >= 10
    for chart in parsed.charts():
        assert {row["level"] for row in chart["datasets"]["rows"]} == {HOSTILE}


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
    assert not parsed.all("noscript")


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
        render(Page("Twice", sections=(Section("s", "S", blocks),)))


def test_the_same_page_is_the_same_file(html):
    assert render(whole()) == html


def test_numbers_stay_beside_their_units():
    text = "898 ns (2 to 3.5 µs; -4 %), 5 sleeps in 3 s, 2 msec"
    assert unbroken(text) == (
        "898\N{NO-BREAK SPACE}ns (2 to 3.5\N{NO-BREAK SPACE}µs; -4\N{NO-BREAK SPACE}%), "
        "5 sleeps in 3\N{NO-BREAK SPACE}s, 2 msec"
    )
