"""Tickers deliver to callbacks, loops, descriptors and counters, and count what they don't."""

from __future__ import annotations

import asyncio
import functools
import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import weakref

import eigentime

WAIT = 30.0
"""Longer than any test takes, in seconds."""


class Waiting(unittest.TestCase):
    def wait(self, event: threading.Event) -> None:
        self.assertTrue(event.wait(WAIT), "nothing has come")

    def ticker(self, **options: object) -> eigentime.Ticker:
        ticker = eigentime.Ticker(**options)  # type: ignore[arg-type]
        self.addCleanup(ticker.close)
        return ticker


class Callbacks(Waiting):
    def test_each_deadline_is_told_or_counted(self) -> None:
        ticks: list[eigentime.Tick] = []
        enough = threading.Event()

        def called(tick: eigentime.Tick) -> None:
            ticks.append(tick)
            if len(ticks) == 50:
                enough.set()

        event = self.ticker().every(0.0005, called)
        self.wait(enough)
        event.cancel()
        seen = list(ticks)
        self.assertGreaterEqual(len(seen), 50)
        told = 0
        for tick in seen:
            self.assertIs(type(tick), eigentime.Tick)
            told += tick.missed + 1
            self.assertEqual(tick.number, told - 1)
            self.assertGreaterEqual(tick.fired_ns, tick.due_ns - 1_000)
            # Deadlines are a fixed grid: errors do not accumulate.
            grid = seen[0].due_ns + (tick.number - seen[0].number) * 500_000
            self.assertLess(abs(tick.due_ns - grid), 1_000)
        self.assertLessEqual(event.delivered, event.counter)
        statistics = event.statistics()
        self.assertEqual(statistics.fired, event.counter)
        self.assertEqual(statistics.missed, event.missed)
        self.assertGreaterEqual(event.counter + event.missed, told)

    def test_a_busy_callback_does_not_delay_other_events(self) -> None:
        ticker = self.ticker()
        begun, finish = threading.Event(), threading.Event()

        def blocks(_: eigentime.Tick) -> None:
            begun.set()
            finish.wait(WAIT)

        self.addCleanup(finish.set)
        ticker.once(0.001, blocks)
        self.wait(begun)
        # No callback can run now: the deadlines of others still pass.
        counted = ticker.every(0.001)
        for tick in ticker.ticks(0.002):
            if tick.number >= 10:
                break
        self.assertGreaterEqual(counted.counter + counted.missed, 10)
        self.assertFalse(finish.is_set())

    def test_what_a_callback_slept_through_is_told_with_the_next(self) -> None:
        ticks: list[eigentime.Tick] = []
        begun, finish, again = (threading.Event() for _ in range(3))

        def called(tick: eigentime.Tick) -> None:
            ticks.append(tick)
            if len(ticks) == 1:
                begun.set()
                finish.wait(WAIT)
            else:
                again.set()

        self.addCleanup(finish.set)
        ticker = self.ticker()
        event = ticker.every(0.001, called)
        self.wait(begun)
        for tick in ticker.ticks(0.001):
            if tick.number >= 10:
                break
        finish.set()
        self.wait(again)
        event.cancel()
        self.assertGreater(ticks[1].missed, 0)
        self.assertEqual(ticks[1].number, ticks[0].number + ticks[1].missed + 1)

    def test_a_single_event_comes_once(self) -> None:
        ticks: list[eigentime.Tick] = []
        came = threading.Event()

        def called(tick: eigentime.Tick) -> None:
            ticks.append(tick)
            came.set()

        ticker = self.ticker()
        at = eigentime.now_ns() + 2_000_000
        event = ticker.once_at_ns(at, called)
        self.wait(came)
        self.assertFalse(event.active)
        self.assertEqual(event.counter, 1)
        self.assertLess(abs(ticks[0].due_ns - at), 1_000)
        self.assertEqual((ticks[0].number, ticks[0].missed), (0, 0))

    def test_what_a_callback_raises_is_shown_and_the_event_goes_on(self) -> None:
        shown: list = []
        twice = threading.Event()
        before = sys.unraisablehook
        self.addCleanup(setattr, sys, "unraisablehook", before)

        def hook(raised: object) -> None:
            shown.append(raised.exc_value)  # type: ignore[attr-defined]
            if len(shown) == 2:
                twice.set()

        sys.unraisablehook = hook

        def called(tick: eigentime.Tick) -> None:
            raise LookupError(tick.number)

        event = self.ticker().every(0.001, called)
        self.wait(twice)
        event.cancel()
        self.assertEqual({type(error) for error in shown}, {LookupError})

    def test_callbacks_run_in_a_thread_of_their_own(self) -> None:
        names: set = set()
        came = threading.Event()

        def called(_: eigentime.Tick) -> None:
            names.add(threading.current_thread().name)
            came.set()

        self.ticker().once(0, called)
        self.wait(came)
        self.assertEqual(names, {"eigentime-ticker"})

    def test_a_callback_can_add_and_cancel_and_close(self) -> None:
        ticker = self.ticker()
        added, closed = threading.Event(), threading.Event()

        def last(_: eigentime.Tick) -> None:
            ticker.close()
            closed.set()

        def first(_: eigentime.Tick) -> None:
            added.wait(WAIT)
            periodic.cancel()
            ticker.once(0.001, last)

        periodic = ticker.every(0.001, first)
        added.set()
        self.wait(closed)
        self.assertFalse(periodic.active)
        with self.assertRaises(RuntimeError):
            ticker.statistics()

    def test_no_callback_after_cancel_or_close(self) -> None:
        for way in ["cancel", "close"]:
            with self.subTest(way):
                over: list = []
                late: list = []
                came = threading.Event()

                def called(_: eigentime.Tick, over=over, late=late, came=came) -> None:
                    late.extend(over)
                    came.set()

                ticker = self.ticker()
                event = ticker.every(0.0002, called)
                self.wait(came)
                event.cancel() if way == "cancel" else ticker.close()
                if way == "cancel":
                    # The callback that had begun is over once another one has come and gone.
                    passed = threading.Event()
                    ticker.once(0, lambda _, passed=passed: passed.set())
                    self.wait(passed)
                over.append(way)
                for _ in range(5):
                    eigentime.Sleeper().sleep(0.001)
                self.assertEqual(late, [])

    def test_what_a_callback_refers_to_is_let_go_with_its_event(self) -> None:
        class Data:
            """Something that can be referred to weakly."""

        def called(_: eigentime.Tick, data: Data) -> None:
            came.set()

        ticker = self.ticker()
        for way in ["once", "cancel"]:
            with self.subTest(way):
                came = threading.Event()
                data = Data()
                alive = weakref.ref(data)
                callback = functools.partial(called, data=data)
                if way == "once":
                    event = ticker.once(0.001, callback)
                else:
                    event = ticker.every(0.001, callback)
                del callback, data
                self.wait(came)
                if way == "cancel":
                    self.assertIsNotNone(alive())
                    event.cancel()
                # A callback that is being called is released when it returns.
                deadline = time.monotonic() + WAIT / 10
                while alive() and time.monotonic() < deadline:
                    time.sleep(0.001)
                self.assertIsNone(alive())
                self.assertFalse(event.active)

    def test_code_that_runs_when_a_callback_is_let_go_can_use_its_ticker(self) -> None:
        class Data:
            def __del__(self) -> None:
                event.cancel()
                ticker.every(0.01).cancel()
                over.set()

        over = threading.Event()
        ticker = self.ticker()
        event = ticker.every(WAIT, functools.partial(print, Data()))
        event.cancel()
        self.wait(over)


