"""Timelines for tests that use asyncio: `eigentime.timeline` with coroutines.

    >>> from eigentime.aio import AsyncTimeline
    >>> async with AsyncTimeline(date="2038-01-19") as timeline:
    ...     server = await timeline.popen(["./server"])
    ...     await timeline.wait(idle=True)
    ...     await timeline.leap("30d")

A task that is cancelled while it waits for a timeline hangs up, and the timeline drops it.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, final

from eigentime._timeline import Answer, Client, Event, TimelineError, event, silent
from eigentime.timeline import Result, Timeline

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    _Params = ParamSpec("_Params")

__all__ = ["AsyncTimeline"]

# The longest line read: `show` of a timeline with many threads.
_LINE = 1 << 26


def _awaited(
    method: Callable[Concatenate[Timeline, _Params], Result],
) -> Callable[Concatenate[AsyncTimeline, _Params], Coroutine[Any, Any, Result]]:
    """A method of `Timeline` that returns what `_ask` does, which here is a coroutine."""
    return method  # type: ignore[return-value]


@final
class AsyncTimeline(Client):
    """A timeline that `async with` makes and removes; takes the options of `Timeline`."""

    def __init__(self, *, name: str | None = None, **options: Any) -> None:
        self._enter: Callable[[], None] = partial(self._make, name, options)

    @classmethod
    def connect(cls, name: str) -> AsyncTimeline:
        """An existing timeline, for `async with`, which leaves it as it is."""
        self = cls()
        self._enter = partial(self._find, name)
        return self

    async def __aenter__(self) -> AsyncTimeline:
        await asyncio.to_thread(self._enter)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See `Timeline.close`."""
        await asyncio.to_thread(self._end)

    async def popen(self, args: Any, **options: Any) -> asyncio.subprocess.Process:
        """Starts a program in the timeline, as `asyncio.create_subprocess_exec` does; see
        `Timeline.popen`."""
        words, options = self._start(args, options)
        process = await asyncio.create_subprocess_exec(*words, **options)
        await self._ask("wait", Answer.result, joined=process.pid)
        return process

    async def run(
        self, args: Any, *, input: bytes | None = None, check: bool = False, **options: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a program in the timeline to its end; kills it if the task is cancelled."""
        words, options = self._start(args, options)
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, **options)
        try:
            out, err = await process.communicate(input)
        finally:
            if process.returncode is None:
                process.kill()
        done = subprocess.CompletedProcess(words, process.returncode or 0, out, err)
        if check:
            done.check_returncode()
        return done

    @asynccontextmanager
    async def _request(
        self, method: str, **params: Any
    ) -> AsyncIterator[tuple[Answer, asyncio.StreamReader]]:
        connection = self._connect(method, params)
        patience = connection.gettimeout()
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=_LINE)
        try:
            line = await asyncio.wait_for(reader.readline(), patience)
            yield Answer.of(line, self.name), reader
        except asyncio.TimeoutError:
            raise silent(self.name) from None
        finally:
            writer.close()

    async def _ask(self, method: str, read: Callable[[Answer], Result], **params: Any) -> Result:
        try:
            async with self._request(method, **params) as (answer, _reader):
                return read(answer)
        except (TimelineError, OSError) as error:
            otherwise = self._otherwise(error, params)
        return read(otherwise) if otherwise else await self._ask(method, read, **params)

    now = _awaited(Timeline.now)
    info = _awaited(Timeline.info)
    show = _awaited(Timeline.show)
    set = _awaited(Timeline.set)
    leap = _awaited(Timeline.leap)
    freeze = _awaited(Timeline.freeze)
    thaw = _awaited(Timeline.thaw)
    save = _awaited(Timeline.save)
    skip = _awaited(Timeline.skip)
    wait = _awaited(Timeline.wait)

    async def events(self) -> AsyncIterator[Event]:
        """The events, from the first request for one, until the timeline ends."""
        async with self._request("watch") as (_answer, reader):
            async for line in reader:
                yield event(line)
