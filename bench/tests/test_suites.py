"""The output of the programs becomes values of their own probes."""

import shutil
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from eigenbench import levels
from eigenbench.attach import Attach
from eigenbench.changes import change_suites, changes
from eigenbench.ground import Ground
from eigenbench.levels import Level
from eigenbench.members import Sizes, member_suites
from eigenbench.moments import (
    FIRST,
    LATER,
    MAKE,
    FirstWaits,
    Makes,
    moment_suites,
    write_project,
)
from eigenbench.named import named_suites
from eigenbench.processes import Deadline
from eigenbench.programs import Programs
from eigenbench.suites import Failure, Outcome, Suite, Value

# At this rate, a tick is a nanosecond.
TICKS_PER_S = 1e9
LEVEL = Level("here", "here", "", (("eigentime",),))


HOST = Level("host", "host", "", ((),))


def measured(
    name: str,
    script: str,
    suite: Callable[[Programs], Suite],
    wanted: Sequence[str],
    level: Level = HOST,
) -> list[Outcome]:
    """A round with a shell script as the program."""
    with TemporaryDirectory() as folder:
        program = Path(folder) / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        chosen = suite(Programs(Path(folder), TICKS_PER_S))
        return list(chosen.measure(level, wanted, Deadline(10)))


def named_reads(programs: Programs) -> Suite:
    """The first of the named timelines' suites."""
    return named_suites(programs)[0]


def some_changes(programs: Programs) -> Suite:
    """The changes that few members notice."""
    return change_suites(programs, Ground(Path()))[0]


class Named(unittest.TestCase):
    def test_probes_go_by_their_last_name_in_the_program(self) -> None:
        script = 'shift; for probe; do printf "$probe\\t10\\t500\\n"; done'
        wanted = ("named/realtime", "named/monotonic")
        self.assertEqual(
            measured("calls", script, named_reads, wanted),
            [Value(probe, 50.0) for probe in wanted],
        )

    def test_a_probe_that_hangs_the_program_fails_under_its_own_key(self) -> None:
        script = "echo broken >&2; exit 1"
        self.assertEqual(
            measured("calls", script, named_reads, ("named/realtime",)),
            [Failure("named/realtime", "broken")],
        )

    def test_keys_of_probes_are_unlike_in_all_suites(self) -> None:
        programs = Programs(Path(), TICKS_PER_S)
        suites: list[Suite] = [
            *named_suites(programs),
            *change_suites(programs, Ground(Path())),
            *moment_suites(programs, Path()),
            *member_suites(programs),
            Attach(programs),
        ]
        keys = [probe.key for suite in suites for probe in suite.probes]
        self.assertEqual(len(keys), len(set(keys)))


class Changing(unittest.TestCase):
    WANTED = ("change-1/command", "change-1/request")

    def test_every_change_is_a_value_of_its_own(self) -> None:
        script = r"printf 'command\t5\nrequest\t3\ncommand\t7\n'"
        self.assertEqual(
            measured("changes", script, some_changes, self.WANTED, LEVEL),
            [
                Value("change-1/command", 5.0, 0),
                Value("change-1/request", 3.0, 1),
                Value("change-1/command", 7.0, 2),
            ],
        )

    def test_what_was_measured_before_a_failure_is_kept(self) -> None:
        script = r"printf 'command\t5\n'; echo gone >&2; exit 1"
        self.assertEqual(
            measured("changes", script, some_changes, self.WANTED[:1], LEVEL),
            [
                Value("change-1/command", 5.0, 0),
                Failure("change-1/command", "gone"),
            ],
        )

    def test_other_lines_are_not_changes(self) -> None:
        self.assertEqual(list(changes("hello\nrequest\t3\n")), [("request", 3.0)])


