"""Two sets of results compared: verdicts, tables, sentences."""

import re
from pathlib import Path
from typing import Any

import making
import pytest
from comparison import folders
from comparison.folders import GROWN, SHRUNK, VDSO

from eigentime_report.comparison import (
    Changes,
    ComparisonError,
    Outcome,
    compare_results,
    judge,
    parse,
)
from eigentime_report.comparison.shown import changes_sentences, changes_table, circumstances_table
from eigentime_report.report import Detail, comparison_page
from eigentime_report.results import Results, load
from eigentime_report.tables import write


@pytest.fixture(scope="module")
def changes(both: tuple[Results, Results]) -> Changes:
    return compare_results(*both)


def test_each_quantity_level_and_load_is_compared(changes: Changes) -> None:
    assert len(changes.changes) == 6 * 2 * 2
    assert changes.kinds == ("calls", "read", "sleep", "events")
    assert changes.unmatched == ()
    assert {it.unit for it in changes.changes} == {"block"}


@pytest.mark.parametrize(
    ("subject", "factor", "verdict"),
    [
        (VDSO, GROWN, "differs"),
        ("clock_getres", SHRUNK, "differs"),
        ("timer_create", 1.0, "same within 1 %"),
    ],
)
def test_changes_are_those_that_were_made(
    changes: Changes, subject: str, factor: float, verdict: str
) -> None:
    for change in changes.of("calls"):
        if change.quantity.subject != subject:
            continue
        pair = change.pair
        assert pair.percent == pytest.approx(100 * (factor - 1), abs=0.7)
        assert pair.percent_low is not None and pair.percent_high is not None
        assert pair.percent_low < pair.percent < pair.percent_high
        if verdict == "differs":
            assert pair.verdict == verdict
        else:
            assert pair.verdict in (verdict, "undecided")


def test_the_table_has_both_sides_and_their_difference(changes: Changes) -> None:
    table = changes_table(changes, "calls")
    assert len(table.rows) == 12
    before, after, difference = map(table.column, ("before", "after", "difference"))
    for one, other, between in zip(before, after, difference, strict=True):
        assert isinstance(one, float)
        assert isinstance(other, float)
        assert other - one == pytest.approx(between)
    assert "NaN" not in write(table, "csv")


def test_sentences_say_what_has_changed(changes: Changes) -> None:
    first = changes_sentences(changes)[0]
    assert first.table_key == "changes-calls"
    assert re.fullmatch(
        "At all levels and under all loads, vdso_clock_gettime_monotonic takes .* ns. longer than "
        r"before: \+[78]\.\d % \(.*\) to \+[89]\.\d % \(.*\)\.",
        first.text,
    )
    texts = [it.text for it in changes_sentences(changes)]
    assert any("clock system call" in text or "clock_getres" in text for text in texts)
    assert not any(re.search(r"\bnan\b", text, re.IGNORECASE) for text in texts)
    weights = [it.weight for it in changes_sentences(changes)]
    assert weights == sorted(weights, reverse=True)


def test_what_the_runs_differ_in_is_told(tmp_path: Path) -> None:
    before = load(folders.folder(tmp_path / "before", seed=1, kernel="Linux 6.1 x86_64"))
    after = load(
        folders.folder(tmp_path / "after", seed=2, kernel="Linux 6.18 x86_64", probe="other")
    )
    changes = compare_results(before, after)
    assert [name for name, _, _ in changes.circumstances] == ["kernel", "probe"]
    text = write(circumstances_table(changes), "markdown")
    assert "Linux 6.1 x86" in text and "Linux 6.18 x86" in text
    assert "different builds of eigentime-probe" in changes_sentences(changes)[0].text


def test_what_one_of_both_has_alone_is_told(tmp_path: Path) -> None:
    before = load(folders.folder(tmp_path / "before", seed=1, levels=("baseline", "vm")))
    after = load(folders.folder(tmp_path / "after", seed=2, levels=("baseline",)))
    (sentence,) = compare_results(before, after).unmatched
    assert sentence.startswith("Measured before only: calls/clock_getres at vm, cpu, and ")


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    path = folders.folder(tmp_path / "run", seed=1)
    with pytest.raises(ComparisonError, match="hold the same run"):
        compare_results(load(path), load(path))


def test_nothing_in_common_is_said_with_what_there_is(tmp_path: Path) -> None:
    before = load(folders.folder(tmp_path / "before", seed=1, levels=("baseline",)))
    after = load(folders.folder(tmp_path / "after", seed=2, levels=("vm",)))
    with pytest.raises(ComparisonError) as raised:
        compare_results(before, after)
    assert "no measurement in common" in str(raised.value)
    assert "at levels baseline" in str(raised.value)
    assert "at levels vm" in str(raised.value)


def short(path: Path, name: str, blocks: int, drift: float = 1.0, **rest: Any) -> Path:
    """A run of few blocks, which are more alike than two runs are."""
    return making.folder(
        path / name,
        calls=[making.Calls(VDSO, 20.0 * drift, sd=0.2, records=40)],
        levels=("baseline",),
        blocks=blocks,
        run=name,
        **rest,
    )


