"""How often intervals of the available bandwidth contain it, beside real cross traffic."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigenbench.bandwidth import (
    ERROR,
    NONE,
    SHORT,
    TIME,
    WIDTH,
    WITHIN,
    figures,
    reason,
    through_tbf,
)
from eigenbench.bounds import READINGS
from eigenbench.columns import Beside, Column, Mean, Share
from eigenbench.levels import Level
from eigenbench.paths import (
    BURSTS,
    RIGHT,
    TCP,
    UDP,
    PathError,
    PathSpec,
    laid,
    shaped,
)
from eigenbench.processes import Deadline
from eigenbench.samples import COUNT, PERCENT, SECONDS, Probe
from eigenbench.suites import Effort, Efforts, Gap, Outcome, Value

COVERAGE = "bandwidth-coverage"
# What tbf leaves unused of its capacity although more comes, and for how long that is counted.
UNUSED = "unused"
SATURATED_S = 1.0

# The capacity and the cross traffic, in Mbit/s, and its kind.
LOADS_M = (
    (50, 20, "tcp", "TCP", TCP),
    (100, 60, "bursts", f"UDP in bursts of {BURSTS.burst}", BURSTS),
)
CELLS: dict[str, tuple[str, PathSpec]] = {
    f"{COVERAGE}/{capacity}/{cross}/{key}": (
        f"{capacity} M, cross {cross} M, {title}",
        PathSpec(capacity * 1e6, cross * 1e6, real=kind),
    )
    for capacity, cross, key, title, kind in LOADS_M
}
SATURATIONS = {
    f"{COVERAGE}/{capacity}/{UNUSED}": PathSpec(
        capacity * 1e6, 2 * capacity * 1e6, real=UDP
    )
    for capacity in sorted({capacity for capacity, *_ in LOADS_M})
}


@dataclass(frozen=True)
class Coverage:
    """Estimates on each path in turn, each on a new one, compared with the truth at its time."""

    eigentime: Path
    name: str = COVERAGE
    title: str = "How often an interval of the available bandwidth contains it"
    note: str = (
        "Between network namespaces, through the kernel's tbf (a bucket of 3200 bytes), beside "
        "iperf3: UDP in bursts, `--bitrate RATE/10`; TCP in writes of "
        "8 KiB, limited by `--bitrate`. All packets have 1500 bytes. The truth is the capacity "
        "without the cross traffic that came to the bottleneck while the command ran, by the "
        "counters of the bottleneck's interface to its source. *Contain it*: the share of the "
        "intervals, which are designed for 95 %, and between what it lies with 95 % (Clopper and "
        "Pearson); *n* counts the intervals. *Without a number*: of all estimates, those that say "
        "why there is none. *Unused*: what tbf leaves of the capacity that it is set to, and that "
        "the truth starts from, in a second in which twice as much comes."
    )
    columns: tuple[Column, ...] = (
        Share("contain it, % (nominal 95)", f"/{WITHIN}"),
        Beside("interval, ± % of the capacity", f"/{WIDTH}"),
        Mean("without a number, %", f"/{NONE}"),
        Beside("time, s", f"/{TIME}", scale=SECONDS.scale),
    )
    levels: tuple[str, ...] = (SHORT,)
    efforts: Efforts = Efforts(Effort(200, 2400), Effort(1, 20))  # noqa: RUF009

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The errors on each path with the figures beside them, and what tbf leaves unused."""
        units = {WITHIN: PERCENT, WIDTH: PERCENT, NONE: PERCENT, TIME: SECONDS}
        units[f"{WITHIN}{READINGS}"] = COUNT
        cells = [
            probe
            for key, (title, _) in CELLS.items()
            for probe in (
                Probe(key, f"{title}: error, of the capacity", PERCENT),
                *(
                    Probe(f"{key}/{kept}", f"{title}: {kept}", unit, row=False)
                    for kept, unit in units.items()
                ),
            )
        ]
        saturations = [
            Probe(key, f"{spec.capacity / 1e6:.0f} M: unused when full", PERCENT)
            for key, spec in SATURATIONS.items()
        ]
        return (*cells, *saturations)

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """One estimate on each path; a path that fails is tried again in the next round."""
        for key, spec in SATURATIONS.items():
            try:
                yield Value(key, unused(spec))
            except PathError as error:
                yield Gap(key, str(error))
        for key, (_, spec) in CELLS.items():
            if not deadline.remaining():
                return
            try:
                told, available = through_tbf(self.eigentime, level, spec, deadline)
            except PathError as error:
                yield Value(f"{key}/{NONE}", 100.0)
                yield Gap(key, str(error))
            else:
                yield from outcomes(key, told, available, spec.capacity)


def unused(spec: PathSpec) -> float:
    """How much of its capacity a full tbf leaves unused, in percent."""
    with (
        laid(spec.mtu) as network,
        shaped(network, spec),
        network.counted(RIGHT) as counter,
    ):
        begin, before = counter.came()
        time.sleep(SATURATED_S)
        end, after = counter.came()
    return 100 * (1 - (after - before) / (end - begin) * 1e9 / spec.capacity)


def outcomes(
    key: str, told: dict[str, object], available: float, capacity: float
) -> Iterator[Outcome]:
    """The outcomes of an estimate on the path with this key."""
    kept = figures(told, available, capacity)
    yield Value(f"{key}/{NONE}", kept[NONE])
    yield Value(f"{key}/{TIME}", kept[TIME])
    if ERROR not in kept:
        yield Gap(key, reason(told))
        return
    yield Value(key, kept[ERROR])
    yield Value(f"{key}/{WIDTH}", kept[WIDTH])
    yield Value(f"{key}/{WITHIN}", kept[WITHIN])
    # Each interval is one reading of whether it contains the truth.
    yield Value(f"{key}/{WITHIN}{READINGS}", 1.0)
