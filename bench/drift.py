#!/usr/bin/env python3
"""Watches clocks, ours and its peers, drift from the kernel's for ten minutes."""

import argparse
import json
import signal
import sys
from pathlib import Path

from eigenbench import arguments as argument
from eigenbench import drift, precision
from eigenbench.processes import Deadline

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 600.0


def main() -> int:
    """Parses, watches, prints; status 3 if our clock exceeded a bound that it stated."""
    arguments = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    program = precision.build(precision.target(ROOT))
    if program.absent:
        print(f"drift: {program.absent}", file=sys.stderr)
        return 1
    command = ["drift", "--seconds", str(arguments.seconds)]
    command += ["--interval", str(arguments.interval)]
    limit = Deadline(arguments.seconds * 1.5 + drift.START_S)
    try:
        looks = program.records(command, limit)
    except precision.Failed as failed:
        print(f"drift: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("drift: interrupted, nothing written", file=sys.stderr)
        return 128 + signal.SIGINT
    if not looks:
        print("drift: there was no time for a look", file=sys.stderr)
        return 1
    result = drift.summed(looks)
    print(drift.markdown(result))
    if arguments.json:
        arguments.json.write_text(json.dumps({**result, "looks": looks}, indent=1))
    return 3 if result["broken"] else 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench/drift.py", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=argument.seconds,
        default=SECONDS,
        metavar="N",
        help="how long",
    )
    parser.add_argument(
        "--interval",
        type=argument.seconds,
        default=1.0,
        metavar="N",
        help="seconds between looks",
    )
    parser.add_argument(
        "--json",
        type=argument.writable,
        metavar="FILE",
        help="write every look to FILE",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
