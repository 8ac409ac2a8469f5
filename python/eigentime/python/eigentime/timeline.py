"""Timelines for tests: programs whose clocks the test moves.

    >>> from eigentime.timeline import Timeline
    >>> with Timeline(date="2038-01-19", rate=60) as timeline:
    ...     server = timeline.popen(["./server"])
    ...     timeline.wait(idle=True)                 # it has started
    ...     timeline.leap("30d")
    ...     print(timeline.now())

It is a client of the command `eigentime`, found by PATH or the environment variable EIGENTIME, and
does what docs/guide/control.md says of each method. Spans of time are text ("30d", "1.5s") or
timedelta, dates are text or datetime; what is returned are datetimes in UTC, to the microsecond.
A timeline may be used by several threads at once.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, final

from eigentime._timeline import (
    Answer,
    Date,
    Event,
    Existing,
    Made,
    Named,
    Rate,
    Span,
    State,
    TimelineError,
    event,
    has_joined,
    request,
)

__all__ = ["Date", "Event", "Rate", "Span", "State", "Timeline", "TimelineError"]


@final
class Timeline(Named):
    """A timeline of its own, which ends with the `with` block, and at the latest with this process.

    Its options are those of `eigentime ctl create`, with `_` for `-`: `for_` and `continue_` stand
    for `for` and `continue`. Without a name it is in a directory of its own, where only its own
    programs find it; with one, it is where `eigentime ctl` and containers find it. A joinable one
    is there as well, by a name of its own.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        date: Date | None = None,
        offset: Span | None = None,
        rate: Rate | None = None,
        freeze: bool | str = False,
        skip_idle: bool = False,
        skips: int | None = None,
        joinable: bool = False,
        **options: Any,
    ) -> None:
        options.update(date=date, offset=offset, rate=rate, freeze=freeze)
        options.update(skip_idle=skip_idle, skips=skips, joinable=joinable)
        self._at = Made(name, options)

    @classmethod
    def connect(cls, name: str) -> Timeline:
        """A timeline that exists; to close it leaves it as it is."""
        self = cls.__new__(cls)
        self._at = Existing(name)
        return self

    def __enter__(self) -> Timeline:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Timeline '{self.name}'>"

    def close(self) -> None:
        """Removes the timeline, and ends its members by SIGKILL."""
        self._at.close()

    def popen(self, args: Any, **options: Any) -> subprocess.Popen[Any]:
        """Starts a program in the timeline; takes what `subprocess.Popen` takes, by keyword.

        The process is the program itself, and a member of the timeline already: `wait(idle=True)`
        waits for it. If the program cannot be started, the process ends with 125 to 127.
        """
        words, options = self._at.start(args, options)
        with self._at.connect() as connection:
            connection.sendall(request("watch", {}))
            process = subprocess.Popen(words, **options)
            with open(os.pidfd_open(process.pid), "rb", 0) as ended:
                self._until_joined(connection, process.pid, ended)
        return process

    def _until_joined(self, connection: Any, pid: int, ended: Any) -> None:
        lines = [b""]
        while not any(has_joined(line, pid) for line in lines[:-1]):
            ready, _, _ = select.select([connection, ended], [], [])
            told = connection.recv(1 << 16) if connection in ready else b""
            if not told:
                return  # The process or the timeline has ended.
            lines = (lines[-1] + told).split(b"\n")

    def run(
        self, args: Any, *, check: bool = False, **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """Runs a program in the timeline to its end, as `subprocess.run` does."""
        words, options = self._at.start(args, options)
        return subprocess.run(words, check=check, **options)

    def _ask(self, method: str, **params: Any) -> Answer:
        with self._at.connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(request(method, params))
            return Answer.of(lines.readline(), self.name)

    def now(self) -> datetime:
        """What its wall clock shows, in UTC."""
        return self._ask("info").now

    def info(self) -> dict[str, Any]:
        """Its versions, and how programs and containers join."""
        return self._ask("info").result

    def show(self) -> State:
        """Its clocks; in `fields`, its members and what they wait for, too."""
        return self._ask("show").state()

    def set(
        self,
        *,
        rate: Rate | None = None,
        date: Date | None = None,
        offset: Span | None = None,
    ) -> State:
        """Sets its rate, and its wall clock to a date or to an offset from the host's."""
        return self._ask("set", rate=rate, date=date, offset=offset).state()

    def leap(self, span: Span) -> State:
        """Moves all clocks forward. Waits that end by then have ended."""
        return self._ask("leap", span=span).state()

    def freeze(self, *, wall: bool | None = None) -> State:
        """Stops all clocks, or the wall clock alone."""
        return self._ask("freeze", wall=wall).state()

    def thaw(self, *, rate: Rate | None = None) -> State:
        """Lets its clocks go on."""
        return self._ask("thaw", rate=rate).state()

    def save(self) -> dict[str, Any]:
        """What `continue_` of another timeline goes on from, if written to a file as JSON."""
        return self._ask("save").result

    def skip(
        self,
        *,
        times: int | None = None,
        until: Date | None = None,
        for_: Span | None = None,
    ) -> dict[str, Any]:
        """With `skip_idle`: allows leaps over idle time; without any parameter, all."""
        return self._ask("skip", times=times, until=until, for_=for_).result

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
        return self._ask("wait", **conditions).result

    def events(self) -> Iterator[Event]:
        """What happens from now on, until the timeline ends."""
        connection = self._at.connect()
        lines = connection.makefile("rb")
        connection.sendall(request("watch", {}))
        Answer.of(lines.readline(), self.name)

        def iterate() -> Iterator[Event]:
            with connection, lines:
                yield from map(event, lines)

        return iterate()
