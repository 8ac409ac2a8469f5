"""How close estimates of the available bandwidth are to what was actually available on a path."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigenbench.columns import Column, Mean
from eigenbench.levels import Level
from eigenbench.paths import (
    ADDRESS,
    LEFT,
    MIDDLE,
    OTHER,
    UDP,
    Network,
    PathError,
    PathSpec,
    emulated,
    laid,
    served,
    shaped,
    truth_of,
)
from eigenbench.processes import Deadline, run
from eigenbench.samples import PERCENT, SECONDS, Probe, Unit
from eigenbench.suites import Effort, Efforts, Failure, Gap, Outcome, Value

MEGABYTES = Unit("MB", "B", 1e6)
HANG_S = 30.0
TOKEN = "only for the time of a benchmark"

BANDWIDTH = "bandwidth"
REFERENCES = "bandwidth-references"
PRECISE = f"{BANDWIDTH}/precise"
SYSTEM = f"{BANDWIDTH}/system"
KITE = f"{BANDWIDTH}/kite"
YAZ = f"{BANDWIDTH}/yaz"
SHORT = f"{BANDWIDTH}/short"

# The figures of each estimate: its error relative to the available bandwidth and to the capacity,
# whether its interval contains the truth, how far that reaches to either side, whether it has no
# number, and its cost.
OFF, ERROR, WITHIN, WIDTH, NONE = "off", "error", "within", "width", "none"
TIME, SENT, SHARE = "time", "sent", "share"
KEPT = (
    (OFF, "off by, of what was available", PERCENT),
    (ERROR, "error, of the capacity", PERCENT),
    (WITHIN, "within its interval", PERCENT),
    (NONE, "without a number", PERCENT),
    (TIME, "time", SECONDS),
    (SENT, "sent", MEGABYTES),
    (SHARE, "sent, of what saturating would have", PERCENT),
)

CROSS_M = (0, 50, 100, 150, 200, 250)
# The scenarios of the timing paper that the kernel can shape.
PATHS: dict[str, tuple[str, PathSpec]] = {
    **{
        f"300/{cross}": (f"300 M, cross {cross} M", PathSpec(300e6, cross * 1e6))
        for cross in CROSS_M
    },
    **{
        f"300-tbf/{cross}": (
            f"300 M by tbf, cross {cross} M by iperf3",
            PathSpec(300e6, cross * 1e6, real=UDP),
        )
        for cross in CROSS_M
    },
    "1000/500": ("1 G, cross 500 M", PathSpec(1e9, 500e6)),
    "10000/1000/1": (
        "10 G, cross 1 G, RTT 1 ms",
        PathSpec(10e9, 1e9, "0.5ms", 9000),
    ),
    "10000/1000/20": (
        "10 G, cross 1 G, RTT 20 ms",
        PathSpec(10e9, 1e9, "10ms", 9000),
    ),
}


@dataclass(frozen=True)
class Estimates:
    """Independent estimates, one after the other, each compared with the truth at its time."""

    eigentime: Path
    emulator: Path
    name: str = BANDWIDTH
    title: str = "The available bandwidth of a path, estimated from nothing known"
    note: str = (
        "Between two network namespaces. Cross traffic is Poisson, of packets of 1500 bytes, by "
        "`eigentime-path`; or by iperf3, through the kernel's tbf. Packets of probes have 1500 "
        "bytes, at 10 G 9000. The truth is the capacity without the cross traffic that came "
        "while the command ran. *Within its interval* is 100 for an estimate whose interval has "
        "the truth, and 0 for another: the mean is how often it has."
    )
    columns: tuple[Column, ...] = (Mean(),)
    levels: tuple[str, ...] = (PRECISE, SYSTEM)
    efforts: Efforts = Efforts(Effort(50, 6600), Effort(2, 160))  # noqa: RUF009

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The figures, for each path."""
        return tuple(
            Probe(f"{self.name}/{key}/{kept}", f"{title}: {shown}", unit)
            for key, (title, _) in PATHS.items()
            for kept, shown, unit in KEPT
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """One estimate of each path."""
        for key, (_, spec) in PATHS.items():
            asked = [it for it in wanted if it.startswith(f"{self.name}/{key}/")]
            if not asked or not deadline.remaining():
                continue
            try:
                told, available = self._estimate(level, spec, deadline)
            except PathError as error:
                yield from (Failure(probe, str(error)) for probe in asked)
                continue
            kept = figures(told, available, spec.capacity)
            for probe in asked:
                figure = kept.get(probe.rpartition("/")[2])
                if figure is None:
                    yield Gap(probe, reason(told))
                else:
                    yield Value(probe, figure)

    def _estimate(
        self, level: Level, spec: PathSpec, deadline: Deadline
    ) -> tuple[dict[str, object], float]:
        """The result of one estimate, and what was available."""
        if spec.real:
            return through_tbf(self.eigentime, level, spec, deadline)
        with (
            laid(spec.mtu) as network,
            emulated(network, self.emulator, spec) as truth,
            served(network, self.eigentime, TOKEN),
        ):
            measure = _measure(network, self.eigentime, level)
            told, begin, end = _run(measure, deadline)
            text = truth.read_text()
        return told, truth_of(text[: text.rfind("\n")]).available(begin, end)


def through_tbf(
    eigentime: Path, level: Level, spec: PathSpec, deadline: Deadline
) -> tuple[dict[str, object], float]:
    """The result of one estimate beside iperf3, and what was available.

    That is the capacity without the cross traffic that came to the bottleneck's host, by the
    counters of the interface that it alone comes through.
    """
    with (
        laid(spec.mtu) as network,
        shaped(network, spec),
        served(network, eigentime, TOKEN),
        network.counted(MIDDLE, OTHER) as counter,
    ):
        begin, before = counter.came()
        told, _, _ = _run(_measure(network, eigentime, level), deadline)
        end, after = counter.came()
    return told, spec.capacity - (after - before) / (end - begin) * 1e9


def _measure(network: Network, eigentime: Path, level: Level) -> list[str]:
    """The command of one estimate."""
    command = [str(eigentime), "bandwidth", "measure", ADDRESS, "--json"]
    client = ["env", f"EIGENTIME_TOKEN={TOKEN}", *level.command(*command)]
    return network.there(LEFT, *client)


def references(eigentime: Path, emulator: Path) -> Estimates:
    """The same with the reference methods."""
    return Estimates(
        eigentime,
        emulator,
        name=REFERENCES,
        title="The same by the methods that are there for reference",
        levels=(PRECISE, KITE, YAZ),
        efforts=Efforts(Effort(5, 1000), Effort(1, 80)),
    )


def _run(
    command: Sequence[str], deadline: Deadline
) -> tuple[dict[str, object], int, int]:
    """The output of the command, and when it began and ended."""
    begin = time.monotonic_ns()
    finished = run(command, deadline.within(HANG_S))
    end = time.monotonic_ns()
    if finished.status not in {0, 1}:
        raise PathError(finished.complaint)
    told = json.loads(finished.out)
    assert isinstance(told, dict)
    return told, begin, end


def figures(
    told: dict[str, object], available: float, capacity: float
) -> dict[str, float]:
    """The figures of an estimate; one without a number has no error."""
    found, cost = told["found"], told["cost"]
    assert isinstance(found, dict)
    assert isinstance(cost, dict)
    saturating = capacity * cost["seconds"] / 8
    kept = {
        TIME: cost["seconds"] * SECONDS.scale,
        SENT: float(cost["bytes"]),
        SHARE: 100 * cost["bytes"] / saturating,
    }
    if found["is"] != "available":
        return {**kept, NONE: 100.0}
    error = found["rate"] - available
    return {
        **kept,
        NONE: 0.0,
        OFF: 100 * abs(error) / available,
        ERROR: 100 * error / capacity,
        WITHIN: 100.0 * (found["low"] <= available <= found["high"]),
        WIDTH: 100 * (found["high"] - found["low"]) / 2 / capacity,
    }


def reason(told: dict[str, object]) -> str:
    """Why an estimate has no number."""
    found = told["found"]
    assert isinstance(found, dict)
    why = found.get("limit") or found.get("why") or found["is"]
    return f"no number: {why}"


def bandwidth_levels(eigentime: Path, emulator: Path) -> list[Level]:
    """The command, with its timings and methods."""
    built = all(os.access(program, os.X_OK) for program in (eigentime, emulator))
    absent = "" if built else "not built"
    if not absent and os.geteuid() != 0:
        absent = "needs root"
    rows = (
        (PRECISE, "regression", ()),
        (SYSTEM, "regression, system timing", ("--timing", "system")),
        (KITE, "kite (reconstruction)", ("--method", "kite")),
        (YAZ, "yaz", ("--method", "yaz")),
        (SHORT, "regression, 3 s", ("--time", "3s")),
    )
    return [
        Level(
            key,
            title,
            " ".join(("eigentime bandwidth measure HOST", *options)),
            # Options follow the command.
            (("sh", "-c", 'exec "$@" ' + " ".join(options), "sh"),),
            absent=absent,
        )
        for key, title, options in rows
    ]
