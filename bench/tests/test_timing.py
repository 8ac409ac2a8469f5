"""Commands are timed to their end, and until a descriptor is readable."""

import os
import unittest

from eigenbench.processes import Deadline
from eigenbench.timing import CommandError, timed


class Timing(unittest.TestCase):
    def test_a_command_takes_as_long_as_it_takes(self) -> None:
        measured = timed(["sleep", "0.1"], Deadline(10))
        self.assertGreaterEqual(measured.took, 0.1e9)

    def test_a_descriptor_may_be_readable_before_the_end(self) -> None:
        out, end = os.pipe()
        with open(out, "rb") as pipe, open(end, "wb") as inherited:
            command = ["sh", "-c", "echo; sleep 0.2"]
            measured = timed(command, Deadline(10), inherited, pipe.fileno())
        self.assertLess(measured.begin, measured.readable)
        self.assertLess(measured.readable, measured.end)

    def test_a_failure_is_told_in_the_command_s_words(self) -> None:
        with self.assertRaisesRegex(CommandError, "oh no"):
            timed(["sh", "-c", "echo oh no >&2; exit 3"], Deadline(10))

    def test_what_does_not_end_is_ended(self) -> None:
        with self.assertRaisesRegex(CommandError, "timed out"):
            timed(["sleep", "60"], Deadline(0.1))


if __name__ == "__main__":
    unittest.main()
