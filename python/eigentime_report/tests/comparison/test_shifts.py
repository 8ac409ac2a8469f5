"""Statistics of two cells: their values, and how often chance alone is taken for a change."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import making
import numpy as np
import pytest

from eigentime_report import cli
from eigentime_report.comparison.changes import STATISTICS, Shift, Untold, measure, shift
from eigentime_report.results import Cell, load

BLOCKS = 10
NAME = "sleep/epoll/1ms/other/slack=50us"


def cells(
    path: Path, seed: int, *, times: float = 1.0, count: int = 3_000, number: int = 1
) -> list[Cell]:
    """Sleeps with a long tail, whose blocks differ: at so many levels that do not."""
    sleeps = making.Sleeps(
        method="epoll",
        interval_ns=1_000_000,
        centre=60_000 * times,
        sd=6_000 * times,
        shape="lognormal",
        steps_sd=300,
        count=count,
    )
    levels = [f"level {place}" for place in range(number)]
    folder = making.folder(
        path / f"{seed}", sleeps=[sleeps], levels=levels, blocks=BLOCKS, seed=seed
    )
    return load(folder).cells(NAME)


def cell(path: Path, seed: int, **options: Any) -> Cell:
    """The same at one level."""
    (found,) = cells(path, seed, **options)
    return found


def is_significant(found: Shift) -> bool:
    """Whether the interval leaves out that nothing has changed."""
    low, high = found.shares or (found.low, found.high)
    return not low <= 0 <= high


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cell, Cell]:
    path = tmp_path_factory.mktemp("both")
    return cell(path, 1, count=30_000), cell(path, 2, times=1.25, count=30_000)


# Chance has its share; more than this of so many would come in one of a thousand such tests.
TRIALS, MOST = 60, 10


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    path = tmp_path_factory.mktemp("unchanged")
    return cells(path, 3, count=1_500, number=TRIALS + 1)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_statistic_is_what_it_is_called(both: tuple[Cell, Cell], statistic: str) -> None:
    own, _ = both
    values = own.values
    blocks = [values[own.blocks == block] for block in range(BLOCKS)]
    expected = {
        "mean": values.mean(),
        "median": np.median(values),
        "p90": np.quantile(values, 0.9),
        "p99": np.quantile(values, 0.99),
        "p99.9": np.quantile(values, 0.999),
        "max": values.max(),
        "min": values.min(),
        "sd": np.mean([it.std(ddof=1) for it in blocks]),
        "mad": np.mean([np.median(np.abs(it - np.median(it))) for it in blocks]),
    }
    found = measure(statistic, own, 0.95)
    assert found.value == pytest.approx(expected[statistic])
    assert found.low <= found.value <= found.high
    assert (found.low < found.high) == (statistic not in ("max", "min"))


@pytest.mark.parametrize("statistic", ["mean", "median", "p90", "p99", "sd", "mad"])
def test_what_is_a_quarter_more_is_seen(both: tuple[Cell, Cell], statistic: str) -> None:
    found = shift(statistic, *both, 0.95)
    assert is_significant(found)
    assert found.low is not None and found.high is not None
    assert 0 < found.low < found.difference < found.high
    assert found.percents[0] == pytest.approx(25, abs=5)


@pytest.mark.parametrize("statistic", ["mean", "median", "p90", "p99", "max", "sd", "mad"])
def test_chance_is_seldom_taken_for_a_change(unchanged: list[Cell], statistic: str) -> None:
    wrong = sum(is_significant(shift(statistic, *pair, 0.95)) for pair in pairwise(unchanged))
    assert wrong <= MOST


def test_percent_of_nothing_cannot_be_told(tmp_path: Path) -> None:
    events = making.Events(source="timerfd", interval_ns=50_000, centre=-500, sd=100)
    folder = making.folder(tmp_path / "events", events=[events], levels=("a",))
    own = load(folder).cell("events/timerfd/50us", "a", "idle")
    assert own is not None
    found = shift("median", own, own, 0.95)
    assert not is_significant(found)
    with pytest.raises(Untold, match="percent say nothing"):
        _ = found.percents


@pytest.mark.parametrize(("statistic", "least"), [("p90", 36), ("p99", 368), ("p99.9", 3_688)])
def test_quantiles_need_as_many_samples_as_help_says(
    tmp_path: Path, statistic: str, least: int
) -> None:
    enough, few = (cell(tmp_path, count, count=count) for count in (least, least - 1))
    assert measure(statistic, enough, 0.95).value > 0
    with pytest.raises(Untold, match="too few") as untold:
        measure(statistic, few, 0.95)
    assert f"it takes {least:,} at 95 %" in str(untold.value)
    assert "`eigentime bench --count N`" in str(untold.value)
    assert f"{least:,}" in cli.NOTES


def test_no_change_of_a_quantile_is_more_than_all_of_it(tmp_path: Path) -> None:
    """A long tail makes differences uncertain by more than there is; what takes time takes some."""
    sides = [
        making.folder(
            tmp_path / name,
            sleeps=[
                making.Sleeps(
                    method="epoll",
                    interval_ns=1_000_000,
                    centre=60_000,
                    sd=90_000,
                    shape="lognormal",
                    steps_sd=20_000,
                    count=1_000,
                )
            ],
            levels=("a",),
            blocks=5,
            seed=seed,
        )
        for name, seed in (("before", 1), ("after", 2))
    ]
    before, after = (load(it).cell(NAME, "a", "idle") for it in sides)
    assert before and after
    for statistic in ("median", "p90", "p99"):
        found = shift(statistic, before, after, 0.95)
        change = found.difference / found.before
        if found.shares is None:
            continue
        assert -1 < found.shares[0] < change < found.shares[1]
    assert shift("p99", before, after, 0.95).shares is not None
