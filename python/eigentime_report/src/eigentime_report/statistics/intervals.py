"""How well quantiles and means are known."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, floor

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from eigentime_report.statistics.groups import Values, is_constant, t_beyond, usable
from eigentime_report.statistics.ordered import Ordered, checked_weights

SEED = 20380119
DRAWS = 4000

# With fewer blocks it cannot be told how much they differ.
FEWEST_BLOCKS = 5


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval; an end that cannot be had is None."""

    value: float
    low: float | None
    high: float | None
    confidence: float
    method: str
    note: str = ""


def quantile_interval(
    values: ArrayLike,
    q: float,
    weights: ArrayLike | None = None,
    blocks: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    seed: int = SEED,
) -> Interval:
    """The bootstrap interval of a quantile: of whole blocks where there are five or more."""
    found = quantile_intervals(
        values, (q,), weights, blocks, confidence=confidence, seed=seed
    )
    return found[q]


def quantile_intervals(
    values: ArrayLike,
    quantiles: tuple[float, ...],
    weights: ArrayLike | None = None,
    blocks: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    seed: int = SEED,
) -> dict[float, Interval]:
    """The same for several quantiles, with the values sorted once."""
    sample = Resampled.of(values, weights, blocks)
    return {q: sample.interval(q, confidence, seed) for q in quantiles}


def quantile_draws(
    values: ArrayLike,
    q: float,
    weights: ArrayLike | None = None,
    *,
    count: int = DRAWS,
    seed: int = SEED,
) -> Values:
    """The quantile of `count` bootstrap samples, for what is reckoned from several quantiles."""
    return _rank_draws(Ordered.of(values, weights), q, count, seed)


@dataclass(frozen=True, eq=False)
class Resampled:
    """Sorted values, and those of each block if whole blocks are drawn."""

    ordered: Ordered
    blocks: tuple[Ordered, ...]
    # How many blocks there are, also where they are too few to be drawn.
    block_count: int

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        weights: ArrayLike | None = None,
        blocks: ArrayLike | None = None,
    ) -> Resampled:
        """Sorts values, all together and within their blocks."""
        row = usable(values)
        counts = None if weights is None else checked_weights(weights, row.size)
        ordered = Ordered.of(row, counts)
        if blocks is None:
            return cls(ordered, (), 1)
        labels = np.asarray(blocks)
        if labels.shape != row.shape:
            raise ValueError(
                f"{row.size} values need as many blocks, not {labels.shape}"
            )
        present = np.unique(labels if counts is None else labels[counts > 0])
        if present.size < FEWEST_BLOCKS:
            return cls(ordered, (), int(present.size))
        parts = [labels == block for block in present]
        within = tuple(
            Ordered.of(row[part], None if counts is None else counts[part])
            for part in parts
        )
        return cls(ordered, within, len(within))

    def interval(self, q: float, confidence: float, seed: int) -> Interval:
        """The percentile interval of the draws, an end being None that n cannot carry."""
        alpha = (1 - confidence) / 2
        if self.blocks:
            share = _expanded(alpha, len(self.blocks))
            low, high = _block_ends(self.ordered, self.blocks, q, share, seed)
        else:
            drawn = _rank_draws(self.ordered, q, DRAWS, seed)
            low, high = np.quantile(drawn, (alpha, 1 - alpha))
        n = self.ordered.n
        # Some value must be below the quantile, and some above it, with that confidence.
        has_low = (1 - q) ** n <= alpha
        has_high = q**n <= alpha
        method = "ranks drawn from their exact distribution"
        if self.blocks:
            method = f"{len(self.blocks)} blocks, drawn whole"
        notes = []
        if not (has_low and has_high):
            notes.append(
                f"{n} values are too few for both ends at {100 * confidence:.4g} %"
            )
        if 1 < self.block_count < FEWEST_BLOCKS:
            notes.append(
                f"how much blocks differ is not in it: {self.block_count} are too few"
            )
        return Interval(
            value=self.ordered.quantile(q),
            low=float(low) if has_low else None,
            high=float(high) if has_high else None,
            confidence=confidence,
            method=f"bootstrap ({method})",
            note="; ".join(notes),
        )


