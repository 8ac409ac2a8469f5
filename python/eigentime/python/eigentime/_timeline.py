"""How a timeline is made, found, asked and removed; what `eigentime.timeline` and `.aio` share."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, NamedTuple, Union

# With typing's forms, since they are evaluated: this is to run under Python 3.9.
Date = Union[str, date]  # noqa: UP007
"""RFC 3339 or another form of `eigentime run --date`, or a datetime; without a zone, local time."""
Span = Union[str, timedelta]  # noqa: UP007
"""Text such as "30d" or "1.5s", or a timedelta."""
Rate = Union[str, int, float, Fraction]  # noqa: UP007
"""Virtual seconds per host second, a number or text such as "1/3"."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class TimelineError(Exception):
    """A timeline was not made, or has refused something; `code` is that of the protocol.

    Codes besides those of the protocol: "not_installed", "not_made" and "not_found".
    """

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(message if help is None else f"{message}\nhelp: {help}")
        self.code = code
        self.message = message
        self.help = help


class State(NamedTuple):
    """A timeline at one moment."""

    name: str
    """Its name."""
    state: str
    """"running", "frozen" or "wall frozen"."""
    rate: float
    """Virtual seconds per host second while it runs."""
    now: datetime
    """What its wall clock shows, in UTC."""
    fields: dict[str, Any]
    """Everything that `eigentime ctl show --json` prints, or `set --json` after a change."""

    def __str__(self) -> str:
        return f"{self.now.isoformat()} ({self.state}, rate {self.rate:g})"


class Event(NamedTuple):
    """Something that has happened in a timeline."""

    event: str
    """What it was: "joined", "ended", "changed", "skipped", "removed", …"""
    now: datetime
    """What the timeline's wall clock showed, in UTC."""
    fields: dict[str, Any]
    """Everything that the protocol says of it."""


def _instant(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1000)


def _span(value: Span) -> str:
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if isinstance(value, str):
        return value
    raise TypeError(f"{value!r}: a span is a timedelta, or text such as '30d'")


def _date(value: Date) -> str:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, (str, date)):
        return str(value)
    raise TypeError(f"{value!r}: a date is a datetime, or text such as '2038-01-19'")


# What is a date and what a span, on the command line and in the protocol alike.
_SPANS = ("boottime", "for", "idle_grace", "monotonic", "offset", "span", "timeout")
_WRITTEN: dict[str, Callable[[Any], str]] = dict.fromkeys(_SPANS, _span)
_WRITTEN.update(date=_date, until=_date)


