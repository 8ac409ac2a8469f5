"""The pytest plugin: tests that have a timeline, and tests that run in one."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import eigentime_command

README = Path(__file__).resolve().parents[1] / "README.md"

TESTS = """
import os, time
import pytest

@pytest.fixture(scope="module", autouse=True)
def of_the_module():
    yield

pytestmark = pytest.mark.timeline(date="2038-01-19T00:00Z")

def test_fixture(timeline):
    assert timeline.now().year == 2038
    assert time.gmtime().tm_year < 2038

def test_fails_outside(timeline):
    timeline.leap("30d")
    assert False

@pytest.mark.timeline(inside=True)
class TestInside:
    @pytest.mark.timeline(rate=86400)
    @pytest.mark.parametrize("text", ["a::b[1]"])
    def test_starts_at_the_date(self, text, tmp_path, timeline):
        assert time.gmtime().tm_year == 2038
        begin = time.monotonic()
        timeline.leap("60d")
        assert time.monotonic() - begin >= 60 * 86400

    def test_fails_inside(self):
        print("said inside")
        assert time.gmtime().tm_year != 2038

    def test_skips(self):
        pytest.skip("a reason")

    @pytest.mark.xfail
    def test_is_expected_to_fail(self):
        assert False

    def test_crashes(self):
        os._exit(3)

@pytest.fixture
def broken():
    yield
    raise RuntimeError("torn down inside")

@pytest.mark.timeline(inside=True)
def test_tears_down(broken):
    pass
"""

OTHER = """
def test_another_module():
    pass
"""


class Plugin(unittest.TestCase):
    def pytest(self, tests: dict, *arguments: str) -> str:
        environment = eigentime_command.needed()
        if find_spec("xdist") is None:
            self.skipTest("skipped: needs pytest and pytest-xdist, which `make python` installs")
        with tempfile.TemporaryDirectory() as folder:
            for name, text in tests.items():
                Path(folder, name).write_text(text)
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
            done = subprocess.run(
                [*command, "--strict-markers", "-rA", *arguments],
                check=False,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
            )
        return done.stdout + done.stderr

    def check(self, *arguments: str) -> None:
        said = self.pytest({"test_a.py": TESTS, "test_b.py": OTHER}, *arguments)
        summary = re.findall(
            r"^(PASSED|FAILED|ERROR|XFAIL) \S*?::(?:TestInside::)?(\w+)", said, re.MULTILINE
        )
        self.assertEqual(
            sorted(summary),
            [
                ("ERROR", "test_tears_down"),
                ("FAILED", "test_crashes"),
                ("FAILED", "test_fails_inside"),
                ("FAILED", "test_fails_outside"),
                ("PASSED", "test_another_module"),
                ("PASSED", "test_fixture"),
                ("PASSED", "test_starts_at_the_date"),
                ("PASSED", "test_tears_down"),
                ("XFAIL", "test_is_expected_to_fail"),
            ],
            said,
        )
        self.assertRegex(said, r"SKIPPED \[1\] .*: a reason")
        self.assertRegex(said, r"- virtual time -+\n2038-02-18T00:00:.* \(running, rate 1\)")
        self.assertRegex(said, r"said inside\n-+ virtual time -+\n2038-01-19T00:00:")
        self.assertIn("the process in the timeline has ended with 3", said)
        self.assertIn("RuntimeError: torn down inside", said)

    def test_outcomes(self) -> None:
        self.check()

    def test_outcomes_in_parallel(self) -> None:
        self.check("--numprocesses=2")

    def test_warnings_that_are_errors(self) -> None:
        strict = """
import time
import pytest

@pytest.mark.timeline(date="2038-01-19", inside=True)
def test_inside(timeline):
    assert time.gmtime().tm_year == 2038
    assert timeline.now().year == 2038
"""
        tests = {"test_strict.py": strict, "pytest.ini": "[pytest]\nfilterwarnings = error\n"}
        self.assertRegex(self.pytest(tests), "= 1 passed in")
        # Where it does not find plugins by itself.
        name = "eigentime.pytest_plugin"
        loads = f"pytest_plugins = [{name!r}]"
        with mock.patch.dict(os.environ, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"):
            self.assertRegex(self.pytest(tests, "-W", "error", "-p", name), "= 1 passed in")
            self.assertRegex(self.pytest({**tests, "conftest.py": loads}), "= 1 passed in")
            with mock.patch.dict(os.environ, PYTEST_PLUGINS=name):
                self.assertRegex(self.pytest(tests), "= 1 passed in")

    def test_groups_of_xdist(self) -> None:
        grouped = """
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.timeline(inside=True)
def test_inside(): pass
"""
        arguments = ["--numprocesses=1", "--dist=loadgroup"]
        said = self.pytest({"test_grouped.py": grouped}, *arguments)
        self.assertRegex(said, "= 1 passed in")

    def test_wrong_options_are_errors(self) -> None:
        wrong = """
