"""Reports put together: what is on the page, and how much of it."""

from pathlib import Path

import making
import pytest
from comparison.folders import VDSO

from eigentime_report import outputs
from eigentime_report.charts import Chart
from eigentime_report.comparison import compare_results, judge, parse
from eigentime_report.page import Choice, Page, Section, render
from eigentime_report.report import Detail, comparison_page, report_page
from eigentime_report.results import Results, load


@pytest.fixture(scope="module")
def page(both: tuple[Results, Results]) -> Page:
    return report_page(both[0])


def section(page: Page, key: str) -> Section:
    (found,) = (it for it in page.sections if it.key == key)
    return found


def options(of: Section) -> dict[str, tuple[Chart, ...]]:
    """The charts of each quantity that can be chosen."""
    return {
        option.title: option.blocks
        for block in of.blocks
        if isinstance(block, Choice)
        for option in block.options
    }


def shown(of: Section) -> list[Chart]:
    """The charts that are seen first."""
    charts: list[Chart] = []
    for block in of.blocks:
        if isinstance(block, Chart):
            charts.append(block)
        if isinstance(block, Choice):
            charts += block.options[block.first].blocks
    return charts


def test_each_kind_has_its_section_with_tables_and_charts(page: Page) -> None:
    for kind, paper in (
        ("calls", "overhead-idle"),
        ("read", "timer-cost"),
        # The paper's ways to sleep are others.
        ("sleep", ""),
        ("events", "events"),
    ):
        own = section(page, f"about-{kind}")
        keys = {getattr(it, "key", "") for it in own.blocks}
        assert not paper or paper in keys
        exact = {f"{it}-{kind}" for it in ("descriptives", "factors")}
        exact |= {f"{it}-{kind}-{by}s" for it in ("pairs", "tests") for by in ("level", "load")}
        assert {f"{it}-fold" for it in exact} <= keys
        assert len(shown(own)) >= 4
        assert not any(it.is_empty for it in shown(own))


def test_all_kinds_of_charts_are_there(page: Page) -> None:
    titles = {it.title.split(":")[0] for it in page.charts()}
    assert {"Tail latency", "Series", "Q-Q plot", "Percentiles", "Histogram"} <= titles
    assert any("how levels differ" in it.title for it in page.charts())
    assert any("how loads differ" in it.title for it in page.charts())


def test_one_quantity_of_a_kind_is_seen_first(page: Page) -> None:
    own = section(page, "about-calls")
    assert [it.title for it in shown(own) if VDSO in it.title] == [
        f"Percentiles: {VDSO}",
        f"Series: {VDSO}",
        f"Q-Q plot: {VDSO}",
    ]
    assert list(options(own)) == ["clock_getres", "timer_create", VDSO]
    # One that is the only one needs no choice.
    assert options(section(page, "about-sleep")) == {}


def test_each_sentence_has_its_table(page: Page) -> None:
    tables = {it.key for it in page.tables()}
    assert page.sentences
    assert {it.table_key for it in page.sentences} <= tables
    assert len(page.sentences) <= 9 < len(page.more_sentences)
    # The page refuses keys that come twice, and tables that are not there.
    assert render(page).count("<h2 id=") == len(page.sections) + 2 + bool(page.notes)


def test_there_is_as_much_as_is_wanted(both: tuple[Results, Results], page: Page) -> None:
    words, tables = (report_page(both[0], detail=it) for it in (Detail.WORDS, Detail.TABLES))
    charts = page
    assert words.sentences == tables.sentences == charts.sentences
    assert [len(list(it.tables())) > 0 for it in (words, tables, charts)] == [False, True, True]
    assert list(tables.tables()) == list(charts.tables())
    assert not list(tables.charts()) and list(charts.charts())


def test_a_comparison_has_changes_and_charts_of_both(both: tuple[Results, Results]) -> None:
    page = comparison_page(compare_results(*both))
    assert [it.key for it in page.sections] == [
        "about-calls",
        "about-read",
        "about-sleep",
        "about-events",
        "compared",
    ]
    own = section(page, "about-calls")
    assert getattr(own.blocks[0], "key", "") == "changes-calls"
    verdicts = {it for chart in shown(own) for it in chart.rows.to_dict().get("verdict", ())}
    assert "differs" in verdicts
    percentiles = next(it for it in shown(own) if it.title.startswith("Percentiles"))
    assert percentiles.rows["level"].unique(maintain_order=True).to_list() == [
        "baseline, before",
        "baseline, afterwards",
        "namespace, before",
        "namespace, afterwards",
    ]
    assert page.picture is not None and page.picture.title == "What has changed"
    assert f"{VDSO}, baseline, idle (overhead)" in page.picture.rows["name"].to_list()
    assert render(page)


