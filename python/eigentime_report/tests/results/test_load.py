"""All that was written comes back, in the right cells."""

import shutil
from pathlib import Path

import making
import numpy as np
import polars as pl
import pytest

import eigentime_report as report
from eigentime_report.results import tables

# Each row of the files, of the cell of a quantity.
TABLES = {
    "calls": ("calls", "call_ns"),
    "read": ("reads", "value_ns"),
    "sleep": ("sleeps", "miss_ns"),
    "events": ("events", "after_ns"),
}
COLUMNS: dict[str, dict[str, object]] = {
    "calls/timer_create": {"metric": "timer_create"},
    "read/tsc/hot": {"source": "tsc", "cache": "hot"},
    "sleep/epoll/1ms/other/slack=50us": {"interval_ns": 1_000_000, "slack_ns": 50_000},
    "sleep/epoll/100us/other/slack=1ns": {"interval_ns": 100_000, "slack_ns": 1},
    "sleep/epoll/100us/fifo:50": {"policy": "fifo:50"},
    "events/hrtimer/50us": {"source": "hrtimer"},
}


def rows(folder: Path, name: str, level: str, load: str) -> pl.DataFrame:
    """The rows of a cell, by nothing but the file."""
    table, value = TABLES[name.split("/")[0]]
    of: dict[str, object] = {"level": level, "load": load, **COLUMNS[name]}
    frame = pl.read_parquet(folder / f"{table}.parquet").filter(**of)
    return frame.drop_nulls(value)


def test_names_are_in_the_probes_order(whole: Path) -> None:
    results = report.load(whole)
    assert [str(it) for it in results.quantities] == [
        "calls/nanosleep",
        "calls/timer_create",
        "calls/vdso_gettimeofday",
        "read/tsc/hot",
        "read/clock_gettime/cold",
        "sleep/epoll/100us/other/slack=1ns",
        "sleep/epoll/100us/fifo:50",
        "sleep/epoll/1ms/other/slack=50us",
        "events/timerfd/10us",
        "events/hrtimer/50us",
    ]
    assert results.levels == ("baseline", "vm", "namespace")
    assert results.loads == ("idle", "cpu")
    assert results.folders == (whole,)
    sleep = results.quantities[5]
    assert (sleep.kind, sleep.subject, sleep.interval_ns) == ("sleep", "epoll", 100_000)
    assert sleep.factors == {"interval": "100 µs", "policy": "other", "slack": "1 ns"}
    assert sleep.title == "epoll 100 µs, slack 1 ns"
    titles = [results.quantities[at].title for at in (1, 3, 6, 7)]
    assert titles == ["timer_create", "tsc, hot", "epoll 100 µs, fifo:50", "epoll 1 ms"]
    assert "100 ms" in results.quantities[0].meaning


@pytest.mark.parametrize("name", [it for it in COLUMNS if not it.startswith("read")])
@pytest.mark.parametrize("load", ["idle", "cpu"])
@pytest.mark.parametrize("level", ["baseline", "vm", "namespace"])
def test_values_come_back_in_the_order_of_time(
    whole: Path, name: str, level: str, load: str
) -> None:
    cell = report.load(whole).cell(name, level, load)
    if (name, level) == ("calls/timer_create", "vm"):
        assert cell is None
        return
    assert cell
    written = rows(whole, name, level, load).sort("order", maintain_order=True)
    value = TABLES[cell.quantity.kind][1]
    values = written[value].to_numpy().astype(float)
    if cell.quantity.kind == "events":
        assert len(written) == 400 - 3, "each block has a first event"
        values = values - 50_000
    np.testing.assert_array_equal(cell.values, values)
    np.testing.assert_array_equal(cell.blocks, written["block"].to_numpy())
    assert (cell.level, cell.load, cell.count) == (level, load, len(written))
    assert cell.weights is None


@pytest.mark.parametrize("level", ["baseline", "vm", "namespace"])
def test_readings_come_back_by_their_weights(whole: Path, level: str) -> None:
    results = report.load(whole)
    cell = results.cell("read/tsc/hot", level, "idle")
    assert cell and cell.weights is not None and cell.histogram
    written = rows(whole, "read/tsc/hot", level, "idle")
    assert cell.count == written["count"].sum() == 20_000
    assert len(cell.values) == len(written)
    assert np.all(np.diff(cell.values) >= 0)
    by_block = written.group_by("block").agg(pl.col("count").sum()).sort("block")
    assert list(np.bincount(cell.blocks, cell.weights)) == by_block["count"].to_list()
    known = written.group_by("value_ns").agg(pl.col("count").sum())
    for value, count in known.iter_rows():
        assert cell.weights[cell.values == value].sum() == count
    # Of the values themselves, by the file.
    means = (written["mean_ticks"] - 40.0) / 2.0
    assert cell.mean == pytest.approx(np.average(means, weights=written["count"]))
    assert cell.maximum == ((written["max_ticks"] - 40.0) / 2.0).max()
    assert cell.facts["step_ticks"] == 26
    assert results.cell("read/tsc/hot", "vm", "cpu") is None


def test_parts_of_a_name_are_enough_and_misspelt_ones_are_told(whole: Path) -> None:
    results = report.load(whole)
    assert results.cell("tsc", "vm", "idle") is results.cell("read/tsc/hot", "vm", "idle")
    assert {str(it.quantity) for it in results.cells("epoll/100us")} == {
        "sleep/epoll/100us/other/slack=1ns",
        "sleep/epoll/100us/fifo:50",
    }
    assert {it.load for it in results.cells("tsc", "idle")} == {"idle"}
    with pytest.raises(KeyError, match="may be any of sleep/epoll/100us/other"):
        results.cell("epoll", "vm", "idle")
    with pytest.raises(KeyError, match="'calls/foo'; near it: .*calls/nanosleep"):
        results.cell("calls/foo", "vm", "idle")
    with pytest.raises(KeyError, match="near it: vdso_gettimeofday"):
        results.cells("vdso")
    with pytest.raises(KeyError, match="no load 'io': there are idle, cpu"):
        results.cells("tsc", "io")
    assert repr(results.quantities[:2]) == "(calls/nanosleep, calls/timer_create)"


