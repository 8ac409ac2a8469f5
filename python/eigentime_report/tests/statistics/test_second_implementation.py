"""Other libraries' answers, and ours, on values drawn by lot."""

from itertools import pairwise

import numpy as np
import pytest
from eigentime_report.statistics import (
    anova,
    dunn,
    games_howell,
    kruskal,
    levene,
    tukey_hsd,
    welch_anova,
)
from eigentime_report.statistics.factorial import factorial
from eigentime_report.statistics.noncentral import f_below, t_below
from eigentime_report.statistics.studentized_range import critical, exceeds
from numpy.typing import NDArray
from scipy import stats

Groups = list[NDArray[np.float64]]

DESIGNS = (
    ((10, 10, 10), (1, 1, 1), (0, 0, 0)),
    ((5, 30, 12, 8), (1, 3, 0.5, 2), (0, 1, 0, -1)),
    ((200, 200, 200), (2.6, 2.4, 1.9), (129.9, 133.4, 133.0)),
    ((4, 4), (1, 100), (0, 50)),
    ((40, 3, 9, 17, 6), (1, 1, 1, 1, 1), (1e8, 1e8, 1e8, 1e8 + 1, 1e8 + 2)),
)


@pytest.fixture(params=range(len(DESIGNS)))
def groups(request: pytest.FixtureRequest) -> Groups:
    """Normal values, of some design."""
    generator = np.random.default_rng(request.param)
    return [
        generator.normal(mean, sd, n)
        for n, sd, mean in zip(*DESIGNS[request.param], strict=True)
    ]


def test_statsmodels_analyses_of_variance(groups: Groups) -> None:
    oneway = pytest.importorskip("statsmodels.stats.oneway", reason="needs statsmodels")
    for variances, test in (("equal", anova), ("unequal", welch_anova)):
        expected = oneway.anova_oneway(groups, use_var=variances)
        found = test(groups)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-6)
        assert found.df2 == pytest.approx(expected.df_denom, rel=1e-6)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-5, abs=1e-14)


def test_statsmodels_levene(groups: Groups) -> None:
    oneway = pytest.importorskip("statsmodels.stats.oneway", reason="needs statsmodels")
    for centre in ("median", "mean"):
        expected = oneway.test_scale_oneway(
            groups, method="equal", center=centre, transform="abs"
        )
        found = levene(groups, centre)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-6)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-5)


def test_statsmodels_tukey(groups: Groups) -> None:
    multicomp = pytest.importorskip(
        "statsmodels.stats.multicomp", reason="needs statsmodels"
    )
    values = np.concatenate(groups)
    labels = np.repeat(range(len(groups)), [group.size for group in groups])
    expected = multicomp.MultiComparison(values, labels).tukeyhsd()
    found = {(it.j, it.i): it for it in tukey_hsd(groups)}
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
    interval = expected.confidence_interval()
    for ours in (tukey_hsd if equal else games_howell)(groups):
        at = ours.i, ours.j
        assert ours.difference == pytest.approx(expected.statistic[at], rel=1e-6)
        assert ours.p == pytest.approx(expected.pvalue[at], rel=1e-6, abs=1e-10)
        assert ours.low == pytest.approx(interval.low[at], rel=1e-6)
        assert ours.high == pytest.approx(interval.high[at], rel=1e-6)


def test_scipy_analyses_of_variance(groups: Groups) -> None:
    for equal, test in ((True, anova), (False, welch_anova)):
        expected = stats.f_oneway(*groups, equal_var=equal)
        found = test(groups)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-6)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-5)


def test_statsmodels_adjusts_as_we_do(groups: Groups) -> None:
    multitest = pytest.importorskip(
        "statsmodels.stats.multitest", reason="needs statsmodels"
    )
    raw = [it.p for it in dunn(groups, "none")]
    for adjust in ("holm", "bonferroni"):
        expected = multitest.multipletests(raw, method=adjust)[1]
        assert [it.p for it in dunn(groups, adjust)] == pytest.approx(expected)


def test_dunn_of_two_groups_is_kruskal_wallis(groups: Groups) -> None:
    for two in pairwise(groups):
        (pair,), whole = dunn(list(two)), kruskal(list(two))
        assert pair.statistic is not None
        assert pair.statistic**2 == pytest.approx(whole.statistic)
        assert pair.p == pytest.approx(whole.p)


@pytest.mark.parametrize("k", [2, 3, 4, 7])
@pytest.mark.parametrize("df", [1, 2.4, 5, 30, 400])
def test_studentized_range_is_scipys(k: int, df: float) -> None:
    for q in (0.5, 2.0, 4.5, 11.0):
        expected = stats.studentized_range.sf(q, k, df)
        assert float(exceeds(q, k, df)) == pytest.approx(expected, rel=1e-8, abs=1e-11)
    found = float(critical(0.05, k, df)[0])
    assert stats.studentized_range.sf(found, k, df) == pytest.approx(0.05, rel=1e-7)


def test_studentized_range_of_two_is_students_t() -> None:
    """Also where scipy and R say 0."""
    for df in (3.0, 12.5, 250.0):
        t = np.array([0.1, 2.0, 9.0, 16.0])
        found = exceeds(t * np.sqrt(2), 2, np.full(4, df))
        assert found == pytest.approx(2 * stats.t.sf(t, df), rel=1e-7)


@pytest.mark.parametrize("df", [2.0, 9.5, 60.0, 500.0])
def test_noncentral_t_is_scipys(df: float) -> None:
    for t, noncentrality in ((0.0, 1.0), (0.3, -1.0), (2.5, 1.0), (-4.0, -6.0)):
        expected = stats.nct.cdf(t, df, noncentrality)
        assert t_below(t, df, noncentrality) == pytest.approx(expected, abs=1e-9)


def test_noncentral_t_far_out() -> None:
    """Where nothing but the scatter of the deviation matters: t is the noncentrality by it."""
    t, df = 1e6, 20.0
    for probability in (0.025, 0.5, 0.975):
        noncentrality = t * np.sqrt(stats.chi2.isf(probability, df) / df)
        found = t_below(t, df, float(noncentrality))
        assert found == pytest.approx(probability, abs=1e-5)


@pytest.mark.parametrize("df2", [4.0, 27.3, 600.0])
def test_noncentral_f_is_scipys(df2: float) -> None:
    for f, df1, noncentrality in ((0.5, 2, 0.0), (3.0, 2, 4.0), (50.0, 5, 180.0)):
        expected = stats.ncf.cdf(f, df1, df2, noncentrality)
        assert f_below(f, df1, df2, noncentrality) == pytest.approx(expected, abs=1e-9)


def test_noncentral_f_far_out() -> None:
    """The normal approximation takes over without a step, and is right where F is huge."""
    below, above = (f_below(5100.0, 2, 60.0, nc) for nc in (9999.999, 10000.001))
    assert below == pytest.approx(above, abs=2e-6)
    f, df1, df2 = 1e8, 3, 20.0
    noncentrality = f * df1 * stats.chi2.isf(0.3, df2) / df2
    assert f_below(f, df1, df2, noncentrality) == pytest.approx(0.3, abs=1e-4)


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
