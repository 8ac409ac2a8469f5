"""The CPU with the fewest interrupts, and CPUs that are spared."""

import tempfile
import unittest
from pathlib import Path

from eigenbench.interrupts import INTERRUPTS, quietest, spared

SEEN = """\
            CPU0       CPU1       CPU3
   9:          3          0          9   IO-APIC   9-fasteoi   acpi
  36:          0    4349163          0   PCI-MSIX-0000:00:02.0   1-edge   virtio1-req.0
 LOC:   90000000          1          1   Local timer interrupts
 ERR:          0
"""


class Quietest(unittest.TestCase):
    def test_devices_count_and_timers_do_not(self) -> None:
        self.assertEqual(quietest([0, 1, 3], SEEN), 0)
        self.assertEqual(quietest([1, 3], SEEN), 3)

    def test_of_equals_it_is_the_last(self) -> None:
        self.assertEqual(quietest([0, 1], "CPU0 CPU1\n"), 1)

    def test_this_machine_has_one(self) -> None:
        self.assertEqual(quietest([0], INTERRUPTS.read_text()), 0)


class Spared(unittest.TestCase):
    def test_lists_come_back_whatever_happens(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            movable, stays = root / "36" / "smp_affinity_list", root / "37"
            movable.parent.mkdir()
            movable.write_text("0-63\n")
            # One that cannot be written: a folder in place of the file.
            (stays / "smp_affinity_list").mkdir(parents=True)
            with self.assertRaises(ValueError), spared(4096, root):
                self.assertTrue(movable.read_text().startswith("0"))
                self.assertNotIn("-", movable.read_text())
                raise ValueError
            self.assertEqual(movable.read_text(), "0-63\n")


if __name__ == "__main__":
    unittest.main()
