"""Folders that cannot be read: the file is named, and what to do."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import making
import polars as pl
import pytest

import eigentime_report as report


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy that may be broken."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def refused(folder: Path, file: str, *words: str) -> report.FolderError:
    """What is said of the folder: of this file, with these words and a way out."""
    with pytest.raises(report.FolderError) as caught:
        report.load(folder)
    error = caught.value
    text = str(error)
    assert error.path == folder / file
    assert text.startswith(f"{folder / file}: ")
    assert text.splitlines()[-1].startswith("help: ")
    assert error.way_out
    for word in words:
        assert word in error.reason, text
    return error


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest."""
    file = folder / "manifest.json"
    said = json.loads(file.read_text("utf-8"))
    change(said)
    file.write_text(json.dumps(said))


def rewrite(folder: Path, file: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change a table."""
    change(pl.read_parquet(folder / file)).write_parquet(folder / file)


def test_what_is_no_folder(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "", "no such folder")
    (tmp_path / "file").write_text("{}")
    refused(tmp_path / "file", "", "not a folder")
    refused(tmp_path, "manifest.json", "not there", "no folder of results")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "no JSON"),
        (b'{"form": 1, "runs": [', "no JSON"),
        (b"\xff\xfe\x00", "no text"),
        (b"[]", "the document is no object"),
        (b"{}", "has no 'form'"),
        (b'{"form": "1"}', "form is no count"),
        (b'{"form": 1, "runs": {}}', "runs is no list"),
        (b'{"form": 1, "runs": []}', "no runs"),
        (b'{"form": 1, "runs": [{"run": "7"}]}', "runs[0] has no 'by'"),
        (b"[" * 100_000, "no JSON"),
        (b'{"form": NaN}', "no JSON: NaN is no number"),
    ],
)
def test_a_manifest_that_is_none(folder: Path, content: bytes, word: str) -> None:
    (folder / "manifest.json").write_bytes(content)
    refused(folder, "manifest.json", word)


def test_a_manifest_of_another_form(folder: Path) -> None:
    edit(folder, lambda said: said.update(form=2))
    error = refused(folder, "manifest.json", "its form is 2", "knows 1")
    assert "version of Eigentime" in error.way_out


def test_what_is_wrong_in_a_manifest_is_told_by_its_place(folder: Path) -> None:
    edit(folder, lambda said: said["runs"][0]["plan"].pop("blocks"))
    refused(folder, "manifest.json", "runs[0].plan has no 'blocks'")
    edit(folder, lambda said: said["runs"][0]["plan"].update(blocks=-3))
    refused(folder, "manifest.json", "runs[0].plan.blocks is no count")
    edit(folder, lambda said: said["runs"][0]["plan"].update(blocks=3, levels=[{"name": None}]))
    refused(folder, "manifest.json", "runs[0].plan.levels[0].name is no text")


@pytest.mark.parametrize("file", ["calls", "reads", "sleeps", "events", "warps", "loads"])
def test_a_table_that_is_missing(folder: Path, file: str) -> None:
    (folder / f"{file}.parquet").unlink()
    refused(folder, f"{file}.parquet", "not there", "measured")


def test_a_table_of_what_was_not_measured_may_be_missing(tmp_path: Path) -> None:
    folder = making.folder(tmp_path / "run", calls=[making.Calls("gettimeofday", 100)])
    for file in ("reads", "sleeps", "events", "warps"):
        (folder / f"{file}.parquet").unlink()
    assert [str(it) for it in report.load(folder).quantities] == ["calls/gettimeofday"]


@pytest.mark.parametrize("left", [0, 1, 100, -1, -9, -100])
@pytest.mark.parametrize("file", ["calls.parquet", "reads.parquet", "warps.parquet"])
def test_a_table_that_was_cut_off(folder: Path, file: str, left: int) -> None:
    path = folder / file
    path.write_bytes(path.read_bytes()[:left])
    refused(folder, file, "no whole Parquet file")


@pytest.mark.parametrize("file", ["calls.parquet", "warps.parquet", "manifest.json"])
def test_what_may_not_be_read_is_not_called_damaged(
    folder: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs this may be root, who may read everything."""
    opened = Path.open

    def denied(self: Path, *arguments: Any, **options: Any) -> Any:
        if self.name == file:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", denied)
    error = refused(folder, file, "it cannot be read: Permission denied")
    assert "whole" not in error.reason and "measure again" not in error.way_out


@pytest.mark.parametrize(
    ("file", "column"),
    [
        ("calls.parquet", "call_ns"),
        ("calls.parquet", "run"),
        ("reads.parquet", "count"),
        ("sleeps.parquet", "missed"),
        ("events.parquet", "after_ns"),
        ("warps.parquet", "backwards"),
        ("loads.parquet", "is_loading"),
    ],
)
def test_a_column_that_is_missing(folder: Path, file: str, column: str) -> None:
    rewrite(folder, file, lambda table: table.drop(column))
    refused(folder, file, f"no column '{column}'")


@pytest.mark.parametrize(
    ("file", "column", "kind", "word"),
    [
        ("calls.parquet", "call_ns", pl.String, "String, and not numbers"),
        ("calls.parquet", "level", pl.Binary, "Binary, and not text"),
        ("sleeps.parquet", "interval_ns", pl.Float64, "Float64, and not whole numbers"),
        ("reads.parquet", "count", pl.String, "String, and not whole numbers"),
        ("loads.parquet", "is_loading", pl.Int8, "Int8, and not true and false"),
    ],
)
def test_a_column_of_another_type(
    folder: Path, file: str, column: str, kind: type[pl.DataType], word: str
) -> None:
    rewrite(folder, file, lambda table: table.with_columns(pl.col(column).cast(kind)))
    refused(folder, file, f"column '{column}'", word)


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("calls.parquet", {"call_ns": float("nan")}, ("'call_ns' has nan", "no finite")),
        ("calls.parquet", {"call_ns": float("inf")}, ("'call_ns' has inf", "no finite")),
        ("calls.parquet", {"call_ns": 1e300}, ("'call_ns' has 1e+300", "more than")),
        ("calls.parquet", {"call_ns": 1e25}, ("'call_ns' has 1e+25", "more than")),
        ("calls.parquet", {"call_ns": -5e5}, ("'call_ns' has -500000", "less than")),
        ("calls.parquet", {"loop_ns": 1e300}, ("'loop_ns' has 1e+300", "more than")),
        ("calls.parquet", {"calls": 0}, ("'calls' has 0", "less than")),
        ("calls.parquet", {"calls": 2**63}, (f"'calls' has {2**63}", "more than")),
        ("calls.parquet", {"slack_ns": 2**64 - 1}, ("'slack_ns'", "more than")),
        ("warps.parquet", {"backwards": 2**63}, ("'backwards'", "more than")),
        ("warps.parquet", {"backwards": 100_001}, ("'backwards' has 100001", "more")),
        ("warps.parquet", {"worst_ns": -1.0}, ("'worst_ns' has -1.0", "less than")),
        ("loads.parquet", {"looked_ns": 2**63}, ("'looked_ns'", "more than")),
        ("loads.parquet", {"cpu_percent": -5.0}, ("'cpu_percent'", "less than")),
        ("events.parquet", {"after_ns": 2**63 - 1}, ("'after_ns'", "more than")),
        ("events.parquet", {"after_ns": None}, ("'after_ns'", "not the first")),
        ("calls.parquet", {"level": None}, ("'level'", "5 rows without a value")),
        ("sleeps.parquet", {"miss_ns": None}, ("'miss_ns'", "5 rows without a value")),
        ("reads.parquet", {"count": 0}, ("'count' has 0", "less than")),
        ("reads.parquet", {"ticks_per_ns": 0.0}, ("'ticks_per_ns' has 0.0", "less than")),
        ("events.parquet", {"run": "another"}, ("'another'", "another folder")),
        ("warps.parquet", {"level": "moon"}, ("'moon'", "does not know")),
        ("sleeps.parquet", {"load": "io"}, ("'io'", "does not know")),
        ("warps.parquet", {"machine": "moon"}, ("'machine' has 'moon'", "'testbed'")),
        ("calls.parquet", {"machine": "moon"}, ("'machine' has 'moon'", "'testbed'")),
        ("sleeps.parquet", {"interval_ns": 0}, ("plan does not have", "another folder")),
        ("sleeps.parquet", {"method": "zzz"}, ("sleep/zzz/", "plan does not have")),
        ("calls.parquet", {"block": 3}, ("'block' has 3", "3 blocks")),
    ],
)
def test_values_that_cannot_be(
    folder: Path, file: str, change: dict[str, Any], words: tuple[str, ...]
) -> None:
    [(column, value)] = change.items()

    def spoil(table: pl.DataFrame) -> pl.DataFrame:
        spoilt = pl.lit(value, dtype=table.schema[column])
        which = pl.int_range(pl.len()).is_between(10, 14)
        return table.with_columns(pl.when(which).then(spoilt).otherwise(column).alias(column))

    rewrite(folder, file, spoil)
    refused(folder, file, *words)


