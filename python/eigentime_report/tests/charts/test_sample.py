import numpy as np
import pytest
from eigentime_report.charts.sample import EXTREMES, Sample, both_ranks, top_ranks

DRAWN = np.random.default_rng(5).lognormal(3, 1, 1_001)


@pytest.fixture
def histogram():
    """Values with counts, and the same written out."""
    random = np.random.default_rng(3)
    values = random.permutation(np.arange(40.0))
    counts = random.integers(0, 9, 40)
    return Sample.of(values, counts), np.repeat(values, counts)


def test_a_sample_leaves_its_values_as_they_are():
    values = np.array([3.0, 1.0, 2.0])
    assert Sample.of(values).values.tolist() == [1, 2, 3]
    assert values.tolist() == [3, 1, 2]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.25, 0.5, 0.9, 0.999, 1.0])
def test_quantiles_are_numpys(share, histogram):
    weighted, written_out = histogram
    for sample, values in (Sample.of(DRAWN), DRAWN), (weighted, written_out):
        expected = np.quantile(values, share, method="inverted_cdf")
        assert sample.quantile(share) == expected
        assert sample.between(share) == pytest.approx(np.quantile(values, share))


def test_counts_are_as_good_as_values_written_out(histogram):
    weighted, written_out = histogram
    plain = Sample.of(written_out)
    limits = [-1.0, 0.0, 3.5, 17.0, 39.0, 40.0]
    assert weighted.count == plain.count == len(written_out)
    assert weighted.mean == pytest.approx(written_out.mean())
    assert weighted.median == np.median(written_out)
    assert weighted.below(limits).tolist() == plain.below(limits).tolist()
    ranks = np.arange(plain.count)
    assert weighted.at_rank(ranks).tolist() == plain.values.tolist()


def test_below_counts_what_is_less():
    sample = Sample.of([1.0, 2.0, 2.0, 3.0])
    assert sample.below([1.0, 2.0, 2.5, 9.0]).tolist() == [0, 1, 3, 4]


def test_what_is_no_finite_number_is_counted_and_left_out():
    values = [1.0, np.nan, np.inf, 2.0]
    assert (Sample.of(values).count, Sample.of(values).lost) == (2, 2)
    weighted = Sample.of(values, [5, 3, 1, 2])
    assert (weighted.count, weighted.lost) == (7, 4)


def test_the_mean_of_equal_values_is_that_value():
    value = 0.1 + 0.2
    assert Sample.of(np.full(1_000, value)).mean == value


@pytest.mark.parametrize("ranks", [top_ranks, both_ranks])
@pytest.mark.parametrize("count", [1, 2, 60, 61, 1_000, 10_000_000])
def test_ranks_have_the_ends_and_the_greatest(ranks, count):
    found = ranks(count, 60)
    assert found[0] == 0 and found[-1] == count - 1
    assert np.all(np.diff(found) > 0)
    assert set(range(max(count - EXTREMES, 0), count)) <= set(found.tolist())
    assert len(found) <= 60 + 2 * EXTREMES


def test_ranks_follow_the_tail():
    from_top = 10_000_000 - top_ranks(10_000_000, 400)
    for decade in 10, 100, 1_000, 10_000, 100_000, 1_000_000:
        assert np.sum((from_top >= decade) & (from_top < 10 * decade)) >= 20