class Loops(Waiting):
    def test_a_loop_gets_every_deadline_or_its_count(self) -> None:
        told = 0
        with self.ticker().ticks(0.001) as ticks:
            for tick in ticks:
                told += 1 + tick.missed
                self.assertEqual(tick.number, told - 1)
                if tick.number >= 20:
                    break
        self.assertEqual(list(ticks), [])
        self.assertIn("removed", str(ticks.statistics().ended))

    def test_a_loop_that_is_behind_is_told(self) -> None:
        ticker = self.ticker()
        ticks = ticker.ticks_ns(500_000)
        next(ticks)
        for tick in ticker.ticks(0.001):
            if tick.number >= 5:
                break
        self.assertGreater(next(ticks).missed, 0)

    def test_closing_ends_a_loop_that_waits(self) -> None:
        ticker = self.ticker()
        ticks = ticker.ticks(WAIT)
        waiting = threading.Event()
        rest: list = [None]

        def wait() -> None:
            waiting.set()
            rest[:] = list(ticks)

        thread = threading.Thread(target=wait)
        thread.start()
        self.wait(waiting)
        ticker.close()
        thread.join(WAIT)
        self.assertEqual(rest, [])

    def test_ctrl_c_ends_a_loop(self) -> None:
        # Each tick that comes would also be a chance to see the signal: so there is none.
        raised: list = []
        over = threading.Event()

        def handler(*arguments: object) -> None:
            if not raised:
                raised.append(1)
                signal.default_int_handler(*arguments)  # type: ignore[arg-type]

        before = signal.signal(signal.SIGINT, handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def interrupt() -> None:
            while not over.wait(0.05):
                os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        ticks = self.ticker().ticks(WAIT)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        with self.assertRaises(KeyboardInterrupt):
            next(ticks)

    def test_a_loop_that_is_dropped_is_over(self) -> None:
        ticker = self.ticker()
        ticks = ticker.ticks(0.0001)
        next(ticks)
        del ticks
        fired = ticker.statistics().fired
        eigentime.Sleeper().sleep(0.002)
        self.assertEqual(ticker.statistics().fired, fired)


class Descriptors(Waiting):
    def test_asyncio_reads_it(self) -> None:
        async def count(ticker: eigentime.Ticker) -> int:
            loop = asyncio.get_running_loop()
            enough: asyncio.Future = loop.create_future()
            passed = 0

            def readable() -> None:
                nonlocal passed
                passed += int.from_bytes(os.read(event.fileno(), 8), sys.byteorder)
                if passed >= 10 and not enough.done():
                    enough.set_result(passed)

            with ticker.every(0.001, eventfd=True) as event:
                loop.add_reader(event.fileno(), readable)
                try:
                    return await asyncio.wait_for(enough, WAIT)
                finally:
                    loop.remove_reader(event.fileno())

        self.assertGreaterEqual(asyncio.run(count(self.ticker())), 10)

    def test_only_those_that_asked_have_one(self) -> None:
        ticker = self.ticker()
        with self.assertRaisesRegex(ValueError, "eventfd=True"):
            ticker.every(0.01).fileno()
        with self.assertRaisesRegex(ValueError, "make two events"):
            ticker.every(0.01, print, eventfd=True)


class Counters(Waiting):
    def test_a_counter_counts_without_the_interpreter(self) -> None:
        event = self.ticker().every_ns(100_000)
        # One bytecode after another, never waiting: this thread keeps the interpreter.
        deadline = time.monotonic() + WAIT
        while event.counter < 10 and time.monotonic() < deadline:
            pass
        self.assertGreaterEqual(event.counter, 10)
        self.assertEqual(event.delivered, 0)
        self.assertTrue(event.active)

    def test_a_start_gives_the_phase(self) -> None:
        ticker = self.ticker()
        start = eigentime.now_ns() + 3_000_000
        tick = next(ticker.ticks_ns(1_000_000, start_ns=start))
        self.assertLess(abs(tick.due_ns - tick.number * 1_000_000 - start), 1_000)


class Life(Waiting):
    def test_closed_is_closed(self) -> None:
        with eigentime.Ticker() as ticker:
            event = ticker.every(0.001, print_nothing)
        ticker.close()
        self.assertFalse(event.active)
        event.cancel()
        for use in [
            lambda: ticker.every(0.001),
            lambda: ticker.ticks(0.001),
            ticker.statistics,
            ticker.__enter__,
        ]:
            with self.assertRaisesRegex(RuntimeError, "closed: make another"):
                use()

    def test_a_ticker_that_is_dropped_is_over(self) -> None:
        ticker = eigentime.Ticker()
        event = ticker.every(0.001, print_nothing)
        gone = weakref.ref(ticker)
        (thread,) = [
            thread for thread in threading.enumerate() if thread.name == "eigentime-ticker"
        ]
        del ticker
        gc.collect()
        self.assertIsNone(gone())
        self.assertFalse(event.active)
        thread.join(WAIT)
        self.assertFalse(thread.is_alive())

    def test_a_program_ends_with_its_ticker_running(self) -> None:
        program = (
            "import eigentime, threading\n"
            "came = threading.Event()\n"
            "ticker = eigentime.Ticker()\n"
            "ticker.every(0.0002, lambda tick: came.set())\n"
            "ticks = ticker.ticks(0.0002)\n"
            "threading.Thread(target=lambda: list(ticks), daemon=True).start()\n"
            "came.wait()\n"
            "print('done')\n"
        )
        for _ in range(5):
            done = subprocess.run(
                [sys.executable, "-c", program],
                check=False,
                capture_output=True,
                text=True,
                timeout=WAIT,
            )
            self.assertEqual((done.returncode, done.stdout), (0, "done\n"))
            self.assertEqual(done.stderr, "")

    def test_a_fork_leaves_the_ticker_behind(self) -> None:
        ticker = self.ticker()
        event = ticker.every(0.001, print_nothing)
        ticks = ticker.ticks(0.001)
        next(ticks)
        child = os.fork()
        if child == 0:
            status = 1
            # Ends whatever waits forever.
            signal.alarm(int(WAIT))
            try:
                said = True
                for use in [lambda: ticker.every(0.001), lambda: next(ticks)]:
                    try:
                        use()
                        said = False
                    except RuntimeError as error:
                        said = said and "start a ticker here" in str(error)
                event.cancel()
                ticks.close()
                said = said and list(ticks) == []
                ticker.close()
                with eigentime.Ticker() as another:
                    came = threading.Event()
                    another.once(0, lambda _: came.set())
                    came.wait(WAIT)
                status = 0 if said and came.is_set() else 2
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.assertEqual(status, 0)
        # The parent's continues.
        self.assertIs(type(next(ticks)), eigentime.Tick)
        self.assertTrue(event.active)


class Refusing(Waiting):
    def test_values(self) -> None:
        ticker = self.ticker()
        for seconds, text in [
            (0, "period of 0"),
            (1e-9, "period of 1ns"),
            (-1, "seconds: -1 s is in the past"),
            (math.nan, "nan"),
        ]:
            with self.subTest(seconds), self.assertRaisesRegex(ValueError, text):
                ticker.every(seconds)
        with self.assertRaisesRegex(ValueError, "-1 ns"):
            ticker.every_ns(-1)
        with self.assertRaisesRegex(ValueError, "start_ns: -7 ns"):
            ticker.every(1, start_ns=-7)
        with self.assertRaisesRegex(ValueError, "beyond what can be counted"):
            ticker.once(1.8e10)
        with self.assertRaisesRegex(TypeError, "'no' can't be called|no can't be called"):
            ticker.every(1, "no")  # type: ignore[arg-type]
        for options in [{"realtime": 0}, {"pin": -1}, {"quantile": 2}, {"cpu": -1}]:
            with self.subTest(options), self.assertRaises(ValueError):
                eigentime.Ticker(**options)  # type: ignore[arg-type]

    def test_one_shield(self) -> None:
        ticker = self.ticker()
        first = ticker.every(0.01, shielded=True)
        with self.assertRaisesRegex(ValueError, "only one can be"):
            ticker.every(0.01, shielded=True)
        first.cancel()
        self.assertTrue(ticker.every(0.01, shielded=True).active)

    def test_a_full_ticker(self) -> None:
        ticker = self.ticker()
        with self.assertRaisesRegex(ValueError, "cancel some, or make another"):
            for _ in range(1_000_000):
                ticker.once(WAIT)

    def test_what_is_not_granted_is_said(self) -> None:
        lost = self.ticker(pin=100_000).degradation
        self.assertEqual(len(lost), 1)
        self.assertIn("100000", lost[0].what)


def print_nothing(_: eigentime.Tick) -> None:
    """A callback that does nothing."""


if __name__ == "__main__":
    unittest.main()
