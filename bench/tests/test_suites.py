"""The output of the programs becomes values of their own probes."""

import unittest
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from eigenbench import levels
from eigenbench.attach import Attach
from eigenbench.changes import Changes, changes
from eigenbench.levels import Level
from eigenbench.named import named_suites
from eigenbench.processes import Deadline
from eigenbench.programs import Programs
from eigenbench.suites import Failure, Outcome, Suite, Value

# At this rate, a tick is a nanosecond.
TICKS_PER_S = 1e9
LEVEL = Level("here", "here", "", (("eigentime",),))


def measured(
    name: str, script: str, suite: type[Changes] | None, wanted: Sequence[str]
) -> list[Outcome]:
    """A round with a shell script as the program."""
    with TemporaryDirectory() as folder:
        program = Path(folder) / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        programs = Programs(Path(folder), TICKS_PER_S)
        chosen: Suite = suite(programs) if suite else named_suites(programs)[0]
        level = LEVEL if suite else Level("host", "host", "", ((),))
        return list(chosen.measure(level, wanted, Deadline(10)))


class Named(unittest.TestCase):
    def test_probes_go_by_their_last_name_in_the_program(self) -> None:
        script = 'shift; for probe; do printf "$probe\\t10\\t500\\n"; done'
        wanted = ("named/realtime", "named/monotonic")
        self.assertEqual(
            measured("calls", script, None, wanted),
            [Value(probe, 50.0) for probe in wanted],
        )

    def test_a_probe_that_hangs_the_program_fails_under_its_own_key(self) -> None:
        script = "echo broken >&2; exit 1"
        self.assertEqual(
            measured("calls", script, None, ("named/realtime",)),
            [Failure("named/realtime", "broken")],
        )

    def test_keys_of_probes_are_unlike_in_all_suites(self) -> None:
        programs = Programs(Path(), TICKS_PER_S)
        suites = [*named_suites(programs), Changes(programs), Attach(programs)]
        keys = [probe.key for suite in suites for probe in suite.probes]
        self.assertEqual(len(keys), len(set(keys)))


class Changing(unittest.TestCase):
    WANTED = ("change-1/command", "change-1/request")

    def test_every_change_is_a_value_of_its_own(self) -> None:
        script = r"printf 'command\t5\nrequest\t3\ncommand\t7\n'"
        self.assertEqual(
            measured("changes", script, Changes, self.WANTED),
            [
                Value("change-1/command", 5.0, 0),
                Value("change-1/request", 3.0, 1),
                Value("change-1/command", 7.0, 2),
            ],
        )

    def test_what_was_measured_before_a_failure_is_kept(self) -> None:
        script = r"printf 'command\t5\n'; echo gone >&2; exit 1"
        self.assertEqual(
            measured("changes", script, Changes, self.WANTED[:1]),
            [
                Value("change-1/command", 5.0, 0),
                Failure("change-1/command", "gone"),
            ],
        )

    def test_other_lines_are_not_changes(self) -> None:
        self.assertEqual(list(changes("hello\nrequest\t3\n")), [("request", 3.0)])


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
