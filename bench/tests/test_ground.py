"""Nothing of a ground remains."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from eigenbench.ground import ground, mounts_below
from eigenbench.processes import Deadline

MOUNTINFO = """\
22 1 8:1 / / rw - ext4 /dev/a rw
30 22 8:1 /x /tmp/ours/storage rw - ext4 /dev/a rw
31 30 0:9 / /tmp/ours/storage/merged rw - overlay overlay rw
32 22 0:9 / /tmp/ours-not rw - tmpfs tmpfs rw
"""


class Leaving(unittest.TestCase):
    def test_programs_are_there_and_nothing_stays(self) -> None:
        with tempfile.NamedTemporaryFile() as program:
            with ground([Path(program.name)]) as there:
                inside = there.rootfs / Path(program.name).name
                self.assertTrue(inside.exists())
                self.assertNotEqual(there.name(), there.name())
            self.assertFalse(there.folder.exists())

    def test_orphans_are_adopted_and_reaped(self) -> None:
        with ground([]) as there:
            command = ["sh", "-c", "sleep 0.1 >&2 & echo $!"]
            orphan = subprocess.run(command, capture_output=True, check=True)
        self.assertFalse(Path("/proc", orphan.stdout.decode().strip()).exists())
        self.assertFalse(there.reap())

    def test_settling_waits_for_what_names_the_folder(self) -> None:
        with ground([]) as there:
            command = ["sh", "-c", "echo; read line; exit", str(there.folder)]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
                # Popen returns during the exec, before the kernel shows the arguments.
                self.assertEqual(process.stdout.readline(), b"\n")
                self.assertFalse(there.settle(Deadline(0.05)))
                process.communicate(b"\n")
            self.assertTrue(there.settle(Deadline(10)))

    def test_only_mounts_in_the_folder_are_ours(self) -> None:
        self.assertEqual(
            mounts_below(Path("/tmp/ours"), MOUNTINFO),
            ["/tmp/ours/storage", "/tmp/ours/storage/merged"],
        )

    def test_names_tell_whose_they_are(self) -> None:
        with ground([]) as there:
            self.assertTrue(there.name().startswith(there.cgroup))
            self.assertIn(str(os.getpid()), there.cgroup)


if __name__ == "__main__":
    unittest.main()
