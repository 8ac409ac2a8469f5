"""Validated values, and confidence intervals of quantiles and means."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import ceil, floor, inf
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from eigentime_report.verdicts import SEED, percentile_share, times_drawn

Values: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

# Values closer to each other than this, relative to their size, differ only by rounding.
ROUNDING = 8 * float(np.finfo(np.float64).eps)


def usable(values: ArrayLike) -> Values:
    """The values as an array of floats; ValueError says why they cannot be used."""
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"values are a single row, not an array of shape {row.shape}")
    if row.size == 0:
        raise ValueError("there are no values")
    if wrong := row.size - int(np.isfinite(row).sum()):
        raise ValueError(f"{wrong} of {row.size} values are not finite")
    return row


def is_constant(values: Values, size: float = 0.0) -> bool:
    """Whether all values are equal, except for rounding."""
    low, high = float(values.min()), float(values.max())
    return high - low <= ROUNDING * max(abs(low), abs(high), size)


@dataclass(frozen=True)
class Summary:
    """A group's size, mean and corrected standard deviation, which is 0 for a single value."""

    n: int
    mean: float
    sd: float

    @classmethod
    def of(cls, values: Values) -> "Summary":
        """From usable values; the rounding error of a constant is no scatter."""
        if is_constant(values):
            return cls(values.size, float(values[0]), 0.0)
        return cls(values.size, float(values.mean()), float(values.std(ddof=1)))

    @property
    def variance(self) -> float:
        """The corrected variance."""
        return self.sd * self.sd

    @property
    def error(self) -> float:
        """The variance of the mean."""
        return self.variance / self.n


@dataclass(frozen=True, eq=False)
class Ordered:
    """Sorted values, with cumulative counts."""

    values: Values
    through: Counts

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None) -> "Ordered":
        """Sorts values; a weight of 0 omits its value."""
        row = usable(values)
        if weights is None:
            return cls(np.sort(row), np.arange(1, row.size + 1))
        counts = np.asarray(weights, dtype=np.int64)
        if counts.shape != row.shape or counts.min() < 0 or not counts.any():
            raise ValueError(f"{row.size} values need as many weights, some above 0")
        order = np.argsort(row, kind="stable")
        order = order[counts[order] > 0]
        return cls(row[order], np.cumsum(counts[order]))

    @property
    def n(self) -> int:
        """The number of values."""
        return int(self.through[-1])

    @property
    def counts(self) -> Counts:
        """The frequency of each value."""
        return np.diff(self.through, prepend=0)

    def at(self, ranks: ArrayLike) -> Values:
        """The values with these ranks; the lowest has rank 0."""
        if self.n == self.values.size:
            return np.asarray(self.values[np.asarray(ranks)])
        return self.values[np.searchsorted(self.through, ranks, side="right")]

    def up_to(self, limit: float) -> int:
        """The number of values that do not exceed a limit."""
        found = int(self.values.searchsorted(limit, side="right"))
        return int(self.through[found - 1]) if found else 0

    def below(self, limits: ArrayLike) -> Counts:
        """The number of values below each of the limits."""
        places = np.searchsorted(self.values, limits, side="left")
        return np.concatenate([[0], self.through])[places].astype(np.int64)

    def reached_by(self, share: float) -> float:
        """The lowest value that at least this share of all does not exceed (type 1)."""
        return float(self.at(max(ceil(share * self.n) - 1, 0)))

    def quantile(self, q: float) -> float:
        """Interpolated linearly between the ranks, like numpy's (Hyndman and Fan's type 7)."""
        position = (self.n - 1) * q
        below = int(position)
        low, high = self.at([below, min(below + 1, self.n - 1)])
        return float(low + (position - below) * (high - low))


DRAWS = 4000

# Fewer blocks do not show how much they differ.
FEWEST_BLOCKS = 5


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval; an unknown end is None."""

    value: float
    low: float | None
    high: float | None
    note: str = ""

    def times(self, factor: float) -> "Interval":
        """The same in another unit."""
        low, high = (None if it is None else factor * it for it in (self.low, self.high))
        return replace(self, value=factor * self.value, low=low, high=high)

    def shifted(self, by: float) -> "Interval":
        """The same with another origin."""
        low, high = (None if it is None else by + it for it in (self.low, self.high))
        return replace(self, value=by + self.value, low=low, high=high)

    def widened(self, by: float, least: float = -inf) -> "Interval":
        """The same plus this uncertainty, regardless of scatter; nothing is below the minimum."""
        low = None if self.low is None else max(self.low - by, least)
        high = None if self.high is None else self.high + by
        return replace(self, low=low, high=high)

    def is_within(self, limit: float) -> bool:
        """Whether it is certainly no further from 0 than this."""
        if self.low is None or self.high is None:
            return False
        return -limit <= self.low and self.high <= limit

    @property
    def leaves_out_zero(self) -> bool:
        """Whether it does not contain 0."""
        return (self.low or 0.0) > 0 or (self.high or 0.0) < 0


def t_beyond(alpha: float, df: float) -> float:
    """Student's t that is exceeded with probability alpha: scipy.stats takes 40 times as long."""
    return float(-special.stdtrit(df, alpha))


