"""Runs one test in a timeline: in a separate pytest process, started with the same arguments.

Nothing of this package may be imported there before pytest has marked its plugins for rewriting.
So pytest itself is started, with a plugin option that names a file with what to register.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from eigentime import _timeline
from eigentime.pytest_plugin import INSIDE, OPTION, attempt
from eigentime.timeline import Timeline

# Options that are set when the test begins: starting pytest takes virtual time, too.
_AT_START = ("date", "offset", "rate")
# Exceptions that end the session and are not an outcome of the test.
_ENDS = (KeyboardInterrupt, pytest.exit.Exception)


def reports(
    item: pytest.Item, nextitem: pytest.Item | None, asked: dict[str, Any]
) -> Iterator[pytest.TestReport]:
    """Runs the test and yields its reports."""
    found: list[pytest.TestReport] = []
    try:
        call = _call("call", lambda: found.extend(_run(item, asked)))
    finally:
        yield from found
    if call.excinfo is not None:
        yield item.ihook.pytest_runtest_makereport(item=item, call=call)
    # Tears down module fixtures and the like that the next test does not need: nothing else does.
    teardown = _call("teardown", lambda: item.session._setupstate.teardown_exact(nextitem))
    if teardown.excinfo is not None or not any(report.when == "teardown" for report in found):
        yield item.ihook.pytest_runtest_makereport(item=item, call=teardown)


def _call(when: Literal["call", "teardown"], function: Callable[[], None]) -> Any:
    return pytest.CallInfo.from_call(function, when, reraise=_ENDS)


def _run(item: pytest.Item, asked: dict[str, Any]) -> Iterator[pytest.TestReport]:
    config = item.config
    at_start = {key: asked[key] for key in _AT_START if asked.get(key) is not None}
    asked = {**asked, "rate": None}
    _module, _, rest = item.nodeid.partition("::")
    if config.getoption("loadgroup", False) and item.get_closest_marker("xdist_group"):
        rest = re.sub(r"@[^\]]*$", "", rest)  # xdist may have added it
    args = [*config.invocation_params.args, "--no-header", "--no-summary"]
    for plugin, without in ("xdist", "-n0"), ("pytest_cov", "--no-cov"):
        if config.pluginmanager.has_plugin(plugin):
            args.append(without)
    place: Path = config._tmp_path_factory.mktemp("timeline")  # type: ignore[attr-defined]
    with attempt(Timeline, asked) as timeline:
        worker = getattr(config, "workerinput", {"workerid": "master"})
        inside = _Inside(timeline.name, at_start, f"{item.path}::{rest}", place, worker)
        file = place / "test"
        file.write_bytes(pickle.dumps(inside))
        # With `-s`, the test prints to the terminal.
        shown = config.getoption("capture") == "no"
        done = timeline.run(
            [sys.executable, os.path.dirname(pytest.__file__), f"{OPTION}={file}", *args],
            cwd=config.invocation_params.dir,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    torn_down = False
    for data in _read(place / "told"):
        if isinstance(data, _ENDS):
            raise data
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        report.nodeid = item.nodeid
        torn_down = torn_down or report.when == "teardown"
        yield report
    if not torn_down:
        said = "" if shown else f":\n{done.stdout}"
        text = f"the process in the timeline has ended with {done.returncode}"
        pytest.fail(f"{text} before the test had{said}", pytrace=False)


def _read(file: Path) -> Iterator[Any]:
    if file.exists():
        with file.open("rb") as stream:
            while stream.peek(1):
                yield pickle.load(stream)


@dataclass
class _Inside:
    """The plugin of the process in the timeline."""

    name: str
    at_start: dict[str, Any]
    test: str
    place: Path
    workerinput: dict[str, Any]
    # The name under which it is registered.
    __name__ = INSIDE

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        # On the timeline's clock, a minute may be no time at all.
        _timeline.PATIENCE = None
        self.timeline = Timeline.connect(self.name)
        self._config = config
        # In a worker, other plugins do not write their own results.
        config.workerinput = self.workerinput  # type: ignore[attr-defined]
        config.workeroutput = {}  # type: ignore[attr-defined]
        config.args = [self.test]
        config.option.basetemp = str(self.place / "basetemp")
        config.option.usepdb = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if self.at_start:
            attempt(self.timeline.set, self.at_start)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self._tell(hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        # Including that of `pytest.exit`; collection errors have their own class.
        if type(excinfo.value) in _ENDS:
            self._tell(excinfo.value)

    def _tell(self, data: Any) -> None:
        with (self.place / "told").open("ab") as stream:
            pickle.dump(data, stream)
