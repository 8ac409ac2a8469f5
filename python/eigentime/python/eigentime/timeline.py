"""Timelines for tests: programs whose clocks the test moves.

    >>> from eigentime.timeline import Timeline
    >>> with Timeline(date="2038-01-19", rate=60) as timeline:
    ...     server = timeline.popen(["./server"])
    ...     timeline.wait(idle=True)                 # it has started
    ...     timeline.leap("30d")
    ...     print(timeline.now())

It is a client of the command `eigentime`, found through PATH or the environment variable EIGENTIME;
docs/guide/control.md describes each method. Spans of time are text ("30d", "1.5s") or timedelta,
dates are text or datetime; return values are datetimes in UTC, to the microsecond.
A timeline may be used by several threads at once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, final

from eigentime._timeline import Answer, Client, Date, Event, Rate, Span, State, TimelineError, event

__all__ = ["Date", "Event", "Rate", "Span", "State", "Timeline", "TimelineError"]

Result = TypeVar("Result")


@final
class Timeline(Client):
    """A new timeline, which ends with the `with` block, and at the latest with this process.

    Its options are those of `eigentime ctl create`, with `_` for `-`: `for_` and `continue_` stand
    for `for` and `continue`, which takes what `save` returned, or that as JSON. Without a name
    it is in its own directory, where only its own programs find it; with one, it is where
    `eigentime ctl` and containers find it. A joinable one is there as well, under a unique name.
    """

    def __init__(self, *, name: str | None = None, **options: Any) -> None:
        self._make(name, options)

    @classmethod
    def connect(cls, name: str) -> Timeline:
        """An existing timeline; closing it leaves it as it is."""
        self = cls.__new__(cls)
        self._find(name)
        return self

    def __enter__(self) -> Timeline:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Timeline '{self.name}'>"

    def close(self) -> None:
        """Removes the timeline and kills its members with SIGKILL."""
        self._end()

    def popen(self, args: Any, **options: Any) -> subprocess.Popen[Any]:
        """Starts a program in the timeline; takes what `subprocess.Popen` takes, by keyword.

        The process is the program itself, already a member of the timeline: `wait(idle=True)`
        waits for it. If the program cannot be started, the process exits with 125 to 127.
        """
        words, options = self._start(args, options)
        process = subprocess.Popen(words, **options)
        self._ask("wait", Answer.result, joined=process.pid)
        return process

    def run(
        self, args: Any, *, check: bool = False, **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """Runs a program in the timeline to its end, as `subprocess.run` does."""
        words, options = self._start(args, options)
        return subprocess.run(words, check=check, **options)

    def _ask(self, method: str, read: Callable[[Answer], Result], **params: Any) -> Result:
        try:
            with self._connect(method, params) as connection:
                line = connection.makefile("rb").readline()
            return read(Answer.of(line, self.name))
        except (TimelineError, OSError) as error:
            otherwise = self._otherwise(error, params)
        return read(otherwise) if otherwise else self._ask(method, read, **params)

    def now(self) -> datetime:
        """The time on its wall clock, in UTC."""
        return self._ask("info", Answer.now)

    def info(self) -> dict[str, Any]:
        """Its versions, and how programs and containers join."""
        return self._ask("info", Answer.result)

    def show(self) -> State:
        """Its clocks; `fields` also has its members and what they wait for."""
        return self._ask("show", Answer.state)

    def set(
        self, *, rate: Rate | None = None, date: Date | None = None, offset: Span | None = None
    ) -> State:
        """Sets its rate, and its wall clock to a date or to an offset from the host's."""
        return self._ask("set", Answer.state, rate=rate, date=date, offset=offset)

    def leap(self, span: Span) -> State:
        """Moves all clocks forward. Waits that expire by then have ended."""
        return self._ask("leap", Answer.state, span=span)

    def freeze(self, *, wall: bool | None = None) -> State:
        """Stops all clocks, or the wall clock alone."""
        return self._ask("freeze", Answer.state, wall=wall)

    def thaw(self, *, rate: Rate | None = None) -> State:
        """Restarts its clocks."""
        return self._ask("thaw", Answer.state, rate=rate)

    def save(self) -> dict[str, Any]:
        """What `continue_` of another timeline resumes from."""
        return self._ask("save", Answer.result)

    def skip(
        self, *, times: int | None = None, until: Date | None = None, for_: Span | None = None
    ) -> dict[str, Any]:
        """With `skip_idle`: allows leaps over idle time; all, without parameters."""
        return self._ask("skip", Answer.result, times=times, until=until, for_=for_)

    def wait(
        self,
        *,
        until: Date | None = None,
        for_: Span | None = None,
        idle: bool | None = None,
        blocked: Mapping[str, Any] | None = None,
        skipped: bool | None = None,
        empty: bool | None = None,
        ended: bool | None = None,
        timeout: Span | None = None,
    ) -> dict[str, Any]:
        """Waits for one condition; after `timeout` of host time, raises the code "timeout"."""
        conditions = {"until": until, "for": for_, "idle": idle, "blocked": blocked}
        conditions.update(skipped=skipped, empty=empty, ended=ended, timeout=timeout)
        return self._ask("wait", Answer.result, **conditions)

    def events(self) -> Iterator[Event]:
        """The events from now on, until the timeline ends."""
        connection = self._connect("watch", {})
        lines = connection.makefile("rb")
        try:
            Answer.of(lines.readline(), self.name)
        except (TimelineError, OSError) as error:
            connection.close()
            self._otherwise(error, {})
        connection.settimeout(None)

        def iterate() -> Iterator[Event]:
            with connection, lines:
                yield from map(event, lines)

        return iterate()
