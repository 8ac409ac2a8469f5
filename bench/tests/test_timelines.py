"""Timelines of a run are in a separate folder and end with it."""

import os
import socket
import stat
import tempfile
import unittest
from pathlib import Path

from eigenbench.timelines import FOLDER, found, own


class Own(unittest.TestCase):
    def test_timelines_are_removed_and_the_environment_is_as_before(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            command = Path(name) / "command"
            asked = Path(name) / "asked"
            command.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
            command.chmod(0o755)
            before = os.environ.get("XDG_RUNTIME_DIR")
            with own(command) as (copy,), socket.socket(socket.AF_UNIX) as listener:
                runtime = Path(os.environ["XDG_RUNTIME_DIR"])
                self.assertEqual(stat.S_IMODE(runtime.stat().st_mode), 0o700)
                self.assertEqual(copy.read_text(), command.read_text())
                (runtime / FOLDER).mkdir()
                (runtime / FOLDER / ".lock").touch()
                listener.bind(str(runtime / FOLDER / "fast"))
                self.assertEqual(found(runtime), ["fast"])
            self.assertEqual(asked.read_text(), "ctl rm --force fast\n")
            self.assertFalse(runtime.exists())
            self.assertEqual(os.environ.get("XDG_RUNTIME_DIR"), before)

    def test_without_a_command_there_is_no_copy(self) -> None:
        with own(Path("/nonexistent/command"), Path("/nonexistent/two")) as copies:
            self.assertEqual([copy.exists() for copy in copies], [False, False])


if __name__ == "__main__":
    unittest.main()
