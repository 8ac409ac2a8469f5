"""What was aimed at, and whether it was reached."""

from collections.abc import Iterator
from dataclasses import dataclass

from eigenbench import levels
from eigenbench.named import PRIVATE
from eigenbench.samples import Samples
from eigenbench.stats import Summary, ratios, summarize

VDSO_READS = ("realtime", "monotonic")
NAMED_READS = tuple(
    f"named/{read}" for read in (*VDSO_READS, "raw-realtime", "raw-monotonic")
)
NAMED_WAITS = tuple(
    f"named/{wait}" for wait in ("poll", "nanosleep", "futex", "cond-monotonic")
)


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
    Target(
        "a change of a named timeline reaches the last of 100 members: at most 5 ms",
        ("change-100/command",),
        (levels.CHANGED,),
        5e6,
        None,
    ),
    Target(
        "a process with 50 threads attached: stopped for at most 20 ms",
        ("attach/50",),
        (levels.ATTACHED,),
        20e6,
        None,
    ),
    *(
        Target(
            f"named, {title}: at most 1.05 × the private timeline",
            probes,
            (named,),
            1.05,
            PRIVATE[named],
        )
        for title, probes, named in (
            # At a rate of 1 a raw read of the monotonic clock is stopped in a named
            # timeline alone, as relative waits are: its rate may change later.
            ("offset only, reads", NAMED_READS[:-1], levels.NAMED_OFFSET),
            ("rate 10, reads", NAMED_READS, levels.NAMED_RATE),
            ("rate 10, waits", NAMED_WAITS, levels.NAMED_RATE),
            (
                "rate 10, waits, one processor",
                NAMED_WAITS,
                levels.NAMED_RATE_ONE_CPU,
            ),
        )
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
