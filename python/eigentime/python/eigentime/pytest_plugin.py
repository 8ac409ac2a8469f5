"""The pytest plugin: the fixture and the marker `timeline`.

    @pytest.mark.timeline(date="2038-01-19", rate=60)
    def test_tokens_expire(timeline):
        server = timeline.popen(["./server"])
        timeline.leap("30d")

The fixture is a `Timeline` for the test, made with the marker's options. With `inside=True`, the
test itself runs in the timeline: in another pytest process, whose reports become the test's own.
Failures show the virtual time.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from eigentime.timeline import Timeline, TimelineError

Made = TypeVar("Made")
# The test's timeline, for its failure reports.
_TIMELINE = pytest.StashKey[Timeline]()
# The name under which the plugin of the process inside is registered.
INSIDE = "eigentime-inside"
# The option that names the file with that plugin.
OPTION = f"--{INSIDE}"


def options(item: pytest.Item) -> dict[str, Any]:
    """The options from the test's markers; the closest takes precedence."""
    markers = reversed([*item.iter_markers("timeline")])
    return {key: value for marker in markers for key, value in marker.kwargs.items()}


def attempt(function: Callable[..., Made], asked: dict[str, Any]) -> Made:
    """Calls it with these options; an error in them fails the test."""
    try:
        return function(**asked)
    except (TimelineError, TypeError) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that only the process inside is given."""
    parser.addoption(OPTION, help=argparse.SUPPRESS)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Registers the plugin in the process inside."""
    file = config.getoption(OPTION)
    if file is not None:
        config.pluginmanager.register(pickle.loads(Path(file).read_bytes()))


def pytest_configure(config: pytest.Config) -> None:
    """Documents the marker."""
    config.addinivalue_line(
        "markers",
        "timeline(date=…, rate=…, inside=False, …): the options of the fixture `timeline`; "
        "with inside=True, the test itself runs in the timeline",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test whose marker is wrong or, if it is its own, has no effect."""
    if any(marker.args for marker in item.iter_markers("timeline")):
        pytest.fail("the marker timeline takes keywords only, such as date=…", pytrace=False)
    is_used = "timeline" in getattr(item, "fixturenames", ()) or options(item).get("inside")
    if not is_used and any(marker.name == "timeline" for marker in item.own_markers):
        text = (
            "the marker timeline has no effect\nhelp: take the fixture timeline, or set inside=True"
        )
        pytest.fail(text, pytrace=False)


@pytest.fixture
def timeline(request: pytest.FixtureRequest) -> Iterator[Timeline]:
    """A timeline of Eigentime that ends with the test."""
    inside = request.config.pluginmanager.get_plugin(INSIDE)
    asked = options(request.node)
    asked.pop("inside", None)
    with inside.timeline if inside else attempt(Timeline, asked) as made:
        request.node.stash[_TIMELINE] = made
        yield made


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Adds the virtual time to the report of a failure."""
    outcome = yield
    report = outcome.get_result()
    inside = item.config.pluginmanager.get_plugin(INSIDE)
    shown = inside.timeline if inside else item.stash.get(_TIMELINE, None)
    if report.failed and report.when != "teardown" and shown is not None:
        try:
            text = str(shown.show())
        except TimelineError as error:
            text = str(error)
        report.sections.append(("virtual time", text))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Runs a test with `inside=True` in a process inside its timeline."""
    asked = options(item)
    if not asked.pop("inside", False) or item.config.pluginmanager.has_plugin(INSIDE):
        return None
    from eigentime import _inside

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _inside.reports(item, nextitem, asked):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
