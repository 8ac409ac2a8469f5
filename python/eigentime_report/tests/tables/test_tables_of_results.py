"""Tables of results with known effects."""

import math
from pathlib import Path
from typing import Any

import making
import numpy as np
import pytest

from eigentime_report import load, tables
from eigentime_report.analysis import Analysis, analyse
from eigentime_report.papers import events_table, miss_time_table, published_table, timer_cost_table
from eigentime_report.report import every_table
from eigentime_report.results import Results
from eigentime_report.tables import (
    Between,
    Marked,
    Table,
    descriptives_table,
    factors_table,
    levels_table,
    loads_table,
    pairs_table,
    served_table,
    warps_table,
    write,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    slower = {"namespace": 1.1}
    path = making.folder(
        tmp_path_factory.mktemp("all") / "run",
        calls=[
            making.Calls("vdso_clock_gettime_monotonic", 24, sd=0.1, levels=slower),
            making.Calls("vdso_gettimeofday", 22, sd=0.1, served_at={"namespace": "system_call"}),
            making.Calls("gettimeofday", 99, sd=0.5),
        ],
        reads=[
            making.Reads("tsc", 18, sd=2),
            making.Reads("clock_gettime", 30, sd=2),
            making.Reads("clock_gettime", 90, sd=5, cache="cold", levels=slower),
        ],
        sleeps=[
            making.Sleeps("usleep", 1_000_000, 60_000, sd=900, loads={"cpu": 4.0}),
            making.Sleeps("sleeper", 1_000_000, 80, sd=5),
            making.Sleeps("sleeper", 1_000_000, 70, sd=5, policy="fifo:50"),
        ],
        events=[making.Events("timerfd", 50_000, sd=800, missed=3, count=2000)],
        warps=["tsc", "CLOCK_MONOTONIC"],
        backwards={("namespace", "tsc"): 4},
        loads=("idle", "cpu"),
        notes={"namespace": {"namespaces": "time"}},
    )
    return load(path)


@pytest.fixture(scope="module")
def analysis(results: Results) -> Analysis:
    return analyse(results)


def rows(table: Table) -> list[dict[str, Any]]:
    """Rows by the columns' keys, without marks."""
    keys = [column.key for column in table.columns]
    return [
        {
            key: cell.value if isinstance(cell, Marked) else cell
            for key, cell in zip(keys, row.cells, strict=True)
        }
        for row in table.rows
    ]


def test_every_table_can_be_written_in_every_form(analysis: Analysis) -> None:
    found = list(every_table(analysis))
    assert len({table.key for table in found}) == len(found) > 20
    for table in found:
        for form in ("html", "csv", "latex", "markdown"):
            text = write(table, form)
            assert "nan" not in text.lower().replace("nanosleep", "").replace("nano", "")
        for row in table.rows:
            for cell in row.cells:
                assert not isinstance(cell, float) or math.isfinite(cell)


def test_table_1_has_both_functions_with_half_the_interquartile_range(results: Results) -> None:
    found = rows(timer_cost_table(results))
    ours = [row for row in found if row["median"] is not None]
    assert {(row["function"], row["platform"], row["load"]) for row in ours} == {
        (function, level, load)
        for function in ("TSC", "System Call")
        for level in results.levels
        for load in results.loads
    }
    tsc = ours[0]
    assert tsc["median"] == pytest.approx(18, abs=0.3)
    # Half the interquartile range of a normal distribution is 0.674 sd.
    assert tsc["mad"] == pytest.approx(0.674 * 2, abs=0.2)
    assert tsc["paper_median"] == 17.2
    theirs = [row for row in found if row["median"] is None]
    assert {row["platform"] for row in theirs} >= {"Xen", "VBox", "ESXi", "QEMU"}
    assert ("Host OS", "Idle System") not in {(row["platform"], row["load"]) for row in theirs}


def test_table_2_has_the_paper_s_numbers_beside_ordinary_threads_only(results: Results) -> None:
    found = {
        (row["function"], row["condition"], row["platform"], row["load"]): row
        for row in rows(miss_time_table(results))
    }
    usleep = found["uSleep", "1 ms", "baseline", "idle"]
    assert usleep["median"] == pytest.approx(60_000, rel=0.01)
    assert usleep["paper_median"] == 61_996.3
    assert found["uSleep", "1 ms", "baseline", "cpu"]["paper_median"] == 54_674.9
    assert found["HPTSleep", "1 ms", "baseline", "idle"]["paper_median"] == 82.0
    assert found["HPTSleep", "1 ms, fifo:50", "baseline", "idle"]["paper_median"] is None


def test_events_have_mean_uncorrected_deviation_and_interval(results: Results) -> None:
    table = events_table(results)
    first = rows(table)[0]
    values = results.cells("events/timerfd/50us")[0].values
    assert first["mean"] == pytest.approx(50_000 + values.mean())
    assert first["sd"] == pytest.approx(values.std(ddof=0))
    interval = first["mean_interval"]
    assert isinstance(interval, Between)
    reach = 2.5783 * values.std(ddof=1) / len(values) ** 0.5
    assert interval.high == pytest.approx(50_000 + values.mean() + reach, rel=1e-5)
    # Three in each of ten blocks.
    assert first["missed"] == 30
    assert [row["paper_sd"] for row in rows(table)[-3:]] == [17_628.0, 156.0, 100.0]


def test_descriptives_are_those_of_the_values(results: Results, analysis: Analysis) -> None:
    found = rows(descriptives_table(results, "sleep", analysis=analysis))
    row = next(it for it in found if it["quantity"] == "sleep/usleep/1ms/other/slack=50us")
    values = results.cell(str(row["quantity"]), "baseline", "idle").values
    median = np.median(values)
    assert row["mean"] == pytest.approx(values.mean())
    assert row["sd"] == pytest.approx(values.std(ddof=1))
    assert row["mad"] == pytest.approx(np.median(np.abs(values - median)))
    assert (row["min"], row["max"]) == (values.min(), values.max())
    assert row["p90"] == pytest.approx(np.quantile(values, 0.9))
    assert isinstance(row["p90_interval"], Between)
    # 400 sleeps do not tell the 99th percentile: four lie beyond it.
    assert row["p99"] is None
    assert (row["units"], row["unit"]) == (10, "block")
    quartiles = np.quantile(values, [0.25, 0.75])
    far = 1.5 * (quartiles[1] - quartiles[0])
    outside = np.sum((values < quartiles[0] - far) | (values > quartiles[1] + far))
    assert row["mild"] + row["severe"] == outside


def test_readings_are_described_between_the_steps(results: Results) -> None:
    row = rows(descriptives_table(results, "read"))[0]
    cell = results.cells(str(row["quantity"]))[0]
    assert row["median"] == cell.median
    assert row["mean"] == cell.mean
    assert row["n"] == cell.count == 20_000


def test_every_p_has_its_test_and_its_n(analysis: Analysis) -> None:
    found = [table for table in every_table(analysis) if "p" in [it.key for it in table.columns]]
    assert found
    for table in found:
        for row in rows(table):
            if row["p"] is not None:
                assert row["test"]
                if "n" in row and table.key.split("-")[0] != "overhead":
                    assert row["n"] > 0


def test_tests_of_a_quantity(results: Results, analysis: Analysis) -> None:
    found = [
        row
        for row in rows(tables.tests_table(results, "calls", analysis=analysis))
        if row["quantity"] == "calls/vdso_clock_gettime_monotonic" and row["held"] == "idle"
    ]
    assert [row["what"] for row in found] == [
        "normal: baseline",
        "normal: namespace",
        "equal scatter",
        "equal levels",
        "equal levels",
    ]
    assert found[3]["test"] in ("one-way ANOVA", "Welch's ANOVA")
    assert found[4]["test"] == "Kruskal-Wallis"
    assert found[3]["p"] < 0.001 and found[4]["p"] < 0.001
    assert found[3]["effect"] == "omega squared" and found[3]["size"] > 0.9


def test_pairs_have_verdicts_with_effect_sizes(results: Results, analysis: Analysis) -> None:
    found = {
        (row["quantity"], row["held"]): row
        for row in rows(pairs_table(results, "calls", analysis=analysis))
    }
    slower = found["calls/vdso_clock_gettime_monotonic", "idle"]
    assert (slower["i"], slower["j"], slower["verdict"]) == ("namespace", "baseline", "differs")
    assert slower["change"] == pytest.approx(10, abs=0.5)
    interval = slower["change_interval"]
    assert isinstance(interval, Between) and interval.low < 10 < interval.high
    assert slower["means"] == pytest.approx(1.1, abs=0.005)
    assert slower["delta"] == 1.0
    equal = found["calls/gettimeofday", "idle"]
    assert equal["verdict"] == "same within 1 %"


def test_loads_are_compared_at_each_level(results: Results, analysis: Analysis) -> None:
    table = pairs_table(results, "sleep", "load", analysis=analysis)
    assert table.key == "pairs-sleep-loads"
    found = [row for row in rows(table) if "usleep" in str(row["quantity"])]
    assert [row["held"] for row in found] == list(results.levels)
    assert all((row["i"], row["j"]) == ("cpu", "idle") for row in found)
    assert all(row["change"] == pytest.approx(300, abs=3) for row in found)


def test_factors_and_interactions(results: Results, analysis: Analysis) -> None:
    found = rows(factors_table(results, "calls", analysis=analysis))
    assert {row["statistic"] for row in found} == {"median", "mad", "maximum", "minimum"}
    medians = {row["term"]: row for row in found if row["statistic"] == "median"}
    assert set(medians) == {
        "function",
        "level",
        "load",
        "function × level",
        "function × load",
        "level × load",
        "function × level × load",
    }
    assert medians["function"]["p"] < 0.001
    assert medians["function × level"]["p"] < 0.001
    assert medians["load"]["p"] > 0.001


def test_who_serves(results: Results) -> None:
    found = {(row["quantity"], row["level"]): row["served"] for row in rows(served_table(results))}
    assert found["calls/vdso_clock_gettime_monotonic", "namespace"] == "the vDSO"
    assert found["calls/vdso_gettimeofday", "namespace"] == "the kernel"
    assert ("calls/gettimeofday", "baseline") not in found


def test_warps_are_added_up_over_blocks(results: Results) -> None:
    found = {(row["level"], row["load"], row["clock"]): row for row in rows(warps_table(results))}
    back = found["namespace", "idle", "tsc"]
    assert (back["backwards"], back["worst"], back["pairs"]) == (4, 70.0, 2)
    assert back["readings"] == 2 * 10 * 100_000
    assert found["baseline", "idle", "tsc"]["backwards"] == 0


def test_loads_and_levels(results: Results) -> None:
    found = {(row["level"], row["load"]): row for row in rows(loads_table(results))}
    assert list(found) == [(level, load) for level in results.levels for load in results.loads]
    assert found["baseline", "cpu"]["loading"] == 100
    assert found["baseline", "cpu"]["cpu"] == pytest.approx(99.25, abs=0.3)
    levels = rows(levels_table(results))
    assert [row["level"] for row in levels] == ["baseline", "namespace"]
    assert "namespaces: time" in str(levels[1]["made"])


def test_a_source_is_named_once(results: Results) -> None:
    notes = published_table(results).notes
    assert sum(note.count("packagecloud") for note in notes) == 2, "name and address"
    assert len(notes) == len(set(notes))


def test_published_pairs_beside_ours(results: Results) -> None:
    found = {row["what"]: row for row in rows(published_table(results))}
    hot = found["clock_gettime, hot caches"]
    assert hot["change"] == pytest.approx(18.84, abs=0.01)
    assert hot["change_ours"] == pytest.approx(10, abs=0.5)
    # The longest of three times that others have measured the same.
    assert [it for it in found if str(it).startswith("gettimeofday")] == [
        "gettimeofday, 500 million calls"
    ]
    slow = found["gettimeofday, 500 million calls"]
    assert slow["change_ours"] == pytest.approx((99 / 22 - 1) * 100, rel=0.02)


def test_notes_on_units_say_of_what_they_are(tmp_path: Path) -> None:
    """Idle has six blocks, and the load of the second run two."""
    sleeps = [
        making.Sleeps("nanosleep", 1_000_000, 60_000, count=400, sd=600),
        making.Sleeps("usleep", 1_000_000, 60_000, count=400, sd=600, without=[("vm", "cpu")]),
    ]
    levels = ("baseline", "vm")
    idle = making.folder(tmp_path / "a", sleeps=sleeps, levels=levels, blocks=6)
    loaded = making.folder(
        tmp_path / "b", sleeps=sleeps, levels=levels, loads=["cpu"], blocks=2, machine="b"
    )
    analysis = analyse(load(idle, loaded))
    over_levels = " ".join(pairs_table(analysis.results, "sleep", analysis=analysis).notes)
    assert "All (idle): Each of 6 blocks was measured anew" in over_levels
    assert "nanosleep 1 ms (cpu): There are fewer than 5 blocks (2)" in over_levels
    over_loads = pairs_table(analysis.results, "sleep", "load", analysis=analysis).notes
    assert over_loads[1].startswith("cpu: There are fewer than 5 blocks (2), so each of")
    assert not any("blocks (6)" in note for note in (over_levels, *over_loads))