import pytest

@pytest.mark.timeline(date="never", inside=True)
def test_inside(): pass

@pytest.mark.timeline(date="never")
def test_outside(timeline): pass

@pytest.mark.timeline(dat="2038-01-19")
def test_unknown(timeline): pass
"""
        said = self.pytest({"test_wrong.py": wrong})
        self.assertRegex(said, "1 failed, 2 errors in")
        self.assertEqual(len(re.findall("^invalid value 'never'", said, re.MULTILINE)), 2)
        self.assertRegex(said, "unexpected argument '--dat'.*\nhelp: .*'--date'")
        self.assertNotIn("_timeline.py", said)

    def test_a_rate_that_cannot_be_is_an_error_inside_too(self) -> None:
        wrong = """
import pytest

@pytest.mark.timeline(rate=0, inside=True)
def test_inside(): pass

@pytest.mark.timeline(rate=0)
def test_outside(timeline): pass
"""
        said = self.pytest({"test_wrong.py": wrong})
        self.assertRegex(said, "2 errors in")
        # In continuous integration, pytest's summary repeats the messages.
        errors = re.findall("^(?!ERROR ).*'0'.*: a rate cannot be zero\nhelp: ", said, re.MULTILINE)
        self.assertEqual(len(errors), 2, said)
        self.assertNotIn("INTERNALERROR", said)

    def test_a_marker_without_effect_is_an_error(self) -> None:
        wrong = """
import pytest

pytestmark = pytest.mark.timeline(date="2038-01-19")

def test_of_a_module_with_others(): pass

@pytest.mark.timeline(rate=2)
def test_without_the_fixture(): pass

@pytest.mark.timeline(rate=2)
@pytest.mark.usefixtures("timeline")
def test_with_it(): pass
"""
        said = self.pytest({"test_wrong.py": wrong})
        self.assertRegex(said, "2 passed, 1 error in")
        self.assertIn("the marker timeline has no effect\nhelp: ", said)

    def test_positional_options_are_errors_of_the_test(self) -> None:
        wrong = """
import pytest

@pytest.mark.timeline("2038-01-19")
def test_outside(): pass

@pytest.mark.timeline("2038-01-19", inside=True)
def test_inside(): pass

def test_other(): pass
"""
        said = self.pytest({"test_wrong.py": wrong}, "--numprocesses=1")
        self.assertRegex(said, "1 passed, 2 errors in")
        self.assertIn("takes keywords only", said)

    def test_what_ends_the_session(self) -> None:
        ending = """
import os, signal, time
import pytest

@pytest.fixture
def ends():
    yield
    pytest.exit("stop now", returncode=7)

@pytest.mark.timeline(inside=True)
def test_exits(): pytest.exit("stop now", returncode=7)

@pytest.mark.timeline(inside=True)
def test_exits_at_its_end(ends): pass

@pytest.mark.timeline(inside=True)
def test_is_interrupted(): os.kill(os.getpid(), signal.SIGINT)

@pytest.mark.timeline(inside=True)
def test_interrupts_the_session(timeline):
    os.kill(OUTER, signal.SIGINT)
    time.sleep(60)

def test_later(): pass
"""
        # The runner of the tests may ignore SIGINT.
        outer = (
            "import os, signal\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "os.environ.setdefault('OUTER', str(os.getpid()))\n"
        )
        ending = ending.replace("OUTER", "int(os.environ['OUTER'])")
        tests = {"conftest.py": outer, "test_ending.py": ending}
        for name, ended, summary in [
            ("test_exits", "Exit: stop now", "no tests ran"),
            ("test_exits_at_its_end", "Exit: stop now", "1 passed"),
            ("test_is_interrupted", "KeyboardInterrupt", "no tests ran"),
            ("test_interrupts_the_session", "KeyboardInterrupt", "no tests ran"),
        ]:
            with self.subTest(name):
                chosen = [f"test_ending.py::{test}" for test in (name, "test_later")]
                said = self.pytest(tests, *chosen)
                self.assertRegex(said, f"!!+ .*{ended}")
                self.assertRegex(said, f"=+ {summary} in ")

    def test_what_the_documentation_shows(self) -> None:
        shown = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        tests = [block for block in shown if "import pytest" in block]
        self.assertEqual(len(tests), 1)
        self.assertRegex(self.pytest({"test_shown.py": tests[0]}), "2 passed in")
        example = README.parent / "examples" / "timeline.py"
        body = example.read_text().partition('"""\n\n')[2]
        self.assertIn(body, shown)


if __name__ == "__main__":
    unittest.main()
