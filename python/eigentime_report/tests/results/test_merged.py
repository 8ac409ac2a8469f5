"""Several runs, in one folder or in several."""

import shutil
from pathlib import Path

import making
import numpy as np
import pytest

import eigentime_report as report

NAME = "calls/gettimeofday"


def run(path: Path, centre: float, **said: object) -> Path:
    calls = making.Calls("gettimeofday", centre, sd=1.0, records=20)
    read = making.Reads("tsc", centre / 5, sd=1.0, count=500)
    return making.folder(path, calls=[calls], reads=[read], blocks=4, **said)  # type: ignore[arg-type]


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    monday = run(tmp_path / "monday", 100.0, machine="monday")
    return [monday, run(tmp_path / "tuesday", 200.0, machine="tuesday", seed=8)]


def test_a_merged_folder_is_the_same_as_its_folders(two: list[Path], tmp_path: Path) -> None:
    merged = report.load(making.merge(tmp_path / "both", *two))
    apart = report.load(*two)
    assert [it.machine for it in merged.runs] == ["monday", "tuesday"]
    assert merged.quantities == apart.quantities
    for quantity in merged.quantities:
        for one, other in zip(merged.cells(quantity), apart.cells(quantity), strict=True):
            np.testing.assert_array_equal(one.values, other.values)
            np.testing.assert_array_equal(one.blocks, other.blocks)
            assert one.median == other.median


def test_blocks_of_different_runs_are_different(two: list[Path]) -> None:
    cell = report.load(*two).cell(NAME, "namespace", "idle")
    assert cell and cell.count == 40
    assert list(np.unique(cell.blocks)) == list(range(8))
    assert cell.values[cell.blocks < 4].mean() == pytest.approx(100, abs=1)
    assert cell.values[cell.blocks >= 4].mean() == pytest.approx(200, abs=1)
    # 8 blocks are enough, 4 would not be.
    assert (cell.replicates.unit, cell.replicates.count) == ("block", 8)
    assert sorted(report.load(*two).load_checks["block"].unique()) == list(range(8))


def test_labels_keep_folders_apart(two: list[Path]) -> None:
    results = report.load(*two, labels=["A", "B"])
    assert results.levels == ("A: baseline", "A: namespace", "B: baseline", "B: namespace")
    means = {it.level: round(it.mean, -1) for it in results.cells(NAME)}
    assert means == {
        "A: baseline": 100,
        "A: namespace": 100,
        "B: baseline": 200,
        "B: namespace": 200,
    }
    assert [run.machine for run, _ in results.places("B: namespace")] == ["tuesday"]
    assert not [note for note in results.notes if "taken together" in note]


def test_machines_that_are_taken_together_are_said(two: list[Path]) -> None:
    [note] = [it for it in report.load(*two).notes if "taken together" in it]
    assert "machine (monday, tuesday)" in note


def test_a_run_is_taken_once(two: list[Path], tmp_path: Path) -> None:
    merged = making.merge(tmp_path / "both", *two)
    copy = tmp_path / "copy"
    shutil.copytree(two[1], copy)
    for twice in ([two[0], two[0]], [two[1], copy], [merged, two[0]], [copy, merged]):
        with pytest.raises(report.FolderError, match="already") as refused:
            report.load(*twice)
        assert str(twice[0]) in str(refused.value)
        assert refused.value.path == twice[1]


def test_labels_are_one_for_each_folder(two: list[Path]) -> None:
    for labels in (["A"], ["A", "A"], ["A", "B", "C"]):
        with pytest.raises(ValueError, match="2 folders need as many labels"):
            report.load(*two, labels=labels)
