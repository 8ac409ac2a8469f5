#!/usr/bin/env python3
"""Measure what virtual time and the library cost, beside their peers, alternating."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import FrameType

from eigenbench import (
    bundles,
    document,
    leftovers,
    machine,
    measuring,
    precision,
    programs,
    timelines,
)
from eigenbench.arguments import count, writable
from eigenbench.attach import Attach
from eigenbench.bandwidth import Estimates, bandwidth_levels, references
from eigenbench.bounds import Bounds, Rates, bound_levels
from eigenbench.changes import change_suites
from eigenbench.containers import container_suites
from eigenbench.coverage import COVERAGE, Coverage
from eigenbench.events import Events, event_levels
from eigenbench.ground import Ground, ground
from eigenbench.idle import idle_levels, idle_suites
from eigenbench.levels import CONTAINER, all_levels, verified
from eigenbench.long_sleeps import long_sleeps
from eigenbench.measuring import Loops, Wakes, Warps, measuring_levels
from eigenbench.members import member_suites
from eigenbench.moments import moment_suites
from eigenbench.named import named_suites
from eigenbench.pauses import Disturbances, Pauses
from eigenbench.postgres import Postgres
from eigenbench.postgres import tool as postgres_tool
from eigenbench.processes import Deadline
from eigenbench.progress import Progress
from eigenbench.reads import Reads, read_levels
from eigenbench.redis import Redis
from eigenbench.report import Report
from eigenbench.reporting import PYTHON, Intervals, Reports, reporting_levels
from eigenbench.runner import Runner, Settings
from eigenbench.samples import Samples
from eigenbench.sleeps import Sleeps, sleep_levels
from eigenbench.suites import Suite, program_suites
from eigenbench.targets import undecided

ROOT = Path(__file__).resolve().parent.parent
EIGENTIME = ROOT / "build" / "bin" / "eigentime"
PROBE = EIGENTIME.with_name("eigentime-probe")
REPORT = EIGENTIME.with_name("eigentime-report")
EMULATOR = EIGENTIME.with_name("eigentime-path")
WRAPPER = EIGENTIME.with_name(bundles.WRAPPER)
PROGRAMS = ROOT / "build" / "bench"
DOCUMENT = ROOT / "docs" / "performance.md"

# The suites' own limits add up to a little less: the longest is a pause of an hour.
FULL_RUN_S = 16620.0
QUICK_RUN_S = 735.0
REDIS_PROBE_S = 0.6
REDIS_QUICK_PROBE_S = 0.2

PEERS = {
    "libfaketime": ("faketime", "--version"),
    "gcc": (programs.c_compiler() or "cc", "-dumpfullversion"),
    "make": ("make", "--version"),
    "podman": ("podman", "--version"),
    "rt-tests": ("cyclictest", "--help"),
    "redis": ("redis-server", "--version"),
    "postgresql": (postgres_tool("postgres") or "postgres", "--version"),
    "runc": ("runc", "--version"),
    "iperf3": ("iperf3", "--version"),
    "strace": ("strace", "--version"),
    "util-linux": ("unshare", "--version"),
    "scipy": (str(PYTHON), "-c", "import scipy; print(scipy.__version__)"),
}
PROCESSES = (
    "fork",
    "threads",
    "signals",
    "make",
    "first-waits",
    "changes",
    "changes-1000",
    "members",
    "idle-members",
)
PRECISION = ("clock-reads", "clock-rates", "clock-bounds", "sleeps", "events")
MEASURING = ("probe-loop", "probe-wakes", "probe-warps")
REPORTING = ("reports", "report-intervals")
ESTIMATING = ("bandwidth", "bandwidth-references")
SUITES = (
    "clocks",
    "syscalls",
    "waits",
    "spawn",
    "script",
    "start",
    "named-reads",
    "named-waits",
    "attach",
    "redis",
    "postgres",
    "idle-year",
    "idle-month",
    "containers",
    "container-reads",
    "podman",
    *PROCESSES,
    *PRECISION,
    *MEASURING,
    *REPORTING,
    *ESTIMATING,
    COVERAGE,
)
# Which suites each generated part of the document has.
PARTS = {
    document.BENCH: set(SUITES)
    - {*PROCESSES, *PRECISION, *MEASURING, *REPORTING, *ESTIMATING, COVERAGE},
    document.PROCESSES: set(PROCESSES),
    document.PRECISION: set(PRECISION),
    document.MEASURING: set(MEASURING),
    document.REPORTING: set(REPORTING),
    document.ESTIMATING: set(ESTIMATING),
    document.COVERING: {COVERAGE},
}


def main() -> int:
    """Parse, measure, show, write."""
    arguments = parse()
    signal.signal(signal.SIGTERM, interrupted)
    try:
        compiled = programs.prepare(PROGRAMS)
        with (
            leftovers.removed(),
            ground(compiled.in_containers) as there,
            timelines.own(EIGENTIME, WRAPPER) as (eigentime, wrapper),
        ):
            report = measure(arguments, compiled, there, eigentime, wrapper)
        print(report.markdown())
        if arguments.json:
            arguments.json.write_text(json.dumps(report.json(), indent=1) + "\n")
        if arguments.write:
            for part, names in PARTS.items():
                suites = [suite for suite in report.suites if suite.name in names]
                if suites:
                    text = replace(report, suites=suites).markdown()
                    document.write(DOCUMENT, text, part)
    except (programs.ProgramError, document.DocumentError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted, nothing written", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few rounds, at most thirteen minutes"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=SUITES,
        metavar="NAME",
        help=f"measure this suite only, may be repeated: {', '.join(SUITES)}",
    )
    parser.add_argument(
        "--rounds", type=count, metavar="N", help="at most N rounds of each suite"
    )
    parser.add_argument(
        "--json", type=writable, metavar="FILE", help="write every sample to FILE"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"put the tables into {DOCUMENT.relative_to(ROOT)}",
    )
    arguments = parser.parse_args()
    only = set(arguments.only or SUITES)
    # What a part leaves out, nobody can compare with the rest of it.
    partly = [
        part for part, names in PARTS.items() if 0 < len(only & names) < len(names)
    ]
    if arguments.write and partly:
        parser.error(
            "--write needs all the suites of a part of the document: leave out --only, "
            f"or ask for each of {', '.join(sorted(PARTS[partly[0]]))}"
        )
    return arguments


def measure(
    arguments: argparse.Namespace,
    compiled: programs.Programs,
    there: Ground,
    eigentime: Path,
    wrapper: Path,
) -> Report:
    """One run over the suites that were asked for."""
    start = time.monotonic()
    deadline = Deadline(QUICK_RUN_S if arguments.quick else FULL_RUN_S)
    progress = Progress()
    progress.show("looking at the levels")
    here = machine.Machine.here(compiled.ticks_per_s)
    levels = {
        level.key: verified(level, compiled, deadline)
        for level in all_levels(eigentime, compiled)
    }
    # Their own suites look at them, since each runtime is another one.
    levels |= {level.key: level for level in bundles.container_levels(wrapper)}
    probe_s = REDIS_QUICK_PROBE_S if arguments.quick else REDIS_PROBE_S
    wanted = arguments.only or SUITES
    progress.show("building the program that measures clocks, sleeps and events")
    precise = precise_program(wanted)
    levels |= {
        level.key: level
        for made in (read_levels, bound_levels, sleep_levels, event_levels)
        for level in made(precise)
    }
    probe = measuring.program(PROBE)
    levels |= {level.key: level for level in measuring_levels(probe)}
    every_suite: list[Suite] = [
        *program_suites(compiled),
        *moment_suites(compiled, there.folder),
        *named_suites(compiled),
        *change_suites(compiled, there),
        *member_suites(compiled),
        Attach(compiled),
        Redis(probe_s),
        Postgres(),
        *idle_suites(compiled),
        *container_suites(compiled, levels[CONTAINER], there),
        Reads(precise),
        Rates(precise, arguments.quick),
        Bounds(precise, arguments.quick),
        Pauses(precise, arguments.quick, long_sleeps(precise, arguments.quick)),
        Disturbances(precise, arguments.quick),
        Sleeps(precise, arguments.quick),
        Events(precise, arguments.quick),
        Loops(probe, compiled),
        Wakes(probe, arguments.quick),
        Warps(probe),
        Reports(there.folder),
        Intervals(),
        Estimates(EIGENTIME, EMULATOR),
        references(EIGENTIME, EMULATOR),
        Coverage(EIGENTIME),
    ]
    levels |= {level.key: level for level in reporting_levels(REPORT)}
    levels |= {level.key: level for level in idle_levels(str(eigentime))}
    levels |= {level.key: level for level in bandwidth_levels(EIGENTIME, EMULATOR)}
    suites = [suite for suite in every_suite if suite.name in wanted]
    build = machine.fingerprint(eigentime)
    samples = Samples()
    settings = Settings(arguments.quick, arguments.rounds)

    def left_open(suite: Suite) -> bool:
        return undecided(samples, {probe.key for probe in suite.probes})

    Runner(levels, settings, deadline, progress, samples, left_open, there.reap).run(
        suites
    )
    version = machine.version(str(eigentime), "--version")
    rate_after = programs.tick_rate(PROGRAMS)
    return Report(
        machine=here,
        peers={
            "eigentime": f"{version}, build {build}" if build else "not built",
            **{
                name: machine.version(*command) or "not installed"
                for name, command in PEERS.items()
            },
            **precision.peers(),
        },
        load_after=machine.load(),
        counter_drift=abs(rate_after / compiled.ticks_per_s - 1),
        quick=arguments.quick,
        duration_s=time.monotonic() - start,
        suites=suites,
        by_key=levels,
        samples=samples,
    )


def precise_program(wanted: Collection[str]) -> precision.Program:
    """The program of the suites that measure clocks, sleeps and events."""
    folder = precision.target(ROOT)
    if any(name in wanted for name in PRECISION):
        return precision.build(folder)
    return precision.Program(folder, "not asked for")


def interrupted(_number: int, _frame: FrameType | None) -> None:
    """End as on Ctrl-C, so that every child is ended too."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
