"""Other libraries' answers, and ours, on values drawn by lot."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from eigentime_report.statistics.description import hedges_g, omega_squared
from eigentime_report.statistics.factorial import factorial
from eigentime_report.statistics.tests import (
    anova,
    critical,
    exceeds,
    games_howell,
    holm,
    summarize,
    tukey_hsd,
    welch_anova,
)

Groups = list[NDArray[np.float64]]

DESIGNS = (
    ((10, 10, 10), (1, 1, 1), (0, 0, 0)),
    ((5, 30, 12, 8), (1, 3, 0.5, 2), (0, 1, 0, -1)),
    ((4, 4), (1, 100), (0, 50)),
    ((40, 9), (1, 1), (1e8, 1e8 + 2)),
)


@pytest.fixture(params=range(len(DESIGNS)))
def groups(request: pytest.FixtureRequest) -> Groups:
    """Normal values, of some design."""
    generator = np.random.default_rng(request.param)
    return [
        generator.normal(mean, sd, n) for n, sd, mean in zip(*DESIGNS[request.param], strict=True)
    ]


def test_statsmodels_analyses_of_variance(groups: Groups) -> None:
    oneway = pytest.importorskip("statsmodels.stats.oneway", reason="needs statsmodels")
    for variances, test in (("equal", anova), ("unequal", welch_anova)):
        expected = oneway.anova_oneway(groups, use_var=variances)
        found = test(groups)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-6)
        assert found.df2 == pytest.approx(expected.df_denom, rel=1e-6)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-5, abs=1e-14)


def test_statsmodels_tukey(groups: Groups) -> None:
    multicomp = pytest.importorskip("statsmodels.stats.multicomp", reason="needs statsmodels")
    values = np.concatenate(groups)
    labels = np.repeat(range(len(groups)), [group.size for group in groups])
    expected = multicomp.MultiComparison(values, labels).tukeyhsd()
    found = {(it.j, it.i): it for it in tukey_hsd(summarize(groups))}
    pairs = zip(*np.triu_indices(len(groups), 1), strict=True)
    for place, (i, j) in enumerate(pairs):
        ours = found[int(i), int(j)]
        assert ours.difference == pytest.approx(expected.meandiffs[place], rel=1e-6)
        low, high = expected.confint[place]
        # Its critical values are interpolated.
        assert ours.low == pytest.approx(low, rel=2e-3, abs=2e-3)
        assert ours.high == pytest.approx(high, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("equal", [True, False])
def test_scipy_pairs(groups: Groups, equal: bool) -> None:
    expected = stats.tukey_hsd(*groups, equal_var=equal)
    # scipy takes seconds for more of them.
    interval = expected.confidence_interval() if len(groups) < 3 else None
    for ours in (tukey_hsd if equal else games_howell)(summarize(groups)):
        at = ours.i, ours.j
        assert ours.difference == pytest.approx(expected.statistic[at], rel=1e-6)
        assert ours.p == pytest.approx(expected.pvalue[at], rel=1e-6, abs=1e-10)
        if interval:
            assert ours.low == pytest.approx(interval.low[at], rel=1e-6)
            assert ours.high == pytest.approx(interval.high[at], rel=1e-6)


def test_statsmodels_adjusts_as_we_do(monkeypatch: pytest.MonkeyPatch) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="needs statsmodels")
    # It does so each time, which takes a tenth of a second.
    monkeypatch.setattr("gc.collect", lambda: 0)
    for seed in range(20):
        raw = np.random.default_rng(seed).random(7) ** 3
        expected = multitest.multipletests(raw, method="holm")[1]
        assert holm(list(raw)) == pytest.approx(expected)


@pytest.mark.parametrize("k", [2, 3, 4, 7])
@pytest.mark.parametrize("df", [1, 2.4, 5, 30, 400])
def test_studentized_range_is_scipys(k: int, df: float) -> None:
    for q in (0.5, 2.0, 4.5, 11.0):
        expected = stats.studentized_range.sf(q, k, df)
        assert exceeds(q, k, df) == pytest.approx(expected, rel=1e-7, abs=1e-8)
    found = critical(0.05, k, df)
    assert stats.studentized_range.sf(found, k, df) == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("distance", [0.5, 40.0, 999.0, 1001.0, 1e5])
def test_intervals_of_effects_are_those_of_noncentral_t_and_f(distance: float) -> None:
    """Also beyond where scipy's series end."""
    row = np.random.default_rng(6).normal(0, 1, 21)
    row = (row - row.mean()) / row.std(ddof=1)
    unit = np.sqrt(2 / 21)
    found = hedges_g(row + distance * unit, row)
    # Where nothing but the scatter of the deviation matters, t is the noncentrality by it.
    low, high = distance * np.sqrt(stats.chi2.ppf((0.025, 0.975), 40) / 40)
    if distance < 100:
        assert found.low is not None and found.high is not None
        for end, share in ((found.low, 0.975), (found.high, 0.025)):
            p = stats.nct.cdf(distance, 40, end / unit)
            assert p == pytest.approx(share, abs=1e-5)
    else:
        assert found.low == pytest.approx(low * unit, rel=1e-4)
        assert found.high == pytest.approx(high * unit, rel=1e-4)
    omega = omega_squared(distance**2, 1, 40, 42)
    assert omega.low is not None and omega.value is not None and omega.high is not None
    assert omega.low <= omega.value <= omega.high < 1
    if distance > 100:
        assert omega.low == pytest.approx(low**2 / (low**2 + 42), rel=1e-6)


def test_two_cells_are_welchs_t_of_ranks() -> None:
    generator = np.random.default_rng(4)
    a, b = generator.integers(0, 9, 14), generator.integers(2, 20, 14)
    ranks = stats.rankdata(np.concatenate((a, b)))
    expected = stats.ttest_ind(ranks[:14], ranks[14:], equal_var=False)
    labels = ["a"] * 14 + ["b"] * 14
    (found,) = factorial(np.concatenate((a, b)), {"level": labels})
    assert found.statistic == pytest.approx(expected.statistic**2)
    assert found.df2 == pytest.approx(expected.df)
    assert found.p == pytest.approx(expected.pvalue)


def test_scatter_of_relative_effects_is_brunner_and_munzels() -> None:
    """Of two cells, the difference of their relative effects by its error is their statistic."""
    from eigentime_report.statistics.factorial import _Cells, _Design

    generator = np.random.default_rng(5)
    a, b = generator.normal(0, 1, 12), generator.normal(0.5, 3, 20)
    values = np.concatenate((a, b))
    design = _Design.of({"level": ["a"] * 12 + ["b"] * 20})
    cells = _Cells.of(values, design)
    contrast = np.array([-1.0, 1.0])
    error = np.sqrt(contrast @ cells.covariance @ contrast)
    expected = stats.brunnermunzel(a, b).statistic
    assert contrast @ cells.relative / error == pytest.approx(expected)
