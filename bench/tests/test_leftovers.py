"""Only new files that belong to nobody are removed."""

import os
import tempfile
import unittest
from pathlib import Path

from eigenbench.leftovers import removed

# No process can have this ID.
NOBODY = 2**31 - 1


class Removing(unittest.TestCase):
    def test_new_files_of_ended_processes_go_and_all_others_stay(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            old = folder / f"faketime_shm_{NOBODY}"
            old.touch()
            with removed(folder):
                (folder / f"sem.faketime_sem_{NOBODY}").touch()
                (folder / f"faketime_shm_{os.getpid()}").touch()
                (folder / f"something_else_{NOBODY}").touch()
            self.assertEqual(
                {file.name for file in folder.iterdir()},
                {
                    old.name,
                    f"faketime_shm_{os.getpid()}",
                    f"something_else_{NOBODY}",
                },
            )

    def test_new_folders_go_if_nothing_else_is_in_them(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            old, new, used = (folder / one for one in ("old", "new", "used"))
            old.mkdir()
            with removed(folder, dict.fromkeys((old, new, used), "lock")):
                new.mkdir()
                used.mkdir()
                (used / "other").touch()
                for one in old, new, used:
                    (one / "lock").touch()
            self.assertFalse(new.exists())
            self.assertEqual(len(list(used.iterdir())), 2)
            self.assertTrue((old / "lock").exists())


if __name__ == "__main__":
    unittest.main()
