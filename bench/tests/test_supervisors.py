"""Processes as the kernel counts them."""

import subprocess
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager

from eigenbench.processes import Deadline, child, next_line
from eigenbench.supervisors import Process, room, supervisors

PAGE = 4096
# Prints a line, and then another for each line that it gets, after so much work.
WORKER = """
import sys
print(flush=True)
for line in sys.stdin:
    kept = bytearray(16 << 20)
    sum(range(1_000_000))
    print(flush=True)
"""
COMMAND = (sys.executable, "-c", WORKER)
DEADLINE_S = 20.0


@contextmanager
def worker() -> Iterator[tuple[subprocess.Popen[bytes], Process]]:
    """A process that waits to be told to work."""
    pipe = subprocess.PIPE
    with child(COMMAND, out=pipe, stdin=pipe) as running:
        assert running.stdout
        running.stdout.readline()
        yield running, Process(running.pid)


def work(running: subprocess.Popen[bytes]) -> None:
    """Let it work once."""
    assert running.stdin
    assert running.stdout
    running.stdin.write(b"\n")
    running.stdin.flush()
    running.stdout.readline()


class Using(unittest.TestCase):
    def test_work_takes_processor_time_memory_and_switches(self) -> None:
        deadline = Deadline(DEADLINE_S)
        with worker() as (running, process):
            process.settle(deadline)
            before = process.cpu_ns, process.switches, process.memory_bytes
            process.settle(deadline)
            self.assertEqual(before[:2], (process.cpu_ns, process.switches))
            work(running)
            process.settle(deadline)
            self.assertGreater(process.cpu_ns, before[0])
            self.assertGreater(process.switches, before[1])
            self.assertGreater(process.memory_bytes, before[2] + (8 << 20))

    def test_what_works_on_does_not_settle(self) -> None:
        endless = ["sh", "-c", "while :; do :; done"]
        with child(endless) as running, self.assertRaises(TimeoutError):
            Process(running.pid).settle(Deadline(0.5))

    def test_the_last_reading_has_all_of_it(self) -> None:
        with worker() as (running, process):
            work(running)
            before = process.cpu_ns
            assert running.stdin
            running.stdin.close()
            last = process.last_cpu_ns(Deadline(DEADLINE_S))
            # It is reaped.
            running.returncode = 0
            # Microseconds are what is left of it.
            self.assertGreaterEqual(last, before // 1000 * 1000)

    def test_a_process_without_a_guardian_has_none(self) -> None:
        with worker() as (_, process), self.assertRaises(LookupError):
            process.guardian  # noqa: B018


class Finding(unittest.TestCase):
    def test_a_supervisor_is_found_by_its_arguments_and_its_guardian_is_not(
        self,
    ) -> None:
        fork = "import os; os.fork(); print(flush=True); input()"
        command = (sys.executable, "-c", fork)
        pipe = subprocess.PIPE
        with child(command, out=pipe, stdin=pipe) as running:
            for _ in range(2):
                next_line(running, Deadline(DEADLINE_S))
            self.assertEqual(supervisors(command), {Process(running.pid)})

    def test_there_is_room_for_a_process(self) -> None:
        self.assertGreater(room(), 0)


if __name__ == "__main__":
    unittest.main()
