"""Conditions on folders whose differences are known."""

from pathlib import Path
from typing import Any

import making
import numpy as np
import pytest
from comparison import folders
from comparison.folders import VDSO

from eigentime_report.comparison import Outcome, changes_table, compare_results, judge, parse
from eigentime_report.results import Results, load

REACHED, MISSED, NOT_JUDGED = Outcome.REACHED, Outcome.MISSED, Outcome.NOT_JUDGED
UNDECIDED = Outcome.UNDECIDED

Both = tuple[Results, Results]


def outcomes(both: Both, condition: str) -> list[Outcome]:
    return [it.outcome for it in judge([parse(condition)], *both)]


def reason(both: Both, condition: str) -> str:
    (judgement,) = judge([parse(condition)], *both)
    assert judgement.outcome is NOT_JUDGED
    return judgement.text


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        (f"{VDSO} > +5%", MISSED),
        (f"{VDSO} > +20%", REACHED),
        (f"{VDSO} < -5%", REACHED),
        ("clock_getres < -5%", MISSED),
        ("clock_getres > +5%", REACHED),
        ("timer_create > +1%", REACHED),
        ("timer_create < -1%", REACHED),
        (f"{VDSO} > +1ns", MISSED),
        (f"{VDSO} > +2ns", REACHED),
        (f"{VDSO} > 21ns", MISSED),
        (f"{VDSO} > 22ns", REACHED),
        (f"{VDSO} < 22ns", MISSED),
        ("clock_getres >= 120ns", REACHED),
    ],
)
def test_outcomes_are_those_of_the_known_changes(
    both: Both, condition: str, outcome: Outcome
) -> None:
    found = outcomes(both, condition)
    # Two levels under two loads.
    assert found == [outcome] * 4


@pytest.mark.parametrize("statistic", ["mean", "median", "p90", "p99", "max", "min", "sd", "mad"])
def test_each_statistic_of_sleeps_is_judged(both: Both, statistic: str) -> None:
    quantity = "sleep/nanosleep/1ms"
    assert NOT_JUDGED not in outcomes(both, f"{statistic} {quantity} > +50%")
    # They came 4.8 µs later, and scatter as before, as far as so few can show.
    found = outcomes(both, f"{statistic} {quantity} > +5%")
    if statistic in ("sd", "mad"):
        assert MISSED not in found
    else:
        assert found == [MISSED] * 4


def test_a_change_that_may_be_chance_does_not_fail(tmp_path: Path) -> None:
    """The mean has grown, and far less than the blocks differ."""
    blocks = [0, 30, -30, 10, -10, 20, -20, 5, -5, 0]
    sides = [
        load(
            making.folder(
                tmp_path / name,
                calls=[
                    making.Calls(
                        metric="clock_getres", centre=centre, sd=1, records=100, blocks=blocks
                    )
                ],
                levels=("baseline",),
                run=name,
            )
        )
        for name, centre in (("before", 100.0), ("after", 107.0))
    ]
    (judgement,) = judge([parse("clock_getres > +5%")], *sides)
    assert judgement.outcome is UNDECIDED
    assert "the limit is within the interval: more blocks would decide" in judgement.text


def test_what_is_missing_afterwards_does_not_pass(tmp_path: Path) -> None:
    sides = (
        load(folders.folder(tmp_path / "before", seed=1)),
        load(folders.folder(tmp_path / "after", seed=2, levels=("baseline",))),
    )
    found = judge([parse(f"{VDSO} > +5%")], *sides)
    assert {(it.level, it.load, it.outcome) for it in found} == {
        ("baseline", "idle", REACHED),
        ("baseline", "cpu", REACHED),
        ("namespace", "idle", NOT_JUDGED),
        ("namespace", "cpu", NOT_JUDGED),
    }
    (missing, _) = (it for it in found if it.outcome is NOT_JUDGED)
    assert missing.text == "it was measured before, and is missing afterwards"


def test_level_and_load_can_be_chosen(both: Both) -> None:
    (judgement,) = judge([parse(f"{VDSO}@level=namespace,load=cpu > +5%")], *both)
    assert judgement.outcome is MISSED
    assert (judgement.level, judgement.load) == ("namespace", "cpu")
    said = str(judgement)
    assert said.startswith(
        f"missed: {VDSO}@level=namespace,load=cpu > +5%: calls/{VDSO} at namespace, cpu: mean"
    )
    assert "before" in said and "+8" in said and "95 % interval" in said


def test_parts_of_a_name_select_all_that_have_them(both: Both) -> None:
    found = judge([parse("calls@level=baseline,load=idle > +5%")], *both)
    assert {it.quantity.subject: it.outcome for it in found if it.quantity} == {
        VDSO: MISSED,
        "clock_getres": REACHED,
        "timer_create": REACHED,
    }


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("vdso_clock_getime_monotonic > +5%", f"near it: {VDSO}"),
        ("sleep/nanosleep/2ms > +5%", "near it: 1ms"),
        ("read/nanosleep > +5%", "sleep/nanosleep/1ms"),
        ("vdso_clock > +5%", f"near it: {VDSO}"),
        ("zzz > +5%", "there are calls/"),
        (f"{VDSO}@level=vm > +5%", "there is no level 'vm'"),
        (f"{VDSO}@load=io > +5%", "there is no load 'io'"),
    ],
)
def test_what_was_not_measured_is_said_with_what_was(both: Both, condition: str, said: str) -> None:
    assert said in reason(both, condition)


