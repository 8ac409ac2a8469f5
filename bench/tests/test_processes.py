"""Children end, with everything that they started."""

import os
import select
import time
import unittest
from pathlib import Path

from eigenbench.processes import Deadline, child, run


def exists(pid: int) -> bool:
    """Whether a process with this ID runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int, within_ms: int) -> bool:
    """Whether a process ends, or has ended, in that time.

    A process that was sent SIGKILL takes a moment to end.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(within_ms))
    finally:
        os.close(process)


class Running(unittest.TestCase):
    def test_output_and_status_are_kept(self) -> None:
        finished = run(["sh", "-c", "echo out; echo err >&2; exit 3"], Deadline(5))
        self.assertEqual(
            (finished.status, finished.out, finished.err), (3, "out\n", "err\n")
        )
        self.assertEqual(finished.complaint, "err")

    def test_what_was_printed_before_a_timeout_is_kept(self) -> None:
        finished = run(["sh", "-c", "echo early; sleep 60"], Deadline(0.3))
        self.assertIsNone(finished.status)
        self.assertEqual((finished.out, finished.complaint), ("early\n", "timed out"))

    def test_a_missing_command_is_a_failure(self) -> None:
        finished = run(["/nonexistent/command"], Deadline(5))
        self.assertFalse(finished.succeeded)
        self.assertIn("No such file", finished.complaint)

    def test_a_grandchild_ends_too_even_if_it_ignores_sigterm(self) -> None:
        script = "trap '' TERM; sleep 60 & echo $!; wait"
        finished = run(["sh", "-c", script], Deadline(0.3))
        self.assertTrue(ends(int(finished.out), within_ms=10_000))

    def test_leaving_ends_the_child(self) -> None:
        with child(["sleep", "60"]) as process:
            self.assertTrue(exists(process.pid))
        self.assertFalse(exists(process.pid))
        self.assertIsNotNone(process.returncode)

    def test_a_deadline_never_outlasts_the_one_it_is_within(self) -> None:
        outer = Deadline(0.05)
        self.assertLessEqual(outer.within(60).remaining(), 0.05)
        time.sleep(0.06)
        self.assertEqual(outer.within(60).remaining(), 0.0)


if __name__ == "__main__":
    unittest.main()
