"""Invalid arguments of the scripts are rejected before they measure."""

import io
import sys
import unittest
from argparse import ArgumentTypeError
from contextlib import redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from unittest import mock

import drift
import run
from eigenbench import arguments


class Arguments(unittest.TestCase):
    def test_a_time_that_does_not_pass_is_refused(self) -> None:
        for text in ["0", "-1", "nan", "inf"]:
            with self.subTest(text), self.assertRaises(ArgumentTypeError):
                arguments.seconds(text)
        self.assertEqual(arguments.seconds("0.5"), 0.5)

    def test_a_file_is_tried_and_left_as_it_is(self) -> None:
        with TemporaryDirectory() as folder:
            file = Path(folder, "samples.json")
            self.assertEqual(arguments.writable(str(file)), file)
            self.assertFalse(file.exists())
            file.write_text("of yesterday")
            arguments.writable(str(file))
            self.assertEqual(file.read_text(), "of yesterday")


class Scripts(unittest.TestCase):
    def refused(self, script: ModuleType, *told: str) -> str:
        """The output of a script that fails before it starts."""
        with (
            mock.patch.object(sys, "argv", ["script", *told]),
            mock.patch.object(script.signal, "signal", side_effect=AssertionError),
            redirect_stderr(io.StringIO()) as said,
            self.assertRaises(SystemExit) as ended,
        ):
            script.main()
        self.assertEqual(ended.exception.code, 2)
        return said.getvalue()

    def test_a_file_that_cannot_be_written(self) -> None:
        for script in [drift, run]:
            with self.subTest(script.__name__), TemporaryDirectory() as folder:
                for file in [f"{folder}/none/there.json", folder]:
                    self.assertIn(file, self.refused(script, "--json", file))

    def test_a_drift_of_no_time(self) -> None:
        self.assertIn("more than 0", self.refused(drift, "--seconds", "0"))
        self.assertIn("more than 0", self.refused(drift, "--interval", "nan"))


if __name__ == "__main__":
    unittest.main()
