"""The command that tests of timelines run: the one of this checkout."""

import os
import unittest
from pathlib import Path

EIGENTIME = Path(__file__).resolve().parents[3] / "build" / "bin" / "eigentime"


def needed() -> dict[str, str]:
    """The environment that names it."""
    if not EIGENTIME.exists():
        raise unittest.SkipTest("skipped: needs build/bin/eigentime, which `make build` builds")
    return {**os.environ, "EIGENTIME": str(EIGENTIME)}
