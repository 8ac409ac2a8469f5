"""Folders that are made are of the form that `eigentime bench` writes."""

import json
import re
from pathlib import Path

import making
import numpy as np
import polars as pl
import pytest
from making.tables import EVERYWHERE, TABLES

DOCUMENTS = Path(__file__).parents[3] / "docs" / "bench"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some of everything."""
    return making.folder(
        tmp_path / "run",
        calls=[making.Calls("timer_create", 280, sd=4), making.Calls("nanosleep", 1e8)],
        reads=[making.Reads("tsc", 17, sd=1)],
        sleeps=[making.Sleeps("epoll", 1_000, 900, policy="fifo:50", count=20_000)],
        events=[making.Events("hrtimer", 50_000, sd=150)],
        warps=["tsc"],
        levels=["baseline", "vm", "web"],
        loads=["idle", "io"],
        blocks=3,
        notes={"vm": {"accelerator": "kvm"}},
        unavailable={"web": "no route to host"},
        skipped=[making.Skip("vm", "hrtimer", "no module")],
        remarks=["others were busy"],
    )


def test_the_manifest_is_as_its_schema_says(folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    schema = json.loads((DOCUMENTS / "manifest.schema.json").read_text("utf-8"))
    said = json.loads((folder / "manifest.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(said)
    [run] = said["runs"]
    assert run["plan"]["loads"][1]["load"] == "io"
    assert [it["kind"] for it in run["plan"]["loads"][0]["measurements"]] == [
        "calls",
        "calls",
        "read",
        "sleep",
        "events",
        "warp",
    ]
    # Blocks, loads, levels that can be had, measurements.
    assert run["steps"] == run["steps_done"] == 3 * 2 * 2 * 6


def test_tables_have_the_columns_that_are_documented(folder: Path) -> None:
    text = (DOCUMENTS / "columns.md").read_text("utf-8")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    documented = {
        part.split("\n", 1)[0].strip("`"): re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
        for part in parts
    }
    everywhere = documented.pop("In every table")
    del documented["Metrics"]
    assert everywhere == list(EVERYWHERE)
    assert set(documented) == {f"{name}.parquet" for name in TABLES}
    for file, columns in documented.items():
        schema = pl.read_parquet_schema(folder / file)
        assert list(schema) == everywhere + columns
        assert schema == dict(TABLES[file.removesuffix(".parquet")])


def test_effects_are_in_the_values(tmp_path: Path) -> None:
    calls = making.Calls(
        "gettimeofday",
        100.0,
        records=4_000,
        sd=2.0,
        levels={"slow": 1.5, "noisy": making.Effect(plus=30, scatter=4)},
        loads={"cpu": making.Effect(times=2)},
        pairs={("slow", "cpu"): making.Effect(plus=7)},
        blocks=[0, 10],
    )
    folder = making.folder(
        tmp_path / "run",
        calls=[calls],
        levels=["quick", "slow", "noisy"],
        loads=["idle", "cpu"],
        blocks=2,
    )
    table = pl.read_parquet(folder / "calls.parquet")
    found = {
        place: (values.mean(), values.std())
        for place, values in (
            (place, group["call_ns"].to_numpy())
            for place, group in table.group_by("level", "load", "block")
        )
    }
    for place, mean, sd in [
        (("quick", "idle", 0), 100, 2),
        (("quick", "idle", 1), 110, 2),
        (("slow", "idle", 0), 150, 2),
        (("noisy", "idle", 1), 140, 8),
        (("slow", "cpu", 0), 307, 2),
        (("noisy", "cpu", 0), 260, 8),
    ]:
        assert found[place] == (pytest.approx(mean, abs=0.6), pytest.approx(sd, rel=0.08))


def test_many_rows_are_written_in_parts(tmp_path: Path) -> None:
    sleeps = [
        making.Sleeps("epoll", 1_000, 500, count=600_000),
        making.Sleeps("epoll", 2_000, 500, count=7),
    ]
    folder = making.folder(tmp_path / "run", sleeps=sleeps, levels=["here"], blocks=1)
    table = pl.read_parquet(folder / "sleeps.parquet")
    assert len(table) == 600_007
    own = table.filter(interval_ns=1_000)["sleep"].to_numpy()
    np.testing.assert_array_equal(own, np.arange(600_000))
    assert not (folder / "sleeps.parts").exists()
