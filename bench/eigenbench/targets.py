"""What was aimed at, and whether it was reached."""

from collections.abc import Iterator
from dataclasses import dataclass

from eigenbench import levels
from eigenbench.samples import Samples
from eigenbench.stats import Summary, ratios, summarize

VDSO_READS = ("realtime", "monotonic")


@dataclass(frozen=True)
class Target:
    """An upper limit for some probes at some levels."""

    title: str
    probes: tuple[str, ...]
    levels: tuple[str, ...]
    limit: float
    # The level whose cost the limit is a multiple of; None: the limit is in
    # the probe's base unit.
    base: str | None


@dataclass(frozen=True)
class Verdict:
    """A target for one probe at one level, and what was measured."""

    target: Target
    probe: str
    level: str
    measured: Summary | None
    # Why nothing was measured.
    reason: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the median keeps the limit; None if it was not measured."""
        if self.measured is None:
            return None
        return self.measured.median <= self.target.limit


TARGETS = (
    Target(
        "offset only: at most 1.10 × the bare time namespace",
        VDSO_READS,
        (levels.OFFSET, levels.BOTH),
        1.10,
        levels.NAMESPACE,
    ),
    Target(
        "any rate: at most 1.30 × the host",
        VDSO_READS,
        (levels.RATE_10, levels.FROZEN),
        1.30,
        levels.HOST,
    ),
    Target(
        "any rate: at most half of libfaketime",
        VDSO_READS,
        (levels.RATE_10,),
        0.50,
        levels.FAKETIME_RATE,
    ),
    Target(
        "a redirected `poll`: at most 15 µs",
        ("poll",),
        (levels.RATE_10,),
        15_000.0,
        None,
    ),
    Target(
        "a process started inside: at most 2.5 × the host",
        ("spawn",),
        (levels.OFFSET, levels.BOTH, levels.RATE_10),
        2.5,
        levels.HOST,
    ),
)


def verdicts(samples: Samples, measured_probes: set[str]) -> Iterator[Verdict]:
    """Every target whose probes were part of the run, probe by level."""
    for target in TARGETS:
        for probe in target.probes:
            if probe in measured_probes:
                for level in target.levels:
                    yield _verdict(samples, target, probe, level)


def _verdict(samples: Samples, target: Target, probe: str, level: str) -> Verdict:
    own = samples.of(probe, level)
    if target.base is None:
        values = list(own.values())
    else:
        values = ratios(own, samples.of(probe, target.base))
    measured = summarize(values)
    reason = ""
    if measured is None:
        missing = level if not own else target.base or level
        reason = samples.reason(probe, missing) or "no time left"
    return Verdict(target, probe, level, measured, reason)
