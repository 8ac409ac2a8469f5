"""Sleeps end on time, let other threads run, and can be interrupted."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
import unittest

import eigentime

LONG = 30.0
"""Longer than any test takes: a sleep that should end before has failed."""


SHORT = [10_000 + 1_000 * (number % 7) for number in range(4_000)]


def kernel_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Sleeping(unittest.TestCase):
    def test_no_sleep_ends_early(self) -> None:
        sleeper = eigentime.Sleeper()
        for nanoseconds in [0, 1_000, 50_000, 2_000_000, *SHORT]:
            end = kernel_ns() + nanoseconds
            slept = sleeper.sleep_ns(nanoseconds)
            self.assertGreaterEqual(kernel_ns(), end)
            self.assertIs(type(slept), eigentime.Slept)
            self.assertEqual(slept.woke_ns - slept.target_ns, slept.miss_ns)
            end = kernel_ns() + nanoseconds
            sleeper.sleep(nanoseconds / 1e9)
            self.assertGreaterEqual(kernel_ns(), end)
            end = kernel_ns() + nanoseconds
            sleeper.sleep_until_ns(end)
            self.assertGreaterEqual(kernel_ns(), end)

    def test_seconds_and_nanoseconds_are_the_same(self) -> None:
        sleeper = eigentime.Sleeper()
        for sleep, span in [(sleeper.sleep, 0.002), (sleeper.sleep_ns, 2_000_000)]:
            before = eigentime.now_ordered_ns()
            slept = sleep(span)
            after = eigentime.now_ordered_ns()
            self.assertLessEqual(before + 2_000_000, slept.target_ns + 1_000)
            self.assertLessEqual(slept.woke_ns, after + 1_000)
        self.assertEqual(sleeper.sleep(0).lateness, "on time")

    def test_a_deadline_is_one_of_the_monotonic_clock(self) -> None:
        sleeper = eigentime.Sleeper()
        deadline = time.monotonic_ns() + 3_000_000
        slept = sleeper.sleep_until_ns(deadline)
        self.assertLess(abs(slept.target_ns - deadline), 1_000)
        self.assertGreaterEqual(time.monotonic_ns(), deadline)
        again = sleeper.sleep_until_ns(deadline)
        self.assertEqual((again.spun_ns, again.kernel_miss_ns), (0, None))

    def test_statistics_count(self) -> None:
        sleeper = eigentime.Sleeper()
        sleeps = [sleeper.sleep_ns(200_000) for _ in range(10)]
        statistics = sleeper.statistics()
        self.assertIs(type(statistics), eigentime.SleeperStatistics)
        self.assertEqual(statistics.sleeps, 10)
        self.assertGreaterEqual(statistics.slept_ns, 10 * 200_000 - 10_000)
        self.assertLess(abs(statistics.spun_ns - sum(slept.spun_ns for slept in sleeps)), 100)
        self.assertTrue(0 <= statistics.cpu <= 1)

    def test_nothing_is_spun_where_nothing_may_be(self) -> None:
        sleeper = eigentime.Sleeper(cpu=0)
        sleeps = [sleeper.sleep_ns(2_000_000) for _ in range(20)]
        self.assertEqual({slept.guard_ns for slept in sleeps}, {0})


class Interruption:
    """Signals this process from another thread, once `sleeper` sleeps in this one."""

    def __init__(self, sleeper: eigentime.Sleeper, number: int) -> None:
        self.sleeper = sleeper
        self.number = number
        self.refusal = ""
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        while not self.refusal and not self.over.is_set():
            try:
                self.sleeper.statistics()
            except RuntimeError as error:
                self.refusal = str(error)
        # Repeatedly: the first can come before the thread is in the kernel, to end its sleep there.
        while not self.over.wait(0.05):
            os.kill(os.getpid(), self.number)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


class Others(unittest.TestCase):
    def handle(self, number: int, handler: object) -> None:
        before = signal.signal(number, handler)  # type: ignore[arg-type]
        self.addCleanup(signal.signal, number, before)

    def test_another_thread_runs_meanwhile_and_can_end_it(self) -> None:
        raised: list = []

        def handler(*arguments: object) -> None:
            if not raised:
                raised.append(arguments)
                signal.default_int_handler(*arguments)  # type: ignore[arg-type]

        self.handle(signal.SIGINT, handler)
        sleeper = eigentime.Sleeper()
        interruption = Interruption(sleeper, signal.SIGINT)
        with interruption, self.assertRaises(KeyboardInterrupt):
            sleeper.sleep(LONG)
        # That the other thread saw this one sleep proves that the interpreter was free.
        self.assertIn("in use by another thread", interruption.refusal)
        self.assertEqual(sleeper.statistics().sleeps, 0)
        self.assertGreaterEqual(sleeper.statistics().interrupted, 1)
        sleeper.sleep_ns(1_000)
        self.assertEqual(sleeper.statistics().sleeps, 1)

    def test_a_sleep_goes_on_after_a_handler(self) -> None:
        handled: list = []
        self.handle(signal.SIGALRM, lambda *_: handled.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        slept = eigentime.Sleeper().sleep(0.2)
        self.assertEqual(handled, [1])
        self.assertGreaterEqual(slept.woke_ns, slept.target_ns)

    def test_it_can_go_to_another_thread(self) -> None:
        sleeper = eigentime.Sleeper()
        slept: list = []
        thread = threading.Thread(target=lambda: slept.append(sleeper.sleep_ns(1_000)))
        thread.start()
        thread.join()
        self.assertEqual(len(slept), 1)


class Refusing(unittest.TestCase):
    def refused(self, kind: type, *parts: str):
        return self.assertRaisesRegex(kind, "(?s)" + ".*".join(parts))

    def test_times(self) -> None:
        sleeper = eigentime.Sleeper()
        for seconds, parts in [
            (-1.5, ["seconds", "-1.5 s", "zero seconds or more"]),
            (math.nan, ["seconds", "nan", "zero or more"]),
            (math.inf, ["seconds", "inf s", "at most"]),
            (1e30, ["seconds", "at most"]),
        ]:
            with self.subTest(seconds), self.refused(ValueError, *parts):
                sleeper.sleep(seconds)
        for nanoseconds in [-1, 2**64]:
            parts = ["nanoseconds", str(nanoseconds), "0 to"]
            with self.subTest(nanoseconds), self.refused(ValueError, *parts):
                sleeper.sleep_ns(nanoseconds)
        with self.refused(ValueError, "monotonic_ns", "-5 ns"):
            sleeper.sleep_until_ns(-5)
        with self.refused(ValueError, "beyond what can be counted", "give less"):
            sleeper.sleep_ns(2**64 - 1)
        for wrong in ["1", None, 1.5]:
            with self.subTest(wrong), self.assertRaises(TypeError):
                sleeper.sleep_ns(wrong)  # type: ignore[arg-type]

    def test_options(self) -> None:
        for options, parts in [
            ({"quantile": 1.5}, ["quantile", "1.5"]),
            ({"quantile": math.nan}, ["quantile", "NaN"]),
            ({"cpu": -0.1}, ["-0.1"]),
            ({"max_guard": -1}, ["max_guard", "-1"]),
            ({"realtime": 0}, ["realtime", "0", "1 to 99"]),
            ({"realtime": 300}, ["realtime", "300", "1 to 99"]),
            ({"pin": -1}, ["pin", "-1", "first is 0"]),
        ]:
            with self.subTest(options), self.refused(ValueError, *parts):
                eigentime.Sleeper(**options)


class Privileges(unittest.TestCase):
    def test_a_processor_is_given_back(self) -> None:
        before = os.sched_getaffinity(0)
        cpu = min(before)
        with eigentime.Sleeper(pin=cpu) as sleeper:
            self.assertEqual(sleeper.degradation, ())
            self.assertEqual(os.sched_getaffinity(0), {cpu})
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_what_is_not_granted_is_said(self) -> None:
        with eigentime.Sleeper(pin=100_000) as sleeper:
            (lost,) = sleeper.degradation
            self.assertIs(type(lost), eigentime.Degradation)
            self.assertIn("100000", lost.what)
            self.assertEqual(str(lost), f"no {lost.what}: {lost.why}")

    def test_real_time_is_given_back(self) -> None:
        before = os.sched_getscheduler(0)
        sleeper = eigentime.Sleeper(realtime=10)
        if sleeper.degradation:
            self.skipTest(f"skipped: needs real-time priority 10: {sleeper.degradation[0]}")
        self.assertEqual(os.sched_getscheduler(0) & 0xFF, os.SCHED_FIFO)
        self.assertEqual(os.sched_getparam(0).sched_priority, 10)
        sleeper.close()
        self.assertEqual(os.sched_getscheduler(0), before)

    def test_it_is_given_back_without_being_closed(self) -> None:
        before = os.sched_getaffinity(0)
        sleeper = eigentime.Sleeper(pin=min(before))
        del sleeper
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_what_is_of_a_thread_stays_with_it(self) -> None:
        raised: list = []
        with eigentime.Sleeper(pin=min(os.sched_getaffinity(0))) as sleeper:

            def sleep() -> None:
                try:
                    sleeper.sleep(0)
                except RuntimeError as error:
                    raised.append(str(error))

            thread = threading.Thread(target=sleep)
            thread.start()
            thread.join()
        self.assertIn("make a sleeper in each thread", raised[0])

    def test_closed_is_closed(self) -> None:
        with eigentime.Sleeper() as sleeper:
            pass
        sleeper.close()
        for use in [lambda: sleeper.sleep(0), sleeper.statistics, sleeper.__enter__]:
            with self.assertRaisesRegex(RuntimeError, "closed: make another"):
                use()


if __name__ == "__main__":
    unittest.main()