def mean_interval(values: ArrayLike, confidence: float = 0.99) -> Interval:
    """Student's interval of the mean of independent values."""
    row = usable(values)
    mean = float(row.mean())
    if row.size < 2:
        why = "a single value does not tell how far the mean is off"
        return Interval(mean, None, None, why)
    if is_constant(row):
        return Interval(mean, mean, mean, "all values are the same")
    error = float(row.std(ddof=1)) / row.size**0.5
    reach = t_beyond((1 - confidence) / 2, row.size - 1) * error
    return Interval(mean, mean - reach, mean + reach)


def quantile_interval(
    values: ArrayLike,
    q: float,
    weights: ArrayLike | None = None,
    blocks: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
) -> Interval:
    """The bootstrap interval of a quantile: of whole blocks where there are five or more."""
    return quantile_intervals(values, (q,), weights, blocks, confidence=confidence)[q]


def quantile_intervals(
    values: ArrayLike,
    quantiles: tuple[float, ...],
    weights: ArrayLike | None = None,
    blocks: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
) -> dict[float, Interval]:
    """The same for several quantiles, with the values sorted once."""
    row = usable(values)
    counts = None if weights is None else np.asarray(weights)
    labels = np.zeros(row.size) if blocks is None else np.asarray(blocks)
    present = np.unique(labels)
    within = []
    if present.size >= FEWEST_BLOCKS:
        parts = [labels == block for block in present]
        within = [Ordered.of(row[it], None if counts is None else counts[it]) for it in parts]
    ordered = Ordered.of(row, counts)
    note = ""
    if 1 < present.size < FEWEST_BLOCKS:
        note = f"how much blocks differ is not in it: {present.size} are too few"
    return {q: _interval(ordered, within, q, confidence, note) for q in quantiles}


def _interval(
    ordered: Ordered, blocks: list[Ordered], q: float, confidence: float, note: str
) -> Interval:
    """The percentile interval of the draws; an end for which n is too small is None."""
    alpha, n, value = (1 - confidence) / 2, ordered.n, ordered.quantile(q)
    if blocks:
        low, high = _block_ends(ordered, blocks, q, confidence)
    else:
        low, high = np.quantile(_rank_draws(ordered, q, SEED), (alpha, 1 - alpha))
    # With that confidence, some value must be below the quantile, and some above it.
    has_low, has_high = (1 - q) ** n <= alpha, q**n <= alpha
    if not (has_low and has_high):
        few = f"{n} values are too few for both ends at {100 * confidence:.4g} %"
        note = "; ".join(filter(None, (few, note)))
    return Interval(
        value,
        min(float(low), value) if has_low else None,
        max(float(high), value) if has_high else None,
        note,
    )


def _block_ends(
    ordered: Ordered, blocks: list[Ordered], q: float, confidence: float
) -> tuple[float, float]:
    """The values between which a draw's quantile lies, except for a share of the draws at either
    end.

    Whole blocks are drawn, and nothing within them (Davison and Hinkley 1997, section 3.8). A
    draw's quantile does not exceed a value if enough of the drawn values do not: so draws are
    only counted, at the few values that a search tries.
    """
    drawn = times_drawn(len(blocks), DRAWS, SEED)
    # Sums of whole numbers are exact, the product with q is not.
    wanted = drawn @ [q * block.n for block in blocks] * (1 - 1e-12)

    @cache
    def reached(place: int) -> int:
        """The number of draws that have reached their quantile there."""
        limit = float(ordered.values[place])
        below = drawn @ [float(block.up_to(limit)) for block in blocks]
        return int(np.count_nonzero(below >= wanted))

    first = max(ceil(percentile_share(len(blocks), confidence) * DRAWS), 1)
    places = range(ordered.values.size - 1)
    low, high = (
        ordered.values[bisect_left(places, number, key=reached)]
        for number in (first, DRAWS + 1 - first)
    )
    return float(low), float(high)


def quantile_draws(values: ArrayLike, q: float, seed: int = SEED) -> Values:
    """The quantile of bootstrap samples, for computations with several quantiles."""
    return _rank_draws(Ordered.of(values), q, seed)


def _rank_draws(ordered: Ordered, q: float, seed: int) -> Values:
    """The quantile in each bootstrap sample, interpolated linearly between two ranks."""
    position = (ordered.n - 1) * q
    between = position - floor(position)
    ranks = _drawn_ranks(ordered.n, floor(position) + 1, between > 0, seed)
    below, *above = (ordered.at(rank) for rank in ranks)
    return below + between * (above[0] - below) if above else below


# Groups of the same size, which are common, draw the same ranks.
@lru_cache(maxsize=64)
def _drawn_ranks(n: int, k: int, with_next: bool, seed: int) -> tuple[Counts, ...]:
    """Which of n values, counted from 0, are the k-th of n drawn ones, and the next ones.

    The k-th has the rank floor(n U), with U from a beta distribution (k, n - k + 1), so nothing
    needs to be resampled (Efron 1979, section 3); the next one's U is the minimum of the
    remaining ones.
    """
    lots = np.random.default_rng(seed)
    at = lots.beta(k, n - k + 1, DRAWS)
    shares = [at]
    if with_next:
        shares.append(1 - (1 - at) * lots.random(DRAWS) ** (1 / (n - k)))
    return tuple(np.minimum((n * it).astype(np.int64), n - 1) for it in shares)