def test_the_page_opens_with_what_each_level_costs(page: Page) -> None:
    assert page.picture is not None
    assert page.picture.rows["name"].to_list() == [
        f"{VDSO} (overhead)",
        "tsc, hot (overhead)",
        "nanosleep 1 ms (latency)",
        "timerfd 50 µs (jitter)",
    ]
    assert set(page.picture.rows["level"]) == {"namespace"}
    assert next(page.charts()) is page.picture


def test_outcomes_come_first(both: tuple[Results, Results]) -> None:
    conditions = [parse(f"{VDSO}@load=idle > +5%"), parse("clock_getres@load=idle > +5%")]
    judgements = judge(conditions, *both)
    changes = compare_results(*both)
    page = comparison_page(changes, judgements=judgements, detail=Detail.TABLES)
    first, second, third, *_ = (it.text for it in page.sentences)
    assert first.startswith(f"Missed: {VDSO}@load=idle > +5%: calls/{VDSO} at baseline")
    assert second.startswith("Missed: ")
    assert third == "Conditions are reached at 2 of 4 places."
    assert page.sections[0].key == "outcomes"
    assert render(page)


def test_what_is_the_same_in_all_runs_is_told_once(tmp_path: Path) -> None:
    calls = [making.Calls(metric=VDSO, centre=20.0, sd=0.2, records=20)]
    runs = [
        making.folder(
            tmp_path / day,
            calls=calls,
            blocks=blocks,
            run=day,
            begin=f"2026-09-{day}T14:13:20Z",
            notes={"namespace": {"namespaces": "time", "offset": offset}},
        )
        for day, blocks, offset in (("21", 2, "1d"), ("22", 1, "1d"), ("23", 5, "2d"))
    ]
    page = report_page(load(*runs), detail=Detail.WORDS)
    assert page.subtitle == (
        "testbed, Linux 6.12.1 x86_64, 3 runs from 2026-09-21T14:13:20Z to 2026-09-23T14:13:20Z"
    )
    cards = {it.title: it.facts for it in page.facts}
    of_some = {it.title: it.of_some for it in page.facts}
    assert list(cards) == ["Machine testbed", "Level baseline", "Level namespace"]
    assert cards["Machine testbed"] == (
        ("kernel", "Linux 6.12.1 x86_64"),
        ("measured", "2026-09-21T14:13:20Z, preset standard, 2 blocks"),
        ("measured", "2026-09-22T14:13:20Z, preset standard, 1 block"),
        ("measured", "2026-09-23T14:13:20Z, preset standard, 5 blocks"),
    )
    assert cards["Level namespace"] == (*cards["Level baseline"], ("namespaces", "time"))
    assert of_some.pop("Level namespace") == (
        ("offset", "1d (2 of 3 runs)"),
        ("offset", "2d (1 of 3 runs)"),
    )
    assert set(of_some.values()) == {()}


def test_the_title_can_be_chosen(both: tuple[Results, Results]) -> None:
    own = report_page(both[0], title="<Monday>", detail=Detail.TABLES)
    assert "<h1>&lt;Monday&gt;</h1>" in render(own)


def test_markdown_takes_names_as_they_are(tmp_path: Path) -> None:
    level = "[x](http://a)*b*<i>"
    folder = making.folder(
        tmp_path / "run",
        calls=[making.Calls(metric=VDSO, centre=20.0, sd=0.2, records=20)],
        levels=("baseline", level),
        blocks=2,
    )
    page = report_page(load(folder))
    text = outputs.markdown(page)
    assert level not in text and "<i>" not in text
    assert r"\[x\](http://a)\*b\*\<i\>" in text
    assert "`--blocks 5`" in text


def test_what_is_between_backticks_is_code_on_the_page(tmp_path: Path) -> None:
    folder = making.folder(
        tmp_path / "run",
        calls=[making.Calls(metric=VDSO, centre=20.0, sd=0.2, records=20)],
        blocks=2,
    )
    text = render(report_page(load(folder), detail=Detail.TABLES))
    assert "<code>--blocks 5</code>" in text and "`--blocks" not in text


def test_a_page_of_several_runs_says_from_when_to_when(tmp_path: Path) -> None:
    calls = [making.Calls(metric=VDSO, centre=20.0, sd=0.2, records=20)]
    days = ("2026-09-22T08:00:00Z", "2026-09-20T08:00:00Z", "2026-09-21T08:00:00Z")
    runs = [
        making.folder(tmp_path / day, calls=calls, run=f"run of {day}", begin=day) for day in days
    ]
    page = report_page(load(*runs), detail=Detail.WORDS)
    assert page.subtitle.endswith(f", 3 runs from {days[1]} to {days[0]}")
