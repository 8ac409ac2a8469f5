"""Steps of clocks: what is known of them, what is seen of them, and what they hide."""

from pathlib import Path

import making
import numpy as np
import pytest

from eigentime_report.results import load
from eigentime_report.results.cell import averages_out, step_of

COUNT = 400


def seen(values: object, unit: float = 1.0, blocks: int = 4) -> float:
    row = np.asarray(values, dtype=np.float64)
    return step_of(row, np.arange(len(row)) * blocks // len(row), unit)


def scattered(seed: int, centre: float = 5_000, sd: float = 300) -> np.ndarray:
    return np.random.default_rng(seed).normal(centre, sd, COUNT)


@pytest.mark.parametrize("step", [2, 13, 26, 100])
def test_a_grid_is_seen_wherever_it_begins(step: int) -> None:
    grid = np.rint(scattered(1) / step) * step
    for offset in (0, 5, 0.37):
        assert seen(grid + offset) == step
    # Where deadlines are on the grid differs from block to block.
    begin = np.arange(COUNT) * 4 // COUNT * 3
    assert seen(grid + begin) == step


@pytest.mark.parametrize("step", [41.666, 18.518, 69.841])
def test_a_step_that_is_no_whole_number_is_seen(step: float) -> None:
    assert seen(np.floor(np.rint(scattered(2) / step) * step)) == pytest.approx(step, rel=0.01)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [3, 8, 40, COUNT])
def test_no_step_is_seen_where_there_is_none(seed: int, count: int) -> None:
    for sd in (1, 30, 1e5):
        assert seen(np.rint(scattered(seed, 1e6, sd)[:count]), blocks=1) == 1


def test_values_that_do_not_scatter_have_steps_up_to_their_size() -> None:
    assert seen([26.0] * 40, 0.001) == 26
    # Each block has but one, and all of them are on a grid.
    assert seen([26.0] * 20 + [39.0] * 20, blocks=2) == 13
    assert seen([0.0] * 40) == 1
    # Two of them may be equal by chance.
    assert seen([26.0] * 2) == 1


def test_rounding_averages_out_where_values_scatter_over_several_steps() -> None:
    for seed in range(20):
        values = scattered(seed, 5_000 + 7 * seed, 26)
        rounded = np.rint(values / 13) * 13
        assert averages_out(rounded, 13)
        assert rounded.mean() == pytest.approx(values.mean(), abs=1)
    assert not averages_out(np.rint(scattered(1, 25, 3) / 13) * 13, 13)
    # Two sorts of values, each of which is in a single step.
    assert not averages_out(np.repeat([26.0, 65.0], 100), 13)
    assert averages_out(np.array([26.0, 39, 52, 65]), 13, np.array([9, 11, 10, 9]))
    assert averages_out(np.array([26.0]), 0)


def test_cells_know_their_step(tmp_path: Path) -> None:
    folder = making.folder(
        tmp_path / "run",
        calls=[making.Calls("gettimeofday", 25, sd=0.3, calls=1_000)],
        reads=[
            making.Reads("tsc", 25, sd=9, step_ticks=26),
            making.Reads(
                "library",
                25,
                exactly=lambda place, lots, count: np.rint(lots.normal(200, 30, count) / 17) * 17,
            ),
        ],
        sleeps=[
            making.Sleeps(
                "epoll",
                1_000_000,
                0,
                exactly=lambda place, lots, count: (
                    np.rint(lots.normal(50_000, 900, count) / 100) * 100
                ),
            )
        ],
        events=[making.Events("timerfd", 50_000, sd=300)],
        levels=("baseline",),
    )
    results = load(folder)
    steps = {
        it.quantity.subject: it.step_ns
        for quantity in results.quantities
        for it in results.cells(quantity)
    }
    assert steps == pytest.approx(
        {"gettimeofday": 0.001, "tsc": 13, "library": 17, "epoll": 100, "timerfd": 1}
    )
