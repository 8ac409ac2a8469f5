"""How a timeline is made, found, asked and removed; what `eigentime.timeline` and `.aio` share."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
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

# What the guard says once the timeline is made; no message has a NUL.
_MADE = "\0\n"
# Makes a timeline, says so, and removes it when standard input ends: when the process that started
# this closes the pipe, or ends, in whichever way.
_GUARD = r"""
eigentime=$1 name=$2 directory=$3
shift 3
trap '' PIPE
trap '[ -z "$directory" ] || rm -rf -- "$directory"' EXIT
"$eigentime" ctl create "$name" "$@" 2>&1 >/dev/null </dev/null || exit
printf '\0\n'
read -r _
"$eigentime" ctl rm --force "$name" 2>&1
"""


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
_DATES = ("date", "until")
_SPANS = ("boottime", "for", "idle_grace", "monotonic", "offset", "span", "timeout")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Fraction) else value


def written(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, by the names of the protocol: `for_` is `for`, since that is a keyword."""
    found = {}
    for name, value in given.items():
        name = name.rstrip("_")
        if value is not None:
            write = _date if name in _DATES else _span if name in _SPANS else _plain
            found[name] = write(value)
    return found


def request(method: str, given: Mapping[str, Any]) -> bytes:
    """A line that asks a timeline for something."""
    asked = {"method": method, "params": written(given), "protocol": 1}
    return json.dumps(asked).encode() + b"\n"


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


def has_joined(lines: bytes, pid: int) -> bool:
    """Whether one of these events tells that this process has started its program."""
    events = [
        json.loads(line)
        for line in lines.splitlines(keepends=True)
        if line.endswith(b"\n")
    ]
    return any(told.get("event") == "joined" and told["pid"] == pid for told in events)


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
            "install Eigentime, so that `eigentime` is on PATH, or name it in the environment "
            "variable EIGENTIME",
        )
    return os.path.abspath(found)


def _directories() -> list[str]:
    """Where the timelines of this user are: see docs/guide/timelines.md."""
    only = os.environ.get("EIGENTIME_RUNTIME_DIR")
    if only:
        return [f"{only}/eigentime"]
    uid = os.getuid()
    parents = [
        os.environ.get("XDG_RUNTIME_DIR"),
        None if uid else "/run",
        f"/run/user/{uid}",
    ]
    return [f"{parent}/eigentime" for parent in parents if parent] + [
        f"/tmp/eigentime-{uid}"
    ]


class Existing:
    """A timeline that something else has made, and removes."""

    def __init__(self, name: str, directory: str | None = None) -> None:
        self.eigentime = _command()
        self.name = name
        self.directory = directory
        places = [f"{directory}/eigentime"] if directory else _directories()
        found = [
            f"{place}/{name}" for place in places if os.path.exists(f"{place}/{name}")
        ]
        # As `eigentime` does: a directory in /tmp may be another user's.
        own = [
            path
            for path in found
            if os.stat(os.path.dirname(path)).st_uid == os.getuid()
        ]
        if not own:
            message = f"there is no timeline '{name}' in {', '.join(places)}"
            raise TimelineError("not_found", message)
        self.socket = own[0]

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
        return [
            self.eigentime,
            "run",
            "--timeline",
            self.name,
            "--existing",
            "--",
            *words,
        ], options

    def connect(self) -> socket.socket:
        """A connection of its own for each request: threads and forked processes do not share it,
        and what waits delays nothing else."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.socket)
        except (ConnectionRefusedError, FileNotFoundError):
            connection.close()
            raise ended(self.name) from None
        return connection

    def close(self) -> None:
        """Leaves it as it is."""


class Made(Existing):
    """A timeline that ends when it is closed, and at the latest with this process."""

    def __init__(self, name: str | None, options: Mapping[str, Any]) -> None:
        self._process = os.getpid()
        directory = None
        if name is None and options.get("joinable"):
            # Containers look for it where their engine does.
            name = f"test-{secrets.token_hex(8)}"
        elif name is None:
            name, directory = "test", tempfile.mkdtemp(prefix="eigentime-")
        self._guard: subprocess.Popen[str] | None = None
        try:
            self._make(name, directory, options)
            super().__init__(name, directory)
        except BaseException:
            self._release()
            # Unless the guard has removed it.
            if directory:
                shutil.rmtree(directory, ignore_errors=True)
            raise

    def _make(
        self, name: str, directory: str | None, options: Mapping[str, Any]
    ) -> None:
        self.directory = directory
        flags = [
            f"--{option.replace('_', '-')}" + ("" if value is True else f"={value}")
            for option, value in written(options).items()
            if value is not False
        ]
        guard = [
            "/bin/sh",
            "-c",
            _GUARD,
            "eigentime-guard",
            _command(),
            name,
            directory or "",
        ]
        self._guard = subprocess.Popen(
            [*guard, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment(),
            # Ctrl-C is for the program that has started it.
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        said: list[str] = []
        for line in self._guard.stdout:
            if line == _MADE:
                sys.stderr.writelines(said)
                return
            said.append(line)
        text = re.sub(
            r"\n\n.*", "", re.sub("^(eigentime|error): ", "", "".join(said).strip())
        )
        raise TimelineError("not_made", f"timeline '{name}' was not made: {text}")

    def _release(self) -> tuple[int, str]:
        """Lets the guard do its work: its status, and what it says."""
        guard, self._guard = self._guard, None
        if guard is None:
            return 0, ""
        assert guard.stdin is not None and guard.stdout is not None
        guard.stdin.close()
        if os.getpid() != self._process:
            # Of a forked process, it is no child; the one that has made the timeline ends it.
            guard.returncode = 0
            guard.stdout.close()
            return 0, ""
        with guard.stdout:
            said = guard.stdout.read()
        return guard.wait(), said

    def close(self) -> None:
        """Removes it, with its members. Once is enough."""
        status, said = self._release()
        if status != 0 and os.path.exists(self.socket):
            raise TimelineError("refused", said.strip())


class Named:
    """What both kinds of clients say of their timeline."""

    _at: Existing

    @property
    def name(self) -> str:
        """Its name."""
        return self._at.name

    def environment(self, env: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
        """`env`, or that of this process, with what lets `eigentime` find the timeline."""
        return self._at.environment(env)