@pytest.mark.parametrize(
    ("file", "column", "value"),
    [
        ("calls.parquet", "order", 2**63 + 1),
        ("calls.parquet", "record", 2**63 + 1),
        ("calls.parquet", "block", -1),
        ("sleeps.parquet", "missed", -1),
        ("sleeps.parquet", "missed", 2**33),
        ("warps.parquet", "backwards", -1),
    ],
)
def test_counts_of_wider_types_that_cannot_be(
    folder: Path, file: str, column: str, value: int
) -> None:
    kind = pl.Int64 if value < 0 else pl.UInt64
    spoilt = pl.when(pl.int_range(pl.len()) == 3).then(pl.lit(value, dtype=kind))
    rewrite(
        folder,
        file,
        lambda it: it.with_columns(spoilt.otherwise(pl.col(column).cast(kind)).alias(column)),
    )
    refused(folder, file, f"'{column}' has {value}", "than it can be")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"state": "blah"}, "runs[0].state is 'blah', and none of running, "),
        ({"steps_done": 10**9}, "runs[0].steps_done is more than "),
    ],
)
def test_outcomes_of_a_run_that_cannot_be(folder: Path, change: dict[str, Any], word: str) -> None:
    edit(folder, lambda said: said["runs"][0].update(change))
    refused(folder, "manifest.json", word)


