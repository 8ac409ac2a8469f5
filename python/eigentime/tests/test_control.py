"""Timelines that a test makes: their programs, their clocks, and their end."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest import mock

import eigentime_command
from eigentime import _timeline
from eigentime.aio import AsyncTimeline
from eigentime.timeline import Timeline, TimelineError

DAY = timedelta(days=1)
START = datetime(2038, 1, 19, tzinfo=timezone.utc)

# Prints what must be gone after it, and waits to be killed.
VICTIM = """
import os, time
from eigentime.timeline import Timeline

timeline = Timeline()
program = timeline.popen(["sleep", "1d"])
pids = [timeline.info()["supervisor"], program.pid, timeline._holder.pid]
print(timeline.environment()["EIGENTIME_RUNTIME_DIR"], *pids, flush=True)
time.sleep(1000)
"""


class TestCase(unittest.TestCase):
    def setUp(self) -> None:
        environment = mock.patch.dict(os.environ, eigentime_command.needed())
        environment.start()
        self.addCleanup(environment.stop)

    def assert_fails(self, code: str, function, *args, **keywords) -> TimelineError:
        with self.assertRaises(TimelineError) as caught:
            function(*args, **keywords)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception


class Clocks(TestCase):
    def test_they_move_as_they_are_told(self) -> None:
        with Timeline(date=START, freeze=True) as timeline:
            self.assertEqual(timeline.now(), START)
            self.assertEqual(timeline.leap(DAY).now, START + DAY)
            self.assertEqual(timeline.leap("1.5s").now, START + DAY + timedelta(seconds=1.5))
            state = timeline.set(date=START, rate=Fraction(1, 4))
            self.assertEqual((state.now, state.rate), (START, 0.25))
            self.assertEqual(timeline.thaw(rate=60).state, "running")
            timeline.wait(for_=timedelta(seconds=3))
            self.assertGreaterEqual(timeline.now(), START + timedelta(seconds=3))
            self.assertEqual(timeline.freeze().state, "frozen")
            self.assertEqual(timeline.show().fields["members"], [])
            saved = timeline.save()["clocks"]["realtime"]
            self.assertEqual(
                saved // 1000,
                (timeline.now() - START + (START - datetime.fromtimestamp(0, timezone.utc)))
                // timedelta(microseconds=1),
            )

    def test_what_is_refused_has_a_code(self) -> None:
        with Timeline() as timeline:
            self.assert_fails("refused", timeline.leap, "-1s")
            self.assert_fails("refused", timeline.skip, times=1)
            self.assert_fails("invalid_params", timeline.wait, idle=True, empty=True)
            self.assert_fails("timeout", timeline.wait, until="2200-01-01", timeout="1ms")
            with self.assertRaises(TypeError):
                timeline.leap(30)
            with self.assertRaises(TypeError):
                timeline.set(date=30)
        self.assert_fails("ended", timeline.now)

    def test_what_cannot_be_is_said_with_a_way_out(self) -> None:
        latest = datetime(9999, 12, 31, tzinfo=timezone.utc)
        for options, message, way_out in [
            ({"date": "never"}, "'never'", "2038-01-19"),
            ({"date": latest}, "cannot show this date", "2262-04-11"),
            ({"rate": float("nan")}, "'nan'", "0.001"),
            ({"skipidle": True}, "'--skipidle'", "'--skip-idle'"),
            ({"continue_": "no document"}, "cannot continue", ""),
        ]:
            with self.subTest(options):
                error = self.assert_fails("not_made", Timeline, **options)
                self.assertIn(message, error.message)
                self.assertIn(way_out, error.help or "")
        for connect in [partial(Timeline, name="--help"), partial(Timeline.connect, "--help")]:
            with self.assertRaisesRegex(TimelineError, "'--help'.*: a name has"):
                connect()
        with Timeline(freeze=True) as timeline:
            for function, given, message, way_out in [
                (timeline.set, {"rate": 0}, "'0': a rate cannot be zero", "freeze"),
                (timeline.set, {"rate": float("nan")}, "'nan'", "0.001"),
                (timeline.set, {"date": latest}, "cannot show this date", "2262-04-11"),
            ]:
                with self.subTest(given):
                    error = self.assert_fails("invalid_params", function, **given)
                    self.assertIn(message, error.message)
                    self.assertIn(way_out, error.help or "")
            frozen = self.assert_fails("timeout", timeline.wait, until="2200-01-01", timeout="1ms")
            self.assertIn("are frozen", frozen.message)
            self.assertIn("thaw", frozen.help or "")

    def test_one_goes_on_from_what_another_has_saved(self) -> None:
        with Timeline(date=START, freeze=True, rate=None) as timeline:
            saved = timeline.save()
        for document in [saved, json.dumps(saved), json.dumps(saved).encode()]:
            with Timeline(continue_=document) as continued:
                self.assertEqual(continued.now(), START)

    def test_idle_time_is_skipped_when_allowed(self) -> None:
        with Timeline(date=START, skip_idle=True, skips=0) as timeline:
            program = timeline.popen(["sleep", "1d"])
            timeline.wait(blocked={"pid": program.pid})
            timeline.skip(times=1)
            self.assertEqual(program.wait(), 0)

    def test_a_wait_holds_nothing_up(self) -> None:
        with Timeline(date=START) as timeline:
            waiting = threading.Thread(target=timeline.wait, kwargs={"until": START + DAY})
            waiting.start()
            timeline.leap(2 * DAY)
            waiting.join()

    def test_without_the_command(self) -> None:
        with mock.patch.dict(os.environ, {"EIGENTIME": "no-such-command"}):
            self.assert_fails("not_installed", Timeline)
        with mock.patch.dict(os.environ, {"EIGENTIME": "/bin/true"}):
            for code, function in [
                ("not_made", Timeline),
                ("not_found", partial(Timeline.connect, "x")),
            ]:
                error = self.assert_fails(code, function)
                self.assertIn("'/bin/true' tells of no timeline", error.message)
                self.assertIn("EIGENTIME", error.help or "")

    def test_without_a_directory_for_temporary_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            missing = os.path.join(folder, "missing")
            with mock.patch.dict(os.environ, TMPDIR=missing):
                error = self.assert_fails("not_made", Timeline)
        self.assertIn(missing, error.message)
        self.assertIn("set TMPDIR", error.help or "")


class Programs(TestCase):
    def test_popen_takes_what_subprocess_takes(self) -> None:
        ways = [
            (["sh", "-c", 'echo "$0 $A"', "x"], {"env": {"A": "1"}}, "x 1\n"),
            ("echo $0 $A", {"shell": True, "env": {"A": "2"}}, "/bin/sh 2\n"),
            (["name", "-c", "echo $0"], {"executable": "/bin/sh"}, "name\n"),
            (Path("/bin/pwd"), {"cwd": "/"}, "/\n"),
            ([b"date", b"-u", b"+%Y"], {}, "2038\n"),
        ]
        with Timeline(date=START) as timeline:
            for args, options, output in ways:
                with self.subTest(args):
                    program = timeline.popen(args, stdout=subprocess.PIPE, text=True, **options)
                    self.assertEqual(program.communicate()[0], output)
            done = timeline.run(["no-such-program"], stderr=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 127)

    def test_a_program_is_a_member_and_sleeps_until_the_leap(self) -> None:
        with Timeline(date=START) as timeline:
            events = timeline.events()
            program = timeline.popen(["sleep", "10d"])
            timeline.wait(idle=True)
            members = [member["pid"] for member in timeline.show().fields["members"]]
            self.assertEqual(members, [program.pid])
            timeline.leap("11d")
            self.assertEqual(program.wait(), 0)
            timeline.wait(empty=True)
        told = [(event.event, event.fields.get("pid")) for event in events]
        self.assertEqual(told[0], ("joined", program.pid))
        self.assertIn(("ended", program.pid), told)
        self.assertEqual(told[-1], ("removed", None))

    def test_asyncio(self) -> None:
        async def main() -> None:
            async with AsyncTimeline(date=START) as timeline:
                program = await timeline.popen(["sleep", "10d"])
                await timeline.wait(idle=True)
                waiting = asyncio.ensure_future(timeline.wait(until=START + 10 * DAY))
                never = asyncio.ensure_future(timeline.wait(until=START + 100 * DAY))
                self.assertGreaterEqual((await timeline.leap(11 * DAY)).now, START + 11 * DAY)
                await waiting
                never.cancel()
                self.assertEqual(await program.wait(), 0)
                done = await timeline.run(
                    ["cat"], input=b"text", stdout=subprocess.PIPE, check=True
                )
                self.assertEqual((done.returncode, done.stdout), (0, b"text"))
                with self.assertRaises(subprocess.CalledProcessError):
                    await timeline.run(["false"], check=True)
                endless = timeline.run(["sleep", "1000d"])
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(endless, 0.5)
                await timeline.wait(empty=True)
                self.assertEqual((await timeline.show()).fields["members"], [])
                with self.assertRaises(TypeError):
                    await timeline.skip(time=1)
            with self.assertRaises(TimelineError):
                await timeline.now()

        asyncio.run(main())

    def test_another_environment_leads_to_it_too(self) -> None:
        shown = ["/bin/sh", "-c", "echo $A; date -u +%Y"]
        ways = [{"name": "shop"}, {"joinable": True}, {}]
        for variable in ["EIGENTIME_RUNTIME_DIR", "XDG_RUNTIME_DIR"]:
            for options in ways:
                with (
                    self.subTest(variable, **options),
                    tempfile.TemporaryDirectory() as folder,
                    tempfile.TemporaryDirectory() as other,
                    mock.patch.dict(os.environ, {"EIGENTIME_RUNTIME_DIR": "", variable: folder}),
                    Timeline(date=START, **options) as made,
                    Timeline.connect("shop") if "name" in options else made as timeline,
                ):
                    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": other, "A": "a"}
                    done = timeline.run(shown, env=env, stdout=subprocess.PIPE, text=True)
                    self.assertEqual((done.returncode, done.stdout), (0, "a\n2038\n"))

    def test_a_wait_goes_on_when_another_supervisor_takes_over(self) -> None:
        name = f"kept-{os.getpid()}"
        sent = threading.Semaphore(0)

        class Sending(socket.socket):
            def sendall(self, *args) -> None:
                super().sendall(*args)
                sent.release()

        async def main() -> None:
            async with AsyncTimeline(name=name, date=START, keep_running=True) as timeline:
                before = (await timeline.info())["supervisor"]
                until = {"until": START + DAY}
                with mock.patch.object(socket, "socket", Sending):
                    same = Timeline.connect(name)
                    waits = [
                        asyncio.ensure_future(asyncio.to_thread(same.wait, **until)),
                        asyncio.ensure_future(timeline.wait(**until)),
                        asyncio.ensure_future(timeline.wait(ended=True)),
                    ]
                    for _ in waits:
                        await asyncio.to_thread(sent.acquire)
                # What was sent earlier is read earlier.
                await timeline.info()
                adopting = [os.environ["EIGENTIME"], "ctl", "adopt", name]
                await asyncio.to_thread(subprocess.run, adopting, check=True, capture_output=True)
                self.assertNotEqual((await timeline.info())["supervisor"], before)
                self.assertEqual([wait.done() for wait in waits], [False] * 3)
                await timeline.leap(2 * DAY)
                await asyncio.gather(*waits[:2])
            self.assertEqual(await waits[2], {})

        asyncio.run(main())


class Ends(TestCase):
    def test_after_an_exception(self) -> None:
        with self.assertRaises(ZeroDivisionError), Timeline() as timeline:
            program = timeline.popen(["sleep", "1d"])
            directory = timeline.environment()["EIGENTIME_RUNTIME_DIR"]
            raise ZeroDivisionError
        self.assertEqual(program.wait(), -signal.SIGKILL)
        self.assertFalse(os.path.exists(directory))

    def test_it_is_known_afterwards(self) -> None:
        with Timeline() as timeline:
            pass
        self.assertEqual(timeline.wait(ended=True), {})
        self.assert_fails("ended", timeline.wait, idle=True)
        self.assert_fails("ended", timeline.popen, ["true"])
        self.assert_fails("ended", timeline.run, ["true"])

        async def main() -> None:
            async with AsyncTimeline() as timeline:
                waiting = asyncio.ensure_future(timeline.wait(ended=True))
            self.assertEqual(await waiting, {})
            self.assertEqual(await timeline.wait(ended=True), {})
            with self.assertRaisesRegex(TimelineError, "it has ended"):
                await timeline.popen(["true"])

        asyncio.run(main())

    def test_a_supervisor_that_does_not_answer_is_given_up(self) -> None:
        with (
            Timeline() as timeline,
            tempfile.TemporaryDirectory() as folder,
            socket.socket(socket.AF_UNIX) as stopped,
            mock.patch.object(_timeline, "PATIENCE", 0.1),
        ):
            timeline._socket = os.path.join(folder, "socket")
            stopped.bind(timeline._socket)
            stopped.listen()
            for function in [timeline.now, timeline.events]:
                error = self.assert_fails("silent", function)
                self.assertIn("within 0.1 s", error.message)
                self.assertIn("kill -CONT", error.help or "")

            async def ask() -> None:
                async with AsyncTimeline() as other:
                    other._socket = timeline._socket
                    await other.now()

            with self.assertRaisesRegex(TimelineError, "within 0.1 s"):
                asyncio.run(ask())

    def test_when_its_supervisor_was_killed(self) -> None:
        with Timeline() as timeline:
            supervisor = timeline.info()["supervisor"]
            pidfd = os.pidfd_open(supervisor)
            os.kill(supervisor, signal.SIGKILL)
            select.select([pidfd], [], [])
            os.close(pidfd)
            self.assert_fails("ended", timeline.now)
            self.assertEqual(timeline.wait(ended=True), {})
            program = timeline.run(["true"], stderr=subprocess.PIPE, text=True)
            self.assertEqual(program.returncode, 125)
            self.assertIn("it has ended", program.stderr)

    def test_when_the_test_is_killed(self) -> None:
        victim = subprocess.Popen([sys.executable, "-c", VICTIM], stdout=subprocess.PIPE, text=True)
        directory, *pids = victim.stdout.readline().split()
        pidfds = [os.pidfd_open(int(pid)) for pid in pids]
        victim.kill()
        victim.communicate()
        for pidfd in pidfds:
            self.assertTrue(select.select([pidfd], [], [], 60)[0], "it has not ended")
            os.close(pidfd)
        self.assertFalse(os.path.exists(directory))

    def test_a_forked_process_leaves_it(self) -> None:
        with Timeline() as timeline:
            child = os.fork()
            if child == 0:
                timeline.close()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            timeline.now()

    def test_forked_processes_do_not_hold_it(self) -> None:
        ends, held = os.pipe()
        with Timeline():
            child = os.fork()
            if child == 0:
                os.close(held)
                select.select([ends], [], [], 60)
                os._exit(0)
        self.assertEqual(os.waitpid(child, os.WNOHANG)[0], 0, "it was waited for")
        os.close(held)
        os.waitpid(child, 0)
        os.close(ends)

    def test_when_its_holder_was_killed(self) -> None:
        timeline = Timeline()
        program = timeline.popen(["sleep", "1d"])
        timeline.wait(blocked={"pid": program.pid})
        os.kill(timeline._holder.pid, signal.SIGKILL)
        self.assertEqual(program.wait(), -signal.SIGKILL)
        self.assertIn("status -9", self.assert_fails("refused", timeline.close).message)

    def test_a_path_may_be_long(self) -> None:
        with tempfile.TemporaryDirectory() as short:
            long = os.path.join(short, "long" * 50)
            os.mkdir(long)
            with mock.patch.dict(os.environ, TMPDIR=long), Timeline() as timeline:
                timeline.now()

    def test_a_name_is_for_others_too(self) -> None:
        name = f"test-{os.getpid()}"
        with Timeline(name=name, date=START, freeze=True):
            self.assert_fails("not_made", Timeline, name=name)
            with Timeline.connect(name) as connected:
                self.assertEqual(connected.now(), START)
            Timeline.connect(name).now()

            async def connect() -> datetime:
                async with AsyncTimeline.connect(name) as connected:
                    return await connected.now()

            self.assertEqual(asyncio.run(connect()), START)
        self.assert_fails("not_found", Timeline.connect, name)


if __name__ == "__main__":
    unittest.main()
