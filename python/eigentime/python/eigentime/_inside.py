"""Runs one test in a timeline: in a pytest process of its own, started with the same arguments.

    python -m eigentime._inside FILE

FILE says which test, and gets its reports.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eigentime.pytest_plugin import INSIDE, make
from eigentime.timeline import Timeline

# Options that are set once the test begins: starting pytest takes virtual time, too.
_AT_START = ("date", "offset", "rate")
# What ends the session, and is no outcome of the test.
_ENDS = (KeyboardInterrupt, pytest.exit.Exception)


def reports(
    item: pytest.Item, nextitem: pytest.Item | None, asked: dict[str, Any]
) -> Iterator[pytest.TestReport]:
    """Runs the test: its reports."""
    found: list[pytest.TestReport] = []
    try:
        call = pytest.CallInfo.from_call(
            lambda: found.extend(_run(item, asked)), "call", reraise=_ENDS
        )
    finally:
        yield from found
    if call.excinfo is not None:
        yield item.ihook.pytest_runtest_makereport(item=item, call=call)
    # Fixtures of modules and the like that the next test does not need: nothing else ends them here.
    setup: Any = item.session._setupstate
    teardown = pytest.CallInfo.from_call(
        lambda: setup.teardown_exact(nextitem), "teardown", reraise=_ENDS
    )
    if teardown.excinfo is not None or not any(
        report.when == "teardown" for report in found
    ):
        yield item.ihook.pytest_runtest_makereport(item=item, call=teardown)


def _run(item: pytest.Item, asked: dict[str, Any]) -> Iterator[pytest.TestReport]:
    config = item.config
    at_start = {key: asked[key] for key in _AT_START if asked.get(key) is not None}
    asked = {**asked, "rate": None}
    _module, _, rest = item.nodeid.partition("::")
    if config.getoption("loadgroup", False) and item.get_closest_marker("xdist_group"):
        rest = re.sub(r"@[^\]]*$", "", rest)  # what xdist may have added
    args = [*config.invocation_params.args, "--no-header", "--no-summary"]
    if config.pluginmanager.has_plugin("xdist"):
        args.append("-n0")
    if config.pluginmanager.has_plugin("pytest_cov"):
        args.append("--no-cov")
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    place = factory.mktemp("timeline")
    with make(asked) as timeline:
        told = {
            "args": args,
            "test": f"{item.path}::{rest}",
            "path": sys.path,
            "basetemp": place / "basetemp",
            "workerinput": getattr(config, "workerinput", {"workerid": "master"}),
            "timeline": timeline.name,
            "at_start": at_start,
        }
        file = place / "test"
        file.write_bytes(pickle.dumps(told))
        # With `-s`, what the test prints is for the terminal.
        shown = config.getoption("capture") == "no"
        done = timeline.run(
            [sys.executable, "-m", "eigentime._inside", str(file)],
            cwd=config.invocation_params.dir,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    torn_down = False
    for data in _read(place / "reports"):
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        report.nodeid = item.nodeid
        torn_down = torn_down or report.when == "teardown"
        yield report
    for exited in _read(place / "end"):
        if exited is None:
            raise KeyboardInterrupt
        pytest.exit(*exited)
    if not torn_down:
        said = "" if shown else f":\n{done.stdout}"
        text = f"the process in the timeline has ended with {done.returncode}"
        pytest.fail(f"{text} before the test had{said}", pytrace=False)


def _read(file: Path) -> Iterator[Any]:
    if file.exists():
        with file.open("rb") as stream:
            while stream.peek(1):
                yield pickle.load(stream)


class _Inside:
    """The plugin of the process in the timeline."""

    def __init__(self, told: dict[str, Any], place: Path) -> None:
        self._told = told
        self._place = place
        self.timeline = Timeline.connect(told["timeline"])
        # By which it is registered.
        self.__name__ = INSIDE

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        # Other plugins write no results of their own in a worker.
        config.workerinput = self._told["workerinput"]  # type: ignore[attr-defined]
        config.workeroutput = {}  # type: ignore[attr-defined]
        config.args = [self._told["test"]]
        config.option.basetemp = str(self._told["basetemp"])
        config.option.usepdb = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        if self._told["at_start"]:
            self.timeline.set(**self._told["at_start"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._write("reports", data)

    def pytest_keyboard_interrupt(
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> None:
        # That of `pytest.exit`, too; errors of the collection are of a class of their own.
        end = excinfo.value
        if isinstance(end, pytest.exit.Exception):
            self._write("end", (end.msg, end.returncode))
        elif type(end) is KeyboardInterrupt:
            self._write("end", None)

    def _write(self, name: str, data: Any) -> None:
        with (self._place / name).open("ab") as stream:
            pickle.dump(data, stream)

    def pytest_configure(self, config: pytest.Config) -> None:
        self._config = config


def main() -> int:
    """Runs the test that the file names."""
    file = Path(sys.argv[1])
    told = pickle.loads(file.read_bytes())
    sys.path[:] = told["path"]

    inside = _Inside(told, file.parent)
    return pytest.main(told["args"], plugins=[inside])


if __name__ == "__main__":
    sys.exit(main())