def test_a_run_that_was_to_measure_nothing(folder: Path) -> None:
    def clear(said: dict[str, Any]) -> None:
        for under in said["runs"][0]["plan"]["loads"]:
            under["measurements"] = []

    edit(folder, clear)
    refused(folder, "manifest.json", "was to measure nothing")


def test_a_table_of_another_run(folder: Path, tmp_path: Path) -> None:
    other = making.folder(
        tmp_path / "other", calls=[making.Calls("gettimeofday", 100)], levels=["baseline"]
    )
    shutil.copy(other / "calls.parquet", folder / "calls.parquet")
    error = refused(folder, "calls.parquet", "of another folder")
    assert "merge" in error.way_out


def test_a_table_without_rows(folder: Path) -> None:
    rewrite(folder, "events.parquet", lambda table: table.clear())
    refused(folder, "events.parquet", "no rows", "complete")


def test_a_table_without_rows_of_a_run_that_left_something_out(folder: Path) -> None:
    rewrite(folder, "events.parquet", lambda table: table.clear())
    places = [("vm", "idle"), ("vm", "cpu"), ("baseline", None), ("namespace", None)]
    skips = [
        {"level": level, "load": load, "what": what, "why": "no module"}
        for level, load in places
        for what in ("hrtimer", "timerfd")
    ]
    edit(folder, lambda said: said["runs"][0]["skipped"].extend(skips[1:]))
    refused(folder, "events.parquet", "no rows", "has not left all of it out")
    edit(folder, lambda said: said["runs"][0]["skipped"].append(skips[0]))
    results = report.load(folder)
    assert "events" not in {it.kind for it in results.quantities}
    assert len(results.quantities) == 8
    assert f"{folder / 'events.parquet'}: nothing of it could be measured." in results.notes


