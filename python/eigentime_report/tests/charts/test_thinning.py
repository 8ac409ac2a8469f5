"""Points that nobody would miss are left out, and others are not."""

import numpy as np
import pytest
from eigentime_report.charts.thinning import needed


def test_a_straight_line_needs_its_ends_alone():
    x = np.linspace(0, 9, 100)
    assert np.flatnonzero(needed(x, 3 * x - 2, 1e-9)).tolist() == [0, 99]


def test_corners_are_kept():
    x = np.arange(10.0)
    y = np.where(x < 4, 0.0, x - 4)
    assert np.flatnonzero(needed(x, y, 1e-9)).tolist() == [0, 4, 9]


@pytest.mark.parametrize("tolerance", [0.2, 0.01, 0.001])
def test_the_line_is_never_further_away_than_the_tolerance(tolerance):
    x = np.sort(np.random.default_rng(3).uniform(0, 1, 500))
    y = np.exp(-((x - 0.3) ** 2) / 0.001) + 0.3 * np.exp(-((x - 0.7) ** 2) / 0.01)
    kept = needed(x, y, tolerance)
    assert 2 < kept.sum() < 150
    assert np.abs(np.interp(x, x[kept], y[kept]) - y).max() <= tolerance


@pytest.mark.parametrize("count", [1, 2])
def test_few_points_are_all_needed(count):
    x = np.arange(float(count))
    assert needed(x, x, 0.1).all()
