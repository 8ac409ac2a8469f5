"""Nothing is stated that other numbers of the same page speak against."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import making
import numpy as np
import pytest

from eigentime_report import load
from eigentime_report.analysis import analyse
from eigentime_report.conclusions import MAIN, conclude
from eigentime_report.conclusions.against import groups_of
from eigentime_report.results import Results

Draw = Callable[[making.Place, np.random.Generator, int], Any]


def opening(results: Results) -> list[str]:
    return [it.text for it in conclude(results) if it.weight >= MAIN]


@pytest.mark.parametrize(("blocks", "is_fact"), [(1, False), (2, False), (3, True)])
def test_few_blocks_are_no_facts(tmp_path: Path, blocks: int, is_fact: bool) -> None:
    """As between two runs; the number of blocks is in the sentence itself."""
    calls = [making.Calls("clock_getres", 130, sd=0.1, levels={"namespace": 1.1})]
    path = making.folder(tmp_path / "run", calls=calls, blocks=blocks)
    (told,) = (it for it in opening(load(path)) if it.startswith("Against"))
    if is_fact:
        assert "in a time namespace clock_getres takes 1" in told
        assert "seem" not in told and "block" not in told
    else:
        number = "1 block" if blocks == 1 else "2 blocks"
        assert f"in a time namespace, by {number} only, clock_getres seems to take 1" in told, told


def test_the_side_that_has_few_blocks_is_what_counts(tmp_path: Path) -> None:
    """Five blocks of the one do not make a fact of one block of the other."""
    calls = [making.Calls("clock_getres", 130, sd=0.1, levels={"vm": 1.1})]
    many = making.folder(tmp_path / "a", calls=calls, levels=["baseline"], blocks=5)
    few = making.folder(tmp_path / "b", calls=calls, levels=["vm"], blocks=1, machine="b")
    (told,) = (it for it in opening(load(many, few)) if it.startswith("Against"))
    assert "in a virtual machine, by 1 block only, clock_getres seems to" in told


def with_tail(part: float) -> Draw:
    """Half the scatter in the namespace, but for a part of the events, which are far off."""

    def drawn(place: making.Place, lots: np.random.Generator, count: int) -> Any:
        values = lots.normal(0, 2000, count)
        if place.level == "namespace":
            values = values / 4
            values[: int(part * count)] = 5_000
        return values

    return drawn


@pytest.mark.parametrize(
    ("part", "missed", "worse"),
    [(0.0, 0, ""), (0.02, 0, "the p99"), (0.0, 3, "the share of missed events")],
)
def test_timers_with_a_longer_tail_are_not_better(
    tmp_path: Path, part: float, missed: int, worse: str
) -> None:
    events = [making.Events("timerfd", 50_000, count=40_000, exactly=with_tail(part))]
    path = making.folder(tmp_path / "run", events=events)
    results = load(path)
    if missed:
        cell = results.cell(results.quantities[0], "namespace", "idle")
        assert cell is not None
        dict.__setitem__(cell.facts, "missed", missed)  # type: ignore[index]
    (group,) = groups_of(analyse(results), "level")
    (found,) = group.findings
    assert (found.change or 0) < -0.2
    texts = [it.text for it in conclude(results)]
    is_better = any(re.search(r"scatters .* (as much|less)", it) for it in texts if "timerfd" in it)
    assert is_better == (not worse)
    assert found.verdict == ("undecided" if worse else "less")
    if worse:
        assert any(f"{worse} of timerfd 50 µs went the other way" in it for it in texts)


def test_times_are_of_what_the_page_shows(tmp_path: Path) -> None:
    """One block is far off: the mean of medians is not the median of all that costs are told by."""

    def drawn(place: making.Place, lots: np.random.Generator, count: int) -> Any:
        centre = 1_000.0
        if place.load == "cpu":
            centre = 100_000.0 if place.block % 5 < 3 else 800_000.0
        return lots.normal(centre, 10, count)

    sleeps = [
        making.Sleeps("sleeper", 1_000_000, 1_000, count=4000, exactly=drawn),
        making.Sleeps("nanosleep", 1_000_000, 50_000, sd=600, loads={"cpu": 5.0}),
    ]
    path = making.folder(
        tmp_path / "run", sleeps=sleeps, levels=["baseline"], loads=("idle", "cpu")
    )
    told = opening(load(path))
    assert re.search(r"sleep ends 1(\.00)? µs \(sleeper 1 ms\)", told[0]), told[0]
    (against,) = (it for it in told if it.startswith("Against"))
    assert re.search(
        r"sleeps end 5\.0 to 100 times as late \(sleeper 1 ms from 1(\.00)? µs to 100 µs\)", against
    ), against


def test_what_is_open_is_told_by_the_difference_that_was_tested(tmp_path: Path) -> None:
    """The ratio's own interval may be far from 1, where that of the difference has 0 in it."""

    def drawn(place: making.Place, lots: np.random.Generator, count: int) -> Any:
        late = 50_000 if place.level == "namespace" and place.block in (1, 3) else 0
        return lots.normal(1_000 + 40 * place.block + late, 10, count)

    sleeps = [making.Sleeps("sleeper", 1_000_000, 1_000, count=2000, exactly=drawn)]
    results = load(making.folder(tmp_path / "run", sleeps=sleeps, blocks=6))
    (text,) = (
        it.text for it in conclude(results) if it.weight < MAIN and "undecided" in it.text.split()
    )
    assert re.search(r"is undecided against the host: \+1\d\.\d µs \(−\S+ to \+\S+ µs\)", text)


def test_what_chance_may_have_done_is_told_as_that(tmp_path: Path) -> None:
    """Where a difference is one by its own test, and none among many."""
    shifts = (1.004, 1.0, 1.0, 1.0, 1.0, 1.0)
    calls = [
        making.Calls(name, 600, steps_sd=1.7, levels={"namespace": shift})
        for name, shift in zip(
            (
                "timer_create",
                "timer_settime",
                "timer_delete",
                "timer_getoverrun",
                "timerfd_create",
                "timerfd_settime",
            ),
            shifts,
            strict=True,
        )
    ]
    for seed in range(40):
        path = making.folder(tmp_path / f"{seed}", calls=calls, blocks=5, seed=seed)
        results = load(path)
        (group,) = groups_of(analyse(results), "level")
        if any(it.among is not None for it in group.findings):
            break
    told = [it.text for it in conclude(results)]
    assert any(re.search(r"may do so by chance among 6 \(p = 0\.\d+ by Holm\)", it) for it in told)