AT = {"level": "vm", "load": "cpu", "block": 1}
STEPS = [
    ("calls.parquet", {**AT, "metric": "nanosleep"}, "calls/nanosleep", "3"),
    ("reads.parquet", {**AT, "source": "clock_gettime"}, "read/clock_gettime/cold", "6,667"),
    ("sleeps.parquet", {**AT, "policy": "fifo:50"}, "sleep/epoll/100us/fifo:50", "133"),
    ("events.parquet", {**AT, "source": "timerfd"}, "events/timerfd/10us", "133"),
]


@pytest.mark.parametrize(("file", "which", "name", "asked"), STEPS)
def test_steps_that_are_missing_of_a_complete_run(
    folder: Path, file: str, which: dict[str, Any], name: str, asked: str
) -> None:
    rewrite(folder, file, lambda table: table.remove(**which))
    words = f"{name} at vm, cpu, block 1 has 0 of {asked} ", "missing", "complete"
    error = refused(folder, file, *words)
    assert error.way_out == "take it from a copy, or measure again"
    # Of a run that goes on, they may still come.
    edit(folder, lambda said: said["runs"][0].update(state="interrupted"))
    assert len(report.load(folder).quantities) == 10


@pytest.mark.parametrize(("file", "which", "name", "asked"), STEPS)
def test_rows_that_are_missing_of_a_step(
    folder: Path, file: str, which: dict[str, Any], name: str, asked: str
) -> None:
    def thin(table: pl.DataFrame) -> pl.DataFrame:
        own = table.filter(**which)
        return pl.concat([table.remove(**which), own[: len(own) // 2]])

    rewrite(folder, file, thin)
    refused(folder, file, f"{name} at vm, cpu, block 1 has ", f" of {asked} ", "missing")


@pytest.mark.parametrize(("file", "which", "name", "asked"), STEPS)
@pytest.mark.parametrize("state", ["complete", "interrupted"])
def test_rows_that_are_there_twice(
    folder: Path, file: str, which: dict[str, Any], name: str, asked: str, state: str
) -> None:
    edit(folder, lambda said: said["runs"][0].update(state=state))
    rewrite(folder, file, lambda table: pl.concat([table, table.filter(**which)]))
    place = f"{name} at vm, cpu, block 1 has "
    error = refused(folder, file, place, f" of {asked} ", "some are there twice")
    assert "`eigentime bench merge`" in error.way_out


def test_a_row_that_has_taken_the_place_of_another(folder: Path) -> None:
    """As many as there should be; one is there twice, and one not at all."""

    def again(table: pl.DataFrame) -> pl.DataFrame:
        own = table.filter(**AT, metric="nanosleep")
        others = table.remove(**AT, metric="nanosleep")
        return pl.concat([others, own[:2], own[:1]])

    rewrite(folder, "calls.parquet", again)
    refused(folder, "calls.parquet", "has 3 of 3 records", "some are there twice")


def test_a_single_event_is_none_that_is_missing(folder: Path) -> None:
    """No time is from one event to the next where one came alone, and the others were missed."""

    def alone(table: pl.DataFrame) -> pl.DataFrame:
        own = table.filter(level="vm", source="timerfd")
        first = own.filter(event=0).with_columns(missed_of_all=pl.lit(132 + 1, dtype=pl.UInt64))
        return pl.concat([table.remove(level="vm", source="timerfd"), first])

    rewrite(folder, "events.parquet", alone)
    results = report.load(folder)
    assert results.cell("events/timerfd/10us", "vm", "idle") is None
    assert results.cell("events/timerfd/10us", "baseline", "idle") is not None
    assert (
        "events/timerfd/10us at vm, cpu: a single event came in 3 blocks, and 399 were missed, so "
        "there is no time from one to the next." in results.notes
    )
    # Also where nothing else came.
    rewrite(
        folder,
        "events.parquet",
        lambda table: table.filter(event=0).with_columns(
            missed_of_all=pl.lit(133, dtype=pl.UInt64)
        ),
    )
    results = report.load(folder)
    assert "events" not in {it.kind for it in results.quantities}
    assert sum("a single event came" in note for note in results.notes) == 12


@pytest.mark.parametrize("state", ["complete", "interrupted"])
@pytest.mark.parametrize("times", [2, 50])
@pytest.mark.parametrize("file", ["warps.parquet", "loads.parquet"])
def test_clocks_and_loads_that_are_there_twice(
    folder: Path, file: str, times: int, state: str
) -> None:
    edit(folder, lambda said: said["runs"][0].update(state=state))
    rewrite(folder, file, lambda table: pl.concat([table] * times))
    error = refused(folder, file, "there more than once", "block 0 and ")
    assert "`eigentime bench merge`" in error.way_out


@pytest.mark.parametrize(
    ("left", "word"),
    [
        (lambda it: it[: len(it) // 2], "a comparison of clocks at "),
        (lambda it: it.remove(level="vm"), "at vm, cpu, block 0 and 5 more are missing"),
        (lambda it: it.remove(**AT), "a comparison of clocks at vm, cpu, block 1 is "),
        (lambda it: it.clear(), "although the run is complete"),
        (lambda it: it[1:], "a part of a comparison of clocks at "),
    ],
)
def test_comparisons_of_clocks_that_are_missing(
    folder: Path, left: Callable[[pl.DataFrame], pl.DataFrame], word: str
) -> None:
    rewrite(folder, "warps.parquet", left)
    refused(folder, "warps.parquet", word, "missing, although the run is complete")
    # Of a run that goes on, they may still come.
    edit(folder, lambda said: said["runs"][0].update(state="interrupted"))
    assert len(report.load(folder).quantities) == 10


def test_comparisons_of_clocks_that_the_manifest_has_left_out(folder: Path) -> None:
    rewrite(folder, "warps.parquet", lambda it: it.remove(level="vm"))
    skip = {"level": "vm", "load": None, "what": "warp tsc 0-1", "why": "one processor"}
    edit(folder, lambda said: said["runs"][0]["skipped"].append(skip))
    assert set(report.load(folder).warps["level"]) == {"baseline", "namespace"}


def test_looks_at_loads_that_are_missing(folder: Path) -> None:
    rewrite(folder, "loads.parquet", lambda it: it.remove(level="vm", load="cpu", block=1))
    note = "loads.parquet: what the load did at vm, cpu is not known of 1 of 3 blocks."
    assert any(it.endswith(note) for it in report.load(folder).notes)
    rewrite(folder, "loads.parquet", lambda it: it.remove(level="vm", load="cpu"))
    refused(folder, "loads.parquet", "all of vm, cpu is missing")
    failed = {"level": "vm", "load": "cpu", "what": "cpu", "why": "no rights"}
    edit(folder, lambda said: said["runs"][0]["skipped"].append(failed))
    assert "not known" not in " ".join(report.load(folder).notes)
    rewrite(folder, "loads.parquet", lambda it: it.clear())
    refused(folder, "loads.parquet", "all of baseline, cpu is missing")


def test_a_run_without_any_measurement(tmp_path: Path) -> None:
    folder = making.folder(
        tmp_path / "run",
        calls=[making.Calls("gettimeofday", 100)],
        blocks_done=0,
        state="interrupted",
    )
    error = refused(folder, "", "no measurements in it")
    assert "continue" in error.way_out


def test_a_run_that_was_killed_before_it_wrote_its_tables(tmp_path: Path) -> None:
    folder = making.folder(
        tmp_path / "run", calls=[making.Calls("gettimeofday", 100)], state="running"
    )
    for file in folder.glob("*.parquet"):
        file.unlink()
    error = refused(folder, "loads.parquet", "has not ended in order")
    assert "Ctrl-C" in error.way_out
