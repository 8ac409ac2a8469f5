"""Inside a timeline of Eigentime the clocks are virtual, and sleeps follow them."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

EIGENTIME = Path(__file__).resolve().parents[3] / "build" / "bin" / "eigentime"

PROGRAM = """
import json, time
import eigentime

host = {"trust": eigentime.trust().counter, "reason": eigentime.trust().reason}
before = time.monotonic_ns()
reading = eigentime.now_with_error()
after = time.monotonic_ns()
wall = reading.wall_ns // 10**9
start = time.monotonic_ns()
slept = eigentime.Sleeper().sleep(20)
passed = time.monotonic_ns() - start
with eigentime.Ticker() as ticker:
    start = time.monotonic_ns()
    ticks = ticker.ticks(5)
    told = sum(1 + next(ticks).missed for _ in range(4))
    ticked = time.monotonic_ns() - start
print(json.dumps(dict(host, before=before, now=reading.monotonic_ns, after=after,
                      year=time.gmtime(wall).tm_year, passed=passed, told=told, ticked=ticked)))
"""


class Timeline(unittest.TestCase):
    def run_at(self, rate: int) -> dict:
        if not EIGENTIME.exists():
            self.skipTest("skipped: needs build/bin/eigentime, which `make build` builds")
        timeline = [str(EIGENTIME), "run", "--date", "2038-01-19", "--rate", str(rate)]
        program = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(
            [*timeline, "--", *program], check=False, capture_output=True, text=True
        )
        if done.returncode == 125:
            self.skipTest(f"skipped: needs a timeline: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_time_is_virtual(self) -> None:
        seen = self.run_at(1000)
        self.assertEqual(seen["year"], 2038)
        self.assertFalse(seen["trust"], seen["reason"])
        # A virtual second is a millisecond: the two clocks are read one after the other.
        self.assertLessEqual(seen["before"], seen["now"])
        self.assertLessEqual(seen["now"], seen["after"])
        self.assertGreaterEqual(seen["passed"], 20 * 10**9)
        # Deadlines are in virtual time, too: none comes early.
        self.assertGreaterEqual(seen["ticked"], seen["told"] * 5 * 10**9)


if __name__ == "__main__":
    unittest.main()
