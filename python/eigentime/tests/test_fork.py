"""A forked child runs by itself and does not disturb its parent."""

import multiprocessing
import os
import traceback
import unittest
from collections.abc import Callable

import eigentime


def in_child(act: Callable[[], None]) -> int:
    """Runs this in a forked child and returns its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        except Exception:  # noqa: BLE001 - whatever it is, show it
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def read_in_child() -> "tuple[eigentime.Reading, int]":
    return eigentime.now_with_error(), eigentime.Sleeper().sleep_ns(100_000).miss_ns


class Fork(unittest.TestCase):
    def test_the_clock_is_the_same(self) -> None:
        before = eigentime.now_ordered_ns()

        def act() -> None:
            assert eigentime.now_ordered_ns() >= before
            eigentime.upkeep()
            assert eigentime.now_ordered_ns() >= before

        self.assertEqual(in_child(act), 0)

    def test_a_sleeper_sleeps_in_both(self) -> None:
        sleeper = eigentime.Sleeper()
        sleeper.sleep_ns(100_000)

        def act() -> None:
            # If they shared the timer, the parent's sleep would end with this one.
            for _ in range(20):
                slept = sleeper.sleep_ns(500_000)
                assert slept.woke_ns >= slept.target_ns

        child = os.fork()
        if child == 0:
            os._exit(in_child(act))
        slept = sleeper.sleep(0.05)
        self.assertGreaterEqual(slept.woke_ns, slept.target_ns)
        status = os.waitpid(child, 0)[1]
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_multiprocessing(self) -> None:
        for method in ["fork", "spawn", "forkserver"]:
            with self.subTest(method):
                context = multiprocessing.get_context(method)
                with context.Pool(1) as pool:
                    reading, miss = pool.apply(read_in_child)
                self.assertIs(type(reading), eigentime.Reading)
                self.assertGreaterEqual(miss, 0)


if __name__ == "__main__":
    unittest.main()