class Moments(unittest.TestCase):
    def test_the_first_program_stands_apart_from_those_that_follow_it(self) -> None:
        # As many ticks as programs have been there, of a hundred calls each.
        script = 'echo >> "$0.log"; printf "poll\\t100\\t%d\\n" $(wc -l < "$0.log")'
        self.assertEqual(
            measured("calls", script, FirstWaits, (FIRST, LATER)),
            [Value(FIRST, 1.0), Value(LATER, 4.0)],
        )

    def test_a_program_that_fails_leaves_no_value(self) -> None:
        for script, reason in (
            (r"printf 'poll\twrong\tno pipe\n'", "no pipe"),
            ("echo gone >&2; exit 3", "gone"),
        ):
            self.assertEqual(
                measured("calls", script, FirstWaits, (FIRST,)),
                [Failure(FIRST, reason)],
            )

    def test_the_project_builds_again_and_again(self) -> None:
        if shutil.which("make") is None:
            self.skipTest("needs make")
        with TemporaryDirectory() as folder:
            write_project(Path(folder, "project"), units=3)
            suite = Makes(Programs(Path(), TICKS_PER_S), Path(folder))
            for _ in range(2):
                (outcome,) = suite.measure(HOST, (MAKE,), Deadline(60))
                self.assertIsInstance(outcome, Value)
            objects = sorted(file.name for file in Path(folder).rglob("*.o"))
            self.assertEqual(objects, ["main.o", "unit_0.o", "unit_1.o", "unit_2.o"])


class Crowds(unittest.TestCase):
    WANTED = ("members/100", "members/100/memory", "members/1000")

    def test_on_the_host_there_is_no_supervisor_to_look_at(self) -> None:
        script = "echo begin; read line; printf 'started\\t%d\\n' $((7 * $1)); "
        script += "read line; printf 'ended\\t5\\n'; read line"
        self.assertEqual(
            measured("static/crowd", script, Sizes, self.WANTED),
            [Value("members/100", 7.0), Value("members/1000", 7.0)],
        )

    def test_a_crowd_that_does_not_start_says_why(self) -> None:
        script = "echo begin; read line; echo no more processes >&2; exit 1"
        self.assertEqual(
            measured("static/crowd", script, Sizes, self.WANTED[:2]),
            [Failure(probe, "no more processes") for probe in self.WANTED[:2]],
        )

    def test_no_more_are_started_than_the_machine_lets_us(self) -> None:
        with patch("eigenbench.members.room", return_value=2_099):
            outcomes = measured("static/crowd", "exit 1", Sizes, self.WANTED[:1])
        reason = "no more than 2099 processes can be started here"
        self.assertEqual(outcomes, [Failure("members/100", reason)])


class Attaching(unittest.TestCase):
    WANTED = ("attach/1", "detach/1")

    def test_a_process_that_does_not_start_fails_every_step(self) -> None:
        with TemporaryDirectory() as folder:
            program = Path(folder) / "threads"
            program.write_text("#!/bin/sh\nexit 1\n")
            program.chmod(0o755)
            suite = Attach(Programs(Path(folder), TICKS_PER_S))
            outcomes = list(suite.measure(LEVEL, self.WANTED, Deadline(10)))
        reason = "the process did not start"
        self.assertEqual(outcomes, [Failure(probe, reason) for probe in self.WANTED])

    def test_a_stop_counts_only_if_the_clock_follows(self) -> None:
        with TemporaryDirectory() as folder:
            threads = Path(folder) / "threads"
            # Always at the host's rate, whatever the command prints.
            threads.write_text(
                "#!/bin/sh\necho ready\nwhile read line; do echo $3 $3; done\n"
            )
            command = Path(folder) / "eigentime"
            command.write_text(
                '#!/bin/sh\necho "{\\"threads\\": 1, \\"stopped_ns\\": 7}"\n'
            )
            for file in threads, command:
                file.chmod(0o755)
            level = Level(levels.ATTACHED, "", "", ((str(command),),))
            suite = Attach(Programs(Path(folder), TICKS_PER_S))
            outcomes = list(suite.measure(level, self.WANTED, Deadline(10)))
        reason = "its clock moves at 1.00 of the host's rate"
        self.assertEqual(outcomes, [Failure(probe, reason) for probe in self.WANTED])


if __name__ == "__main__":
    unittest.main()
