"""Timelines for tests that use asyncio: `eigentime.timeline` with coroutines.

    >>> from eigentime.aio import AsyncTimeline
    >>> async with AsyncTimeline(date="2038-01-19") as timeline:
    ...     server = await timeline.popen(["./server"])
    ...     await timeline.wait(idle=True)
    ...     await timeline.leap("30d")

A task that is cancelled while it waits for a timeline hangs up, and the timeline forgets it.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
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
    event,
    has_joined,
    request,
)

__all__ = ["AsyncTimeline"]

# The longest line that is read: `show` of a timeline with many threads.
_LINE = 1 << 26


async def _joined(reader: asyncio.StreamReader, pid: int) -> None:
    async for line in reader:
        if has_joined(line, pid):
            return


@final
class AsyncTimeline(Named):
    """A timeline that `async with` makes and removes; its options are those of `Timeline`."""

    def __init__(self, *, name: str | None = None, **options: Any) -> None:
        self._enter: Callable[[], Existing] = partial(Made, name, options)

    @classmethod
    def connect(cls, name: str) -> AsyncTimeline:
        """A timeline that exists, for `async with`, which leaves it as it is."""
        self = cls()
        self._enter = partial(Existing, name)
        return self

    async def __aenter__(self) -> AsyncTimeline:
        self._at = await asyncio.to_thread(self._enter)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See `Timeline.close`."""
        await asyncio.to_thread(self._at.close)

    async def popen(self, args: Any, **options: Any) -> asyncio.subprocess.Process:
        """Starts a program in the timeline, as `asyncio.create_subprocess_exec` does; see
        `Timeline.popen`."""
        words, options = self._at.start(args, options)
        async with self._request("watch") as (_answer, reader):
            process = await asyncio.create_subprocess_exec(*words, **options)
            joined = asyncio.ensure_future(_joined(reader, process.pid))
            over = asyncio.ensure_future(process.wait())
            await asyncio.wait([joined, over], return_when=asyncio.FIRST_COMPLETED)
            joined.cancel()
            over.cancel()
        return process

    async def run(
        self,
        args: Any,
        *,
        input: bytes | None = None,
        check: bool = False,
        **options: Any,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a program in the timeline to its end; kills it if the task is cancelled."""
        words, options = self._at.start(args, options)
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, **options)
        try:
            out, err = await process.communicate(input)
        finally:
            if process.returncode is None:
                process.kill()
        code: Any = process.returncode
        done = subprocess.CompletedProcess(words, code, out, err)
        if check:
            done.check_returncode()
        return done

    @asynccontextmanager
    async def _request(
        self, method: str, **params: Any
    ) -> AsyncIterator[tuple[Answer, asyncio.StreamReader]]:
        connection = self._at.connect()
        reader, writer = await asyncio.open_unix_connection(
            sock=connection, limit=_LINE
        )
        try:
            writer.write(request(method, params))
            yield Answer.of(await reader.readline(), self.name), reader
        finally:
            writer.close()

    async def _ask(self, method: str, **params: Any) -> Answer:
        async with self._request(method, **params) as (answer, _reader):
            return answer

    async def now(self) -> datetime:
        """See `Timeline.now`, and so on."""
        return (await self._ask("info")).now

    async def info(self) -> dict[str, Any]:
        """Its versions, and how programs and containers join."""
        return (await self._ask("info")).result

    async def show(self) -> State:
        """Its clocks, members and what they wait for."""
        return (await self._ask("show")).state()

    async def set(
        self,
        *,
        rate: Rate | None = None,
        date: Date | None = None,
        offset: Span | None = None,
    ) -> State:
        """Sets its rate, and its wall clock to a date or to an offset from the host's."""
        changes = {"rate": rate, "date": date, "offset": offset}
        return (await self._ask("set", **changes)).state()

    async def leap(self, span: Span) -> State:
        """Moves all clocks forward."""
        return (await self._ask("leap", span=span)).state()

    async def freeze(self, *, wall: bool | None = None) -> State:
        """Stops all clocks, or the wall clock alone."""
        return (await self._ask("freeze", wall=wall)).state()

    async def thaw(self, *, rate: Rate | None = None) -> State:
        """Lets its clocks go on."""
        return (await self._ask("thaw", rate=rate)).state()

    async def save(self) -> dict[str, Any]:
        """What `continue_` of another timeline goes on from."""
        return (await self._ask("save")).result

    async def skip(
        self,
        *,
        times: int | None = None,
        until: Date | None = None,
        for_: Span | None = None,
    ) -> dict[str, Any]:
        """With `skip_idle`: allows leaps over idle time; without any parameter, all."""
        return (await self._ask("skip", times=times, until=until, for_=for_)).result

    async def wait(
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
        return (await self._ask("wait", **conditions)).result

    async def events(self) -> AsyncIterator[Event]:
        """What happens, from the first that is asked for on, until the timeline ends."""
        async with self._request("watch") as (_answer, reader):
            async for line in reader:
                yield event(line)