def written(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, by the names of the protocol: `for_` is `for`, since that is a keyword."""
    names = {name.rstrip("_"): it for name, it in given.items() if it is not None}
    return {n: _WRITTEN[n](it) if n in _WRITTEN else it for n, it in names.items()}


def request(method: str, given: Mapping[str, Any]) -> bytes:
    """A line that asks a timeline for something."""
    asked = {"method": method, "params": written(given), "protocol": 1}
    return json.dumps(asked, default=str).encode() + b"\n"


class Answer(NamedTuple):
    """What a timeline has answered."""

    now: datetime
    result: dict[str, Any]

    @classmethod
    def of(cls, line: bytes, name: str) -> Answer:
        """Raises what the timeline says is wrong."""
        if not line:
            raise ended(name)
        answer = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            message = f"timeline '{name}': {error['message']}"
            raise TimelineError(error["code"], message, error.get("help"))
        return cls(_instant(answer["virtual_ns"]), answer["result"])

    def state(self) -> State:
        """The result of methods that return the timeline."""
        result = self.result
        return State(result["name"], result["state"], result["rate"], self.now, result)


def event(line: bytes) -> Event:
    """An event from the line that tells of it."""
    fields = json.loads(line)
    return Event(fields["event"], _instant(fields["virtual_ns"]), fields)


def has_joined(line: bytes, pid: int) -> bool:
    """Whether an event tells that this process has started its program."""
    told = json.loads(line)
    return told.get("event") == "joined" and bool(told["pid"] == pid)


def ended(name: str) -> TimelineError:
    """That nobody answers."""
    return TimelineError("ended", f"timeline '{name}': it has ended")


def _command() -> str:
    """The path of `eigentime`."""
    name = os.environ.get("EIGENTIME") or "eigentime"
    found = shutil.which(name)
    if found is None:
        raise TimelineError(
            "not_installed",
            f"there is no command '{name}', which makes timelines",
            "install Eigentime, and put the command on PATH or its path into EIGENTIME",
        )
    return os.path.abspath(found)


def _failed(code: str, said: str) -> TimelineError:
    """What the command says: a message, then help or a tip, then how it is used."""
    said = said.strip().replace("\n\n  tip: ", "\nhelp: ")
    text = re.sub("^(eigentime|error): ", "", said.split("\n\n")[0])
    message, _, help = text.partition("\nhelp: ")
    return TimelineError(code, message, help or None)


class Existing:
    """A timeline that something else has made, and removes."""

    # The runtime directory, where no other program looks for it.
    directory: str | None = None

    def __init__(self, name: str) -> None:
        self.eigentime = _command()
        words = [self.eigentime, "ctl", "show", name, "--json"]
        asked = subprocess.run(words, check=False, capture_output=True, text=True)
        if asked.returncode != 0:
            raise _failed("not_found", asked.stderr)
        shown = json.loads(asked.stdout)
        self.name, self.socket = shown["name"], shown["socket"]

    def environment(self, given: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
        """The environment in which `eigentime` finds the timeline."""
        found = dict(os.environ if given is None else given)
        if self.directory is not None:
            found["EIGENTIME_RUNTIME_DIR"] = self.directory
        return found

    def start(
        self, args: Any, options: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The words and options that start in the timeline what `Popen(args, **options)` does on
        the host."""
        words: Sequence[Any] = (
            [args] if isinstance(args, (str, bytes, os.PathLike)) else args
        )
        shell, executable = options.pop("shell", False), options.pop("executable", None)
        if shell:
            words = [executable or "/bin/sh", "-c", *words]
        elif executable is not None:
            replace = "import os, sys; os.execvp(sys.argv[1], sys.argv[2:])"
            words = [sys.executable, "-ISc", replace, executable, *words]
        options["env"] = self.environment(options.get("env"))
        run = [self.eigentime, "run", "--timeline", self.name, "--existing", "--"]
        return [*run, *words], options

    def connect(self) -> socket.socket:
        """A connection of its own for each request: threads and forked processes do not share it,
        and what waits delays nothing else."""
        connection = socket.socket(socket.AF_UNIX)
        directory, name = os.path.split(self.socket)
        try:
            # That of a socket has at most 107 bytes: unix(7).
            place = os.open(directory, os.O_PATH)
            try:
                connection.connect(f"/proc/self/fd/{place}/{name}")
            finally:
                os.close(place)
        except (ConnectionRefusedError, FileNotFoundError):
            connection.close()
            raise ended(self.name) from None
        return connection

    def close(self) -> None:
        """Leaves it as it is."""


class Made(Existing):
    """A timeline that ends when it is closed, and at the latest with this process."""

    def __init__(self, name: str | None, options: Mapping[str, Any]) -> None:
        self.eigentime = _command()
        self._process = os.getpid()
        flags = [
            f"--{option.replace('_', '-')}" + ("" if value is True else f"={value}")
            for option, value in written(options).items()
            if value is not False
        ]
        words = [self.eigentime, "ctl", "create", "--hold", "--json", *flags]
        self._holder: Any = subprocess.Popen(
            words if name is None else [*words, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Ctrl-C is for the program that has started it.
            start_new_session=True,
        )
        said = []
        for line in self._holder.stdout or ():
            if line.startswith("{"):
                break
            said.append(line)
        else:
            self._holder.communicate()
            raise _failed("not_made", "".join(said))
        sys.stderr.writelines(said)
        info = json.loads(line)
        self.name, self.socket = info["name"], info["socket"]
        if name is None and not options.get("joinable"):
            self.directory = os.path.dirname(os.path.dirname(self.socket))

    def close(self) -> None:
        """Removes it, with its members. Once is enough."""
        stdin, stdout = self._holder.stdin, self._holder.stdout
        if stdin.closed:
            return
        stdin.close()
        with stdout:
            if os.getpid() != self._process:
                # It is no child of a forked process; the one that has made the timeline ends it.
                self._holder.returncode = 0
                return
            # Processes that were forked have the pipe, too.
            self._holder.terminate()
            said = stdout.read()
        status = self._holder.wait()
        if status != 0:
            ended = f"eigentime ctl create ended with status {status}"
            raise _failed("refused", said or ended)


class Named:
    """What both kinds of clients say of their timeline."""

    _at: Existing

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._at.name)

    def environment(self, env: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
        """`env`, or that of this process, with what lets `eigentime` find the timeline."""
        return self._at.environment(env)