def test_a_change_takes_two_folders(both: Both) -> None:
    (judgement,) = judge([parse(f"{VDSO} > +5%")], None, both[1])
    assert judgement.outcome is NOT_JUDGED
    assert "two folders" in judgement.text
    values = judge([parse(f"{VDSO} > 21ns")], None, both[1])
    assert {it.outcome for it in values} == {MISSED}


def test_too_few_values_are_not_judged(tmp_path: Path) -> None:
    def few(name: str) -> Results:
        sleeps = making.Sleeps(
            method="epoll", interval_ns=1_000_000, centre=60_000, sd=900, count=8
        )
        path = tmp_path / name
        return load(making.folder(path, sleeps=[sleeps], blocks=1, levels=("baseline",), run=name))

    both = few("before"), few("after")
    assert "in 1 block before and 1 afterwards" in reason(both, "epoll > +5%")
    assert "it takes 3" in reason(both, "mean epoll > +5%")
    assert "it takes 5" in reason(both, "epoll > +5%")
    assert "it takes 5" in reason(both, "p99.9 epoll > +5%")
    assert "in 1 block, and it takes 3" in reason(both, "p99 epoll > 1s")


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_values_are_judged_from_three_blocks(tmp_path: Path, blocks: int) -> None:
    """With fewer, what drifts between steps would fail; extremes are what was seen."""
    calls = making.Calls(metric="clock_getres", centre=100.0, sd=1, records=30)
    path = making.folder(tmp_path / "run", calls=[calls], levels=("baseline",), blocks=blocks)
    both = (load(path), load(path))

    def outcome(condition: str) -> Outcome:
        (judgement,) = judge([parse(condition)], None, both[0])
        return judgement.outcome

    is_enough = blocks == 3
    for statistic in ("", "median ", "sd "):
        failing = f"{statistic}clock_getres >= 0.1ns"
        assert outcome(failing) is (MISSED if is_enough else NOT_JUDGED)
    assert outcome("clock_getres > 1ms") is (REACHED if is_enough else NOT_JUDGED)
    assert outcome("max clock_getres > 90ns") is MISSED
    if not is_enough:
        assert "to tell a value from drift" in reason(both, "clock_getres > 1ms")


def test_too_few_samples_have_no_tail(tmp_path: Path) -> None:
    sleeps = making.Sleeps(method="epoll", interval_ns=1_000_000, centre=60_000, sd=900, count=9)
    path = making.folder(tmp_path / "run", sleeps=[sleeps], blocks=3, levels=("baseline",))
    results = load(path)
    assert "too few" in reason((results, results), "p99 epoll > 1s")


def test_the_greatest_of_more_samples_is_no_change(tmp_path: Path) -> None:
    def of(name: str, count: int) -> Results:
        sleeps = making.Sleeps(
            method="epoll", interval_ns=1_000_000, centre=60_000, sd=900, count=count
        )
        path = tmp_path / name
        return load(making.folder(path, sleeps=[sleeps], levels=("baseline",), run=name))

    both = of("before", 400), of("after", 4_000)
    assert "400 before and 4,000 afterwards" in reason(both, "max epoll > +5%")
    assert outcomes(both, "max epoll > 1ms") == [REACHED]
    assert outcomes(both, "max epoll > 60us") == [MISSED]
    assert outcomes(both, "median epoll > +5%") == [REACHED]


def test_percent_of_nothing_is_not_judged(both: Both) -> None:
    """The median deviation of a timer that keeps its interval is 0 or less, or a little more."""
    found = judge([parse("min events/timerfd > +5%")], *both)
    assert {it.outcome for it in found} == {NOT_JUDGED}
    assert all("+100ns" in it.text for it in found)
    assert outcomes(both, "min events/timerfd > +100us") == [REACHED] * 4


def test_one_disturbed_block_decides_nothing(tmp_path: Path) -> None:
    """Two records a block: their medians are means, and one block of five is far off."""
    sides = [
        load(
            making.folder(
                tmp_path / name,
                calls=[making.Calls(VDSO, 21.7, sd=0.1, records=10, blocks=blocks)],
                levels=("baseline",),
                blocks=5,
                run=name,
            )
        )
        for name, blocks in (("before", [0.0] * 5), ("after", [0, 0.2, 28, 0.1, 0.1]))
    ]
    (median,) = judge([parse(f"median {VDSO} > +5ns")], *sides)
    # Three of five draws may be of that block: it does not decide, and is not overlooked.
    assert median.outcome is UNDECIDED
    cell = sides[1].cell(f"calls/{VDSO}", "baseline", "idle")
    assert cell and f"{cell.median:.1f} ns afterwards" in median.text
    (mean,) = judge([parse(f"mean {VDSO} > +5ns")], *sides)
    assert mean.outcome is UNDECIDED
    (row,) = changes_table(compare_results(*sides), "calls").rows
    assert row.cells[-1] == pytest.approx(cell.median)


@pytest.mark.parametrize("times", [1.5, 3.0])
def test_one_block_far_away_hides_no_change(tmp_path: Path, times: float) -> None:
    """A test of means sees nothing then, and the interval that is told leaves out 0."""

    def results(name: str, factor: float, far: float) -> Results:
        def values(place: Any, lots: np.random.Generator, count: int) -> Any:
            off = far if place.block == 4 else 0.0
            return 25 * factor + lots.normal(0, 0.3, count) + off

        calls = [making.Calls(VDSO, 25, exactly=values)]
        made = making.folder(tmp_path / name, calls=calls, levels=["baseline"], blocks=10)
        return load(made)

    both = results("before", 1.0, 0.0), results("after", times, 500.0)
    (judgement,) = judge([parse(f"{VDSO} > +5%")], *both)
    assert judgement.outcome is MISSED, judgement.text