def _rank_draws(ordered: Ordered, q: float, count: int, seed: int) -> Values:
    """The quantile in each of `count` bootstrap samples, linear between two ranks."""
    position = (ordered.n - 1) * q
    between = position - floor(position)
    ranks = _drawn_ranks(ordered.n, floor(position) + 1, between > 0, count, seed)
    below, *above = (ordered.at(rank) for rank in ranks)
    return below + between * (above[0] - below) if above else below


# Groups of one size, which are many, draw the same ranks.
@lru_cache(maxsize=64)
def _drawn_ranks(
    n: int, k: int, with_next: bool, count: int, seed: int
) -> tuple[NDArray[np.int64], ...]:
    """Which of n values, counted from 0, are the k-th of n drawn ones, and the next ones.

    The k-th has the rank floor(n U), U from a beta distribution (k, n - k + 1), so nothing
    needs to be resampled (Efron 1979, section 3); the next one's U is the least of those
    that are left.
    """
    generator = np.random.default_rng(seed)
    at = generator.beta(k, n - k + 1, count)
    shares = [at]
    if with_next:
        left = generator.random(count) ** (1 / (n - k))
        shares.append(1 - (1 - at) * left)
    return tuple(np.minimum((n * it).astype(np.int64), n - 1) for it in shares)


def _block_ends(
    ordered: Ordered, blocks: tuple[Ordered, ...], q: float, share: float, seed: int
) -> tuple[float, float]:
    """Between which values a draw's quantile is, but for a share of the draws at either end.

    Whole blocks are drawn, and nothing within them (Davison and Hinkley 1997, section 3.8).
    A draw's quantile does not exceed a value where enough of what was drawn does not: so
    draws are only counted, at the few values that a search comes to.
    """
    drawn = _drawn_blocks(len(blocks), DRAWS, seed)
    wanted = drawn @ np.array([q * block.n for block in blocks])
    # Sums of whole numbers are exact, the product with q is not.
    slack = 1e-9 * np.maximum(wanted, 1.0)
    least, most = wanted - slack, wanted + slack

    @cache
    def counted(place: int) -> tuple[int, int]:
        """How many draws have reached their quantile there, and how many passed it."""
        limit = ordered.values[place]
        below = drawn @ np.array([float(block.up_to(limit)) for block in blocks])
        reached, passed = below >= least, below > most
        return int(np.count_nonzero(reached)), int(np.count_nonzero(passed))

    def end(number: int) -> float:
        """The middle between where so many draws have reached their quantile, and passed it."""
        places = range(ordered.values.size - 1)
        found = [
            bisect_left(places, number, key=lambda place: counted(place)[which])
            for which in (0, 1)
        ]
        return float(np.mean(ordered.values[found]))

    first = max(ceil(share * DRAWS), 1)
    return end(first), end(DRAWS + 1 - first)


@lru_cache(maxsize=8)
def _drawn_blocks(blocks: int, count: int, seed: int) -> Values:
    """How often each block is in each of `count` draws."""
    even = np.full(blocks, 1 / blocks)
    drawn = np.random.default_rng(seed).multinomial(blocks, even, count)
    return np.asarray(drawn, dtype=np.float64, order="F")


def _expanded(alpha: float, blocks: int) -> float:
    """The share beyond a percentile interval's end, for few units (Hesterberg 2015)."""
    reach = t_beyond(alpha, blocks - 1) * (blocks / (blocks - 1)) ** 0.5
    return float(special.ndtr(-reach))


def mean_interval(values: ArrayLike, confidence: float = 0.99) -> Interval:
    """Student's interval of the mean, of values that do not depend on each other."""
    row = usable(values)
    mean = float(row.mean())
    method = "Student's t"
    if row.size < 2:
        note = "a single value does not tell how far the mean is off"
        return Interval(mean, None, None, confidence, method, note)
    if is_constant(row):
        note = "all values are the same"
        return Interval(mean, mean, mean, confidence, method, note)
    error = float(row.std(ddof=1)) / row.size**0.5
    reach = t_beyond((1 - confidence) / 2, row.size - 1) * error
    return Interval(mean, mean - reach, mean + reach, confidence, method)
