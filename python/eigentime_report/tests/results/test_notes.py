"""What a reader must know."""

from pathlib import Path

import making
import pytest
from making import Skip

import eigentime_report as report

CALLS = [making.Calls("gettimeofday", 100, sd=1)]


def test_there_is_nothing_to_say_of_a_good_run(tmp_path: Path) -> None:
    assert report.load(making.folder(tmp_path / "run", calls=CALLS)).notes == ()


@pytest.mark.parametrize("state", ["interrupted", "incomplete", "running"])
def test_an_unfinished_run_is_used_and_said(tmp_path: Path, state: str) -> None:
    folder = making.folder(tmp_path / "run", calls=CALLS, blocks=10, blocks_done=6, state=state)
    assert (folder / "journal").is_dir()
    results = report.load(folder)
    cell = results.cell("calls/gettimeofday", "baseline", "idle")
    assert cell and cell.count == 24, "of 40 records"
    assert cell.replicates.count == 6
    [note] = results.notes
    assert "12 of 20 steps are done" in note
    assert ("interrupted" in note, "incomplete" in note) == (
        state == "interrupted",
        state == "incomplete",
    )
    assert "goes on" in note and "2026-09-21" in note and "testbed" in note


def test_what_was_left_out_is_said_once(tmp_path: Path) -> None:
    why = "it needs CAP_BPF"
    folder = making.folder(
        tmp_path / "run",
        calls=CALLS,
        levels=["baseline", "namespace", "vm"],
        loads=["idle", "cpu"],
        unavailable={"vm": "qemu is not there"},
        skipped=[
            Skip("baseline", "bpf_timer", why, "idle"),
            Skip("baseline", "bpf_timer", why, "cpu"),
            Skip("namespace", "bpf_timer", why, "cpu"),
            Skip("namespace", "hrtimer", "no module"),
        ],
        failed=[Skip("baseline", "sleep", "the probe has ended", "cpu")],
        remarks=["others kept the processors up to 97 % busy"],
    )
    assert report.load(folder).notes == (
        "others kept the processors up to 97 % busy",
        "Level vm could not be had: qemu is not there",
        "bpf_timer was not measured (baseline; namespace under cpu): it needs CAP_BPF",
        "hrtimer was not measured (namespace): no module",
        "sleep failed (baseline under cpu): the probe has ended",
    )
    assert report.load(folder).levels == ("baseline", "namespace")


def test_runs_are_named_where_only_some_say_something(tmp_path: Path) -> None:
    quiet = making.folder(tmp_path / "quiet", calls=CALLS, remarks=["both"])
    loud = making.folder(tmp_path / "loud", calls=CALLS, remarks=["both", "loud"], seed=2)
    notes = report.load(quiet, loud).notes
    assert notes == ("both", "The run of 2026-09-21T14:13:20Z on testbed: loud")


def test_levels_that_cannot_be_compared_are_said(tmp_path: Path) -> None:
    folder = making.folder(
        tmp_path / "run",
        calls=[making.Calls("gettimeofday", 100, without=["vm"])],
        sleeps=[making.Sleeps("epoll", 1_000, 50_000, without=["baseline", "namespace"])],
        levels=["baseline", "namespace", "vm"],
    )
    results = report.load(folder)
    assert results.levels == ("baseline", "namespace", "vm")
    assert results.notes[-1] == (
        "Level vm has no quantity in common with baseline, so it is compared with "
        "nothing: measure both by the same arguments."
    )


def test_a_run_that_only_compares_clocks_is_one(tmp_path: Path) -> None:
    folder = making.folder(tmp_path / "run", warps=["tsc"], levels=["baseline", "vm"])
    results = report.load(folder)
    assert (results.levels, results.loads) == (("baseline", "vm"), ("idle",))
    assert (results.quantities, results.notes) == ((), ())
    assert results.warps["readings"].sum() == 100_000 * 10 * 2 * 2


def test_what_the_doctor_said_is_with_the_level(tmp_path: Path) -> None:
    finding = {
        "key": "clocksource",
        "topic": "clocks",
        "verdict": "ok",
        "found": "the kernel keeps time by tsc",
        "facts": [{"name": "clocksource", "text": "tsc"}],
    }
    folder = making.folder(
        tmp_path / "run",
        calls=CALLS,
        levels=["baseline", "vm"],
        findings={"vm": [finding]},
        notes={"vm": {"accelerator": "kvm"}},
    )
    [(run, level)] = report.load(folder).places("vm")
    assert (run.machine, level.accelerator) == ("testbed", "kvm")
    [found] = level.findings
    assert (found.verdict, found.found) == ("ok", "the kernel keeps time by tsc")


def test_what_some_runs_say_is_told_with_their_names_once(tmp_path: Path) -> None:
    folders = [
        making.folder(
            tmp_path / day,
            calls=CALLS,
            run=day,
            begin=f"{day}T08:00:00Z",
            remarks=["it was busy"] if day != "2026-09-22" else [],
        )
        for day in ("2026-09-23", "2026-09-22", "2026-09-21")
    ]
    assert (
        "The runs of 2026-09-21T08:00:00Z and 2026-09-23T08:00:00Z on testbed: it was busy"
        in report.load(*folders).notes
    )