def test_what_is_known_beside_values(whole: Path) -> None:
    results = report.load(whole)

    def cell(name: str, level: str = "baseline", load: str = "idle") -> report.Cell:
        found = results.cell(name, level, load)
        assert found
        return found

    assert cell("calls/vdso_gettimeofday").served == {"vdso"}
    assert cell("calls/vdso_gettimeofday", "vm").served == {"system_call"}
    assert cell("calls/timer_create").served == {"system_call"}
    assert cell("read/tsc/hot").served == frozenset()
    assert cell("calls/nanosleep").facts["calls"] == 1
    assert cell("read/tsc/hot").facts["ticks_per_ns"] == 2.0
    assert "accelerator" not in cell("read/tsc/hot").facts
    assert cell("read/tsc/hot", "vm").facts["accelerator"] == "tcg"
    limited = cell("sleep/epoll/100us/other/slack=1ns").facts
    assert limited["degradation"] == "not locked"
    assert (limited["cpu_ns"], limited["reading_ns"]) == (2_000.0, 25.0)
    assert "degradation" not in cell("sleep/epoll/100us/fifo:50").facts
    events = cell("events/hrtimer/50us").facts
    assert (events["missed"], events["place"]) == (9, "kernel"), "3 in each of 3 blocks"
    # 3 ms late every 1 ms: three deadlines each.
    late = cell("sleep/epoll/1ms/other/slack=50us", load="cpu")
    assert late.missed is not None
    np.testing.assert_array_equal(late.missed, np.floor(late.values / 1e6))
    assert late.facts["missed"] == late.missed.sum() > 700


def test_deadlines_that_were_slept_through_are_late_too(tmp_path: Path) -> None:
    misses = np.array([10.0, 3_500.0, 20.0, 1_000.0])
    sleeps = making.Sleeps("epoll", 1_000, 0, count=4, exactly=lambda *_: misses)
    folder = making.folder(tmp_path / "run", sleeps=[sleeps], levels=["here"], blocks=1)
    cell = report.load(folder).cell("sleep/epoll/1us/other/slack=50us", "here", "idle")
    assert cell and list(cell.values) == list(misses)
    late = cell.with_slept_through()
    assert list(late) == [10, 3_500, 20, 1_000, 2_500, 1_500, 500, 0]


def test_other_tables_are_whole(whole: Path) -> None:
    results = report.load(whole)
    warps = results.warps.filter(level="vm", clock="tsc")
    assert warps["backwards"].sum() == 4 * 2, "under two loads"
    assert results.warps.filter(level="baseline")["backwards"].sum() == 0
    assert len(results.warps) == 3 * 3 * 2 * 2 * 2, "blocks, levels, loads, clocks, pairs"
    checks = results.load_checks.group_by("load").agg(pl.col("cpu_percent").mean())
    percent = dict(checks.iter_rows())
    assert percent["idle"] < 2 and percent["cpu"] >= 99
    assert sorted(results.load_checks["block"].unique()) == [0, 1, 2]


def test_names_of_levels_may_be_anything(tmp_path: Path) -> None:
    names = ["héß/<b>&\"'", "a|b\\c", "ö:*[0]?", "🕰"]
    folder = making.folder(
        tmp_path / "odd [name] *",
        calls=[making.Calls("gettimeofday", 100, levels={it: n + 1 for n, it in enumerate(names)})],
        levels=names,
        blocks=2,
    )
    results = report.load(folder)
    assert results.levels == tuple(names)
    means = [it.mean for it in results.cells("calls/gettimeofday")]
    assert means == [100, 200, 300, 400]


def test_a_table_is_read_in_parts(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = report.load(whole)
    monkeypatch.setattr(tables, "PART", 37)
    in_parts = report.load(whole)
    assert in_parts.quantities == at_once.quantities
    for quantity in at_once.quantities:
        for one, other in zip(at_once.cells(quantity), in_parts.cells(quantity), strict=True):
            np.testing.assert_array_equal(one.values, other.values)
            np.testing.assert_array_equal(one.blocks, other.blocks)
            assert one.facts == other.facts
            assert one.mean == pytest.approx(other.mean, rel=1e-12)
            assert one.mad == pytest.approx(other.mad, rel=1e-12)


def test_nothing_is_kept_twice(whole: Path) -> None:
    results = report.load(whole)
    first, second = results.cells("events/timerfd/10us", "idle")[:2]
    assert first is results.cell("events/timerfd/10us", first.level, "idle")
    assert first.values.base is not None and first.values.base is second.values.base
    with pytest.raises(ValueError, match="read-only"):
        first.values.sort()


def test_rows_may_be_in_any_order(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    calls = pl.read_parquet(whole / "calls.parquet")
    calls.sample(fraction=1.0, shuffle=True, seed=3).write_parquet(tmp_path / "calls.parquet")
    shuffled, sorted_ = report.load(tmp_path), report.load(whole)
    for quantity in sorted_.quantities[:3]:
        for one, other in zip(sorted_.cells(quantity), shuffled.cells(quantity), strict=True):
            assert sorted(one.values) == sorted(other.values)
            np.testing.assert_array_equal(one.blocks, other.blocks)


def test_a_folder_has_to_be_named() -> None:
    with pytest.raises(ValueError, match="no folder is named"):
        report.load()