@pytest.mark.parametrize(
    ("blocks", "said"), [(1, "nothing is decided"), (2, "nothing is decided"), (4, "drifts")]
)
def test_few_blocks_are_said_before_all_else(tmp_path: Path, blocks: int, said: str) -> None:
    remark = "others kept the processors up to 51 % busy while idle was measured (baseline)"
    before = load(short(tmp_path, "before", blocks))
    after = load(short(tmp_path, "after", 6, remarks=[remark]))
    few, busy, *_ = changes_sentences(compare_results(before, after))
    assert said in few.text and "`eigentime bench --blocks 5`" in few.text
    assert few.text.startswith(
        f"There are {blocks} block{'s' if blocks > 1 else ''} before and 6 afterwards: "
    )
    assert "Measure what is from before again by" in few.text
    assert busy.text == f"Afterwards: {remark}."
    page = comparison_page(compare_results(before, after), detail=Detail.WORDS)
    assert [it.text for it in page.sentences[:2]] == [few.text, busy.text]
    assert busy.text not in page.notes


@pytest.mark.parametrize("blocks", [1, 2])
def test_too_few_blocks_decide_nothing(tmp_path: Path, blocks: int) -> None:
    """What two runs of a busy machine differ in, whatever is between them."""
    before = load(short(tmp_path, "before", blocks))
    after = load(short(tmp_path, "after", blocks, drift=2.27))
    (change,) = compare_results(before, after).changes
    assert change.pair.verdict == ("undecided" if blocks > 1 else "not tested")
    texts = [it.text for it in changes_sentences(compare_results(before, after))]
    plain, *_ = [text for text in texts if VDSO in text]
    assert re.fullmatch(
        rf"On the host, when idle, {VDSO} takes (19|20)\.\d ns before, and 4\d\.\d ns afterwards\.",
        plain,
    )
    assert not re.search(r"longer|interval\b|%", " ".join(texts[1:]))
    assert "Measure both again by" in texts[0]
    if blocks > 1:
        assert change.pair.percent == pytest.approx(127, abs=5)


def test_blocks_that_differ_make_wide_intervals(tmp_path: Path) -> None:
    """Records of a block agree to a hundredth, and blocks do not."""
    apart = (0.0, 9.0, 3.0)
    before = load(short(tmp_path, "before", 3, begin="2026-09-21T14:13:20Z"))
    calls = [making.Calls(VDSO, 18.0, sd=0.2, records=40, blocks=apart)]
    after = load(making.folder(tmp_path / "after", calls=calls, levels=("baseline",), blocks=3))
    (change,) = compare_results(before, after).changes
    assert change.unit == "block"
    assert change.pair.verdict == "undecided"
    assert change.pair.percent_low is not None and change.pair.percent_high is not None
    assert change.pair.percent_high - change.pair.percent_low > 50


def test_sleeps_are_compared_by_how_late_they_end(tmp_path: Path) -> None:
    """Of 100 ms, a tenth more of 100 µs is a hundredth of a percent."""
    both = []
    for name, late in (("before", 100_000), ("after", 110_000)):
        calls = [making.Calls("nanosleep", 1e8 + late, sd=900, records=60)]
        folder = making.folder(tmp_path / name, calls=calls, levels=("baseline",), run=name)
        both.append(load(folder))
    changes = compare_results(*both)
    (change,) = changes.changes
    assert change.pair.verdict == "differs"
    assert change.pair.percent == pytest.approx(10, abs=1)
    (row,) = changes_table(changes, "calls").rows
    assert "mean miss time" in row.cells
    text = changes_sentences(changes)[0].text
    assert re.search(r"nanosleep ends .* later than before \(\+", text)
    (judgement,) = judge([parse("nanosleep > +5%")], *both)
    assert judgement.outcome is Outcome.MISSED
    assert judgement.text.startswith("mean miss time 99.9 µs before, 110 µs afterwards")
    # A value is the whole length.
    (judgement,) = judge([parse("nanosleep > 100ms")], None, both[1])
    assert judgement.outcome is Outcome.MISSED and "mean 100.1 ms" in judgement.text


def test_intervals_of_ratios_do_not_end_at_nothing(tmp_path: Path) -> None:
    """However much values scatter, what takes time takes some."""
    both = []
    for name, seed in (("before", 1), ("after", 2)):
        calls = [making.Calls(VDSO, 20.0, steps_sd=14, sd=0.1, records=40)]
        folder = making.folder(
            tmp_path / name, calls=calls, levels=("baseline",), blocks=4, seed=seed
        )
        both.append(load(folder))
    (change,) = compare_results(*both).changes
    pair = change.pair
    assert pair.low is not None and pair.percent_low is not None and pair.percent is not None
    assert pair.low < -20
    assert -100 < pair.percent_low < pair.percent
