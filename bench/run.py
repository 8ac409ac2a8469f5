#!/usr/bin/env python3
"""Measure what virtual time costs, beside its peers, in one alternating run."""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from eigenbench import document, leftovers, machine, programs, timelines
from eigenbench.attach import Attach
from eigenbench.changes import Changes
from eigenbench.levels import all_levels, verified
from eigenbench.named import named_suites
from eigenbench.processes import Deadline
from eigenbench.progress import Progress
from eigenbench.redis import Redis
from eigenbench.report import Report
from eigenbench.runner import Runner, Settings
from eigenbench.samples import Samples
from eigenbench.suites import Suite, program_suites

ROOT = Path(__file__).resolve().parent.parent
EIGENTIME = ROOT / "build" / "bin" / "eigentime"
PROGRAMS = ROOT / "build" / "bench"
DOCUMENT = ROOT / "docs" / "performance.md"

# The suites' own limits add up to a little less.
FULL_RUN_S = 805.0
QUICK_RUN_S = 138.0
REDIS_PROBE_S = 0.6
REDIS_QUICK_PROBE_S = 0.2

PEERS = {
    "libfaketime": ("faketime", "--version"),
    "redis": ("redis-server", "--version"),
    "strace": ("strace", "--version"),
    "util-linux": ("unshare", "--version"),
}
SUITES = (
    "clocks",
    "syscalls",
    "waits",
    "spawn",
    "start",
    "named-reads",
    "named-waits",
    "changes",
    "attach",
    "redis",
)


def main() -> int:
    """Parse, measure, show, write."""
    arguments = parse()
    signal.signal(signal.SIGTERM, interrupted)
    try:
        with leftovers.removed(), timelines.own(EIGENTIME) as eigentime:
            report = measure(arguments, eigentime)
        print(report.markdown())
        if arguments.json:
            arguments.json.write_text(json.dumps(report.json(), indent=1) + "\n")
        if arguments.write:
            document.write(DOCUMENT, report.markdown())
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
        "--quick", action="store_true", help="few rounds, at most 2.5 minutes"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=SUITES,
        metavar="NAME",
        help=f"measure this suite only, may be repeated: {', '.join(SUITES)}",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help="at most N rounds of each suite"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every sample to FILE"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"put the tables into {DOCUMENT.relative_to(ROOT)}",
    )
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write needs all the suites: leave out --only")
    return arguments


def positive(text: str) -> int:
    """A number of rounds."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def measure(arguments: argparse.Namespace, eigentime: Path) -> Report:
    """One run over the suites that were asked for."""
    start = time.monotonic()
    deadline = Deadline(QUICK_RUN_S if arguments.quick else FULL_RUN_S)
    progress = Progress()
    progress.show("compiling the programs, measuring the counter")
    compiled = programs.prepare(PROGRAMS)
    here = machine.Machine.here(compiled.ticks_per_s)
    levels = {
        level.key: verified(level, compiled, deadline)
        for level in all_levels(eigentime, programs.no_jemalloc(PROGRAMS))
    }
    probe_s = REDIS_QUICK_PROBE_S if arguments.quick else REDIS_PROBE_S
    every_suite: list[Suite] = [
        *program_suites(compiled),
        *named_suites(compiled),
        Changes(compiled),
        Attach(compiled),
        Redis(probe_s),
    ]
    suites = [
        suite
        for suite in every_suite
        if not arguments.only or suite.name in arguments.only
    ]
    build = machine.fingerprint(eigentime)
    samples = Samples()
    settings = Settings(arguments.quick, arguments.rounds)
    Runner(levels, settings, deadline, progress, samples).run(suites)
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
        },
        load_after=machine.load(),
        counter_drift=abs(rate_after / compiled.ticks_per_s - 1),
        quick=arguments.quick,
        duration_s=time.monotonic() - start,
        suites=suites,
        by_key=levels,
        samples=samples,
    )


def interrupted(_number: int, _frame: FrameType | None) -> None:
    """End as on Ctrl-C, so that every child is ended too."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
