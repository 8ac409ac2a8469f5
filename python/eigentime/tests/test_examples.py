"""The examples run and print what they should."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

import eigentime_command

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

# What each line must look like, in order.
OUTPUT = {
    "clock.py": [
        r"monotonic \d+ ns, within \d+ ns of the kernel's",
        r"wall      \d+ ns, within \d+ ns of the kernel's",
        r"UTC       (unknown: .*|within \d+ ns)",
        r"the sum is 499500, found in \d+ ns",
        r"read from the (processor's counter|kernel's clock).*",
    ],
    "sleep.py": [
        r"(no .*: .*\n)*turn 1: (on time|woken late|preempted), spun \d+ ns",
        *[rf"turn {turn}: (on time|woken late|preempted), spun \d+ ns" for turn in range(2, 6)],
        r"of 100 sleeps, the median was [\d.]+ ns late",
    ],
    "timeline.py": [r"2038-01-30"],
    "ticker.py": [
        r"(no .*: .*\n)*(tick \d+: \d+ ns late, \d+ missed before\n)*tick \d+: .*",
        r"the quick event came \d+ times, \d+ missed by the ticker itself",
    ],
}

# The examples that need the command.
ON_TIMELINES = {"timeline.py"}


class Examples(unittest.TestCase):
    def test_each_is_tested(self) -> None:
        self.assertEqual({path.name for path in EXAMPLES.glob("*.py")}, set(OUTPUT))

    def test_output(self) -> None:
        for name, lines in OUTPUT.items():
            with self.subTest(name):
                needed = eigentime_command.needed() if name in ON_TIMELINES else None
                command = [sys.executable, str(EXAMPLES / name)]
                done = subprocess.run(
                    command, check=False, capture_output=True, text=True, env=needed
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, "\\A" + "\n".join(lines) + "\n\\Z")
                self.assertIsNone(re.search(r"\bNone\b", done.stdout))


if __name__ == "__main__":
    unittest.main()
