"""The analysis: each comparison once, and of one unit."""

from pathlib import Path

import making
import numpy as np
import pytest

from eigentime_report import load, statistics
from eigentime_report.analysis import analyse, of_one_unit


def test_a_comparison_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = making.folder(
        tmp_path / "run", calls=[making.Calls("clock_getres", 130, sd=1)], loads=("idle", "cpu")
    )
    made = []

    def compare(*arguments: object, **named: object) -> statistics.Comparison:
        made.append(arguments)
        return original(*arguments, **named)  # type: ignore[arg-type]

    original = statistics.compare
    monkeypatch.setattr(statistics, "compare", compare)
    analysis = analyse(load(path))
    (quantity,) = analysis.results.quantities
    first = analysis.compared(quantity, "level", "idle")
    assert analysis.compared(quantity, "level", "idle") is first
    assert len(made) == 1
    assert len(list(analysis.comparisons("calls", "level"))) == 2
    assert len(list(analysis.comparisons("calls", "load"))) == 2
    list(analysis.comparisons("calls", "level"))
    assert len(made) == 4


def test_a_comparison_knows_what_it_is_of(tmp_path: Path) -> None:
    levels = ("baseline", "namespace", "container")
    calls = [
        making.Calls("clock_getres", 130, sd=1, levels={"container": 1.2}, without=["namespace"])
    ]
    analysis = analyse(load(making.folder(tmp_path / "run", calls=calls, levels=levels)))
    (quantity,) = analysis.results.quantities
    found = analysis.compared(quantity, "level", "idle")
    assert found is not None
    assert (found.base, found.others, found.unit) == ("baseline", ("container",), "block")
    assert found.against_base("container").percent == pytest.approx(20, abs=1)


def test_events_are_compared_by_their_scatter(tmp_path: Path) -> None:
    wide = making.Effect(scatter=3.0)
    events = [making.Events("timerfd", 50_000, sd=500, count=4000, levels={"namespace": wide})]
    analysis = analyse(load(making.folder(tmp_path / "run", events=events)))
    (quantity,) = analysis.results.quantities
    found = analysis.compared(quantity, "level", "idle")
    assert found is not None and found.statistic == "sd"
    assert found.against_base("namespace").percent == pytest.approx(200, abs=25)


def test_cells_of_several_units_are_compared_by_the_smallest(tmp_path: Path) -> None:
    """A level that was measured in three blocks only has its records as units."""
    calls = [making.Calls("clock_getres", 130, sd=1, records=30)]
    few = making.folder(tmp_path / "few", calls=calls, blocks=3, levels=["vm"], machine="b")
    many = making.folder(tmp_path / "many", calls=calls, blocks=10, levels=["baseline"])
    results = load(many, few)
    cells = results.cells("calls/clock_getres")
    assert [cell.replicates.unit for cell in cells] == ["block", "record"]
    unit, replicates = of_one_unit(cells)
    assert unit == "record"
    assert [its.unit for its in replicates] == ["record", "record"]
    assert [its.count for its in replicates] == [30, 30]
    # The scatter of a single record is nothing.
    unit, replicates = of_one_unit(cells, ("batch", "block"))
    assert unit == "batch"
    assert all(np.all(its.mad > 0) for its in replicates)


def test_functions_that_are_not_everywhere_are_left_out_of_factors(tmp_path: Path) -> None:
    events = [
        making.Events("timerfd", 50_000, sd=500),
        making.Events("ticker", 50_000, sd=500),
        making.Events("bpf_timer", 50_000, sd=500, without=["namespace"]),
    ]
    analysis = analyse(load(making.folder(tmp_path / "run", events=events)))
    tests = analysis.factor_tests("events")
    assert {test.left_out for test in tests} == {("bpf_timer",)}
    assert {effect.term for effect in tests[0].effects} == {"function", "level", "function × level"}
    assert all(effect.p is not None for test in tests for effect in test.effects)


def test_a_stratum_is_what_functions_have_in_common(tmp_path: Path) -> None:
    sleeps = [
        making.Sleeps(method, interval, 60_000, sd=500)
        for method in ("usleep", "nanosleep")
        for interval in (100_000, 1_000_000)
    ]
    calls = [making.Calls("nanosleep", 1e8, sd=1e4), making.Calls("clock_getres", 130, sd=1)]
    analysis = analyse(load(making.folder(tmp_path / "run", sleeps=sleeps, calls=calls)))
    among = {test.among for test in analysis.factor_tests("sleep")}
    assert among == {"100 µs, other, 50 µs", "1 ms, other, 50 µs"}
    assert {test.among for test in analysis.factor_tests("calls")} == {"sleeps of 100 ms", "calls"}


def test_tails_of_readings_are_beyond_their_median(tmp_path: Path) -> None:
    """Also where an empty bracket takes mostly less than in the mean, and the counter has steps."""
    reads = [
        making.Reads(
            "tsc", 10, sd=0.5, step_ticks=20, empty_mean_ticks=44.0, empty_median_ticks=40.0
        )
    ]
    analysis = analyse(load(making.folder(tmp_path / "run", reads=reads)))
    (quantity,) = analysis.results.quantities
    found = analysis.description(quantity, "baseline", "idle")
    assert found is not None
    tails = [found.tails[quantile].value for quantile in sorted(found.tails)]
    assert tails == sorted(tails)
    # The median is within the bucket that the quantiles are the middle of.
    assert tails[0] >= found.numbers.median - 20 / 2 / 2.0
    assert all(found.numbers.minimum <= it <= found.numbers.maximum for it in tails)


def test_the_side_that_has_few_blocks_is_named(tmp_path: Path) -> None:
    calls = [making.Calls("clock_getres", 130, sd=1, records=30)]
    few = making.folder(tmp_path / "few", calls=calls, blocks=2, levels=["vm"], machine="b")
    # Of fewer records each, but of enough blocks.
    less = [making.Calls("clock_getres", 130, sd=1, records=10)]
    many = making.folder(tmp_path / "many", calls=less, blocks=5, levels=["baseline"])
    analysis = analyse(load(many, few))
    (found,) = analysis.comparisons("calls", "level")
    assert found.why.startswith("vm: There are fewer than 5 blocks (2), so each of 30")
    even = analyse(load(few, few2(tmp_path)))
    (found,) = even.comparisons("calls", "level")
    assert found.why.startswith("There are fewer than 5 blocks (2), so")


def few2(path: Path) -> Path:
    """Another level of as many blocks."""
    calls = [making.Calls("clock_getres", 130, sd=1, records=30)]
    return making.folder(path / "few2", calls=calls, blocks=2, levels=["container"])


def test_sleeps_of_100_ms_are_compared_by_how_late_they_end(tmp_path: Path) -> None:
    """A quarter more lateness is 0.02 % of 100 ms, and no sameness."""
    late, later = 1e8 + 1e5, 1e8 + 1.25e5
    calls = [making.Calls("nanosleep", late, sd=1e3, levels={"namespace": later / late})]
    analysis = analyse(load(making.folder(tmp_path / "run", calls=calls)))
    (found,) = analysis.comparisons("calls", "level")
    pair = found.against_base("namespace")
    assert pair.percent == pytest.approx(25, abs=1)
    assert (pair.verdict, pair.is_within) == ("differs", False)
    assert pair.difference == pytest.approx(25_000, rel=0.05)
