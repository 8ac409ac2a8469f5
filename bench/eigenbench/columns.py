"""Columns that not every suite has."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from eigenbench import levels
from eigenbench.samples import Probe, Samples
from eigenbench.stats import (
    differences,
    percentile,
    ratios,
    share_interval,
    summarize,
)

NOTHING = "–"


class Column(Protocol):
    """A heading, and a figure for each row."""

    @property
    def heading(self) -> str:
        """Its heading."""

    def figure(self, probe: Probe, level: str, samples: Samples) -> str:
        """The figure for this probe and level, which has values."""


@dataclass(frozen=True)
class Times:
    """How many times as much as at another level, within rounds."""

    heading: str
    # The other level: one for all, or one for each level that is compared.
    base: str | Mapping[str, str]

    def figure(self, probe: Probe, level: str, samples: Samples) -> str:
        """The median of the rounds' own ratios."""
        base = self.base if isinstance(self.base, str) else self.base.get(level, "")
        found = ratios(samples.of(probe.key, level), samples.of(probe.key, base))
        summary = summarize(found.values())
        return f"{summary.median:.2f}" if summary else NOTHING


@dataclass(frozen=True)
class Added:
    """How much more than at another level, within rounds."""

    heading: str
    base: str

    def figure(self, probe: Probe, level: str, samples: Samples) -> str:
        """The median of the rounds' own differences."""
        found = differences(
            samples.of(probe.key, level), samples.of(probe.key, self.base)
        )
        summary = summarize(found.values())
        return f"{summary.median / probe.unit.scale:+.1f}" if summary else NOTHING


@dataclass(frozen=True)
class Beside:
    """Another measurement of the same rounds, under a longer key."""

    heading: str
    suffix: str
    # Whether the maximum over the rounds counts, rather than the median.
    highest: bool = False
    # Units of the measurement per unit shown.
    scale: float = 1.0

    def figure(self, probe: Probe, level: str, samples: Samples) -> str:
        """The figure over all rounds."""
        values = samples.of(f"{probe.key}{self.suffix}", level).values()
        summary = summarize(list(values))
        if summary is None:
            return NOTHING
        return shown((summary.high if self.highest else summary.median) / self.scale)


@dataclass(frozen=True)
class Mean:
    """The mean, which for values of 0 or 100 % is their frequency."""

    heading: str = "mean"
    # Of another measurement of the same rounds, under a longer key.
    suffix: str = ""

    def figure(self, probe: Probe, level: str, samples: Samples) -> str:
        """The mean of all values."""
        values = samples.of(f"{probe.key}{self.suffix}", level).values()
        return shown(fmean(values) / probe.unit.scale) if values else NOTHING


@dataclass(frozen=True)
class Share:
    """How often another measurement, under a longer key, was 100 and not 0 %."""

    heading: str
    suffix: str

    def figure(self, probe: Probe, level: str, samples: Samples) -> str:
        """The share of all values in percent, with its exact 95 % interval."""
        values = samples.of(f"{probe.key}{self.suffix}", level).values()
        if not values:
            return NOTHING
        hits = sum(value == 100.0 for value in values)
        low, high = share_interval(hits, len(values))
        share = hits / len(values)
        return f"{100 * share:.1f} ({100 * low:.1f} – {100 * high:.1f})"


@dataclass(frozen=True)
class Percentile:
    """The value that this percentage of values does not exceed."""

    percent: float

    @property
    def heading(self) -> str:
        """A heading such as p95."""
        return f"p{self.percent:g}"

    def figure(self, probe: Probe, level: str, samples: Samples) -> str:
        """The percentile over all rounds."""
        values = list(samples.of(probe.key, level).values())
        found = percentile(values, self.percent)
        return NOTHING if found is None else shown(found / probe.unit.scale)


BESIDE_PEERS: tuple[Column, ...] = (
    Times("× host", levels.HOST),
    Times("× namespace", levels.NAMESPACE),
)
BESIDE_BARE: tuple[Column, ...] = (
    Added("added", levels.CONTAINER),
    Times("× bare", levels.CONTAINER),
)


def shown(value: float) -> str:
    """A value with about three digits."""
    return f"{value:.{digits(value)}f}"


def digits(value: float) -> int:
    """The number of decimals that shows about three digits of `value`."""
    return next((digits for digits in range(3) if value * 10**digits >= 100), 3)
