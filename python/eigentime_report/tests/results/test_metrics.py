"""What metrics are is what the manifest says, and no list of the reader's own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import making
import pytest

from eigentime_report import FolderError, load

NEW = {
    "kind": "calls",
    "name": "futex_wait",
    "column": "call_ns",
    "unit": "ns",
    "meaning": "Duration of a wait of 1 ms by futex(2)",
    "better": "lower",
    "asked": 1_000_000,
}


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A folder with two metrics, whose manifest is changed."""
    calls = [making.Calls("futex_wait", 1_003_000, sd=20), making.Calls("clock_getres", 130, sd=1)]
    folder = making.folder(path / "run", calls=calls, levels=["here"])
    document = json.loads((folder / "manifest.json").read_text("utf-8"))
    change(document)
    (folder / "manifest.json").write_text(json.dumps(document), "utf-8")
    return folder


def test_a_new_metric_is_known_by_its_manifest(tmp_path: Path) -> None:
    results = load(changed(tmp_path, lambda it: it["metrics"].insert(0, NEW)))
    first, second = results.quantities
    assert (first.subject, first.meaning, first.asked_ns) == ("futex_wait", NEW["meaning"], 10**6)
    assert (second.subject, second.measure, second.asked_ns) == ("clock_getres", "duration", 0)


def test_the_order_is_the_manifests(tmp_path: Path) -> None:
    results = load(changed(tmp_path, lambda it: it["metrics"].append(NEW)))
    assert [it.subject for it in results.quantities] == ["clock_getres", "futex_wait"]


def test_a_manifest_of_an_earlier_version_has_none(tmp_path: Path) -> None:
    results = load(changed(tmp_path, lambda it: it.pop("metrics")))
    assert [it.meaning for it in results.quantities] == ["Duration of a call"] * 2


def test_another_unit_is_refused(tmp_path: Path) -> None:
    folder = changed(tmp_path, lambda it: it["metrics"].insert(0, {**NEW, "unit": "ms"}))
    with pytest.raises(FolderError, match=r"metrics\[0\].unit is 'ms', and this version reads"):
        load(folder)
