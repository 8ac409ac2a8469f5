"""How to make, find, query and remove a timeline; shared by `eigentime.timeline` and `.aio`."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, NamedTuple, Union

# With typing's forms, since they are evaluated: this must run under Python 3.9.
Date = Union[str, date]  # noqa: UP007
"""RFC 3339 or another form of `eigentime run --date`, or a datetime; without a zone, local time."""
Span = Union[str, timedelta]  # noqa: UP007
"""Text such as "30d" or "1.5s", or a timedelta."""
Rate = Union[str, int, float, Fraction]  # noqa: UP007
"""Virtual seconds per host second, a number or text such as "1/3"."""

# How long a timeline may take to give an immediate answer, in seconds of this process.
PATIENCE: float | None = 60.0

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class TimelineError(Exception):
    """A timeline was not made, or has refused a request; `code` is that of the protocol.

    Additional codes: "not_installed", "not_made" and "not_found".
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
    """The time on its wall clock, in UTC."""
    fields: dict[str, Any]
    """Everything that `eigentime ctl show --json` prints, or `set --json` after a change."""

    def __str__(self) -> str:
        return f"{self.now.isoformat()} ({self.state}, rate {self.rate:g})"


class Event(NamedTuple):
    """Something that has happened in a timeline."""

    event: str
    """Its kind: "joined", "ended", "changed", "skipped", "removed", …"""
    now: datetime
    """What the timeline's wall clock showed, in UTC."""
    fields: dict[str, Any]
    """Everything that the protocol says about it."""


def _instant(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1000)


# Spans and dates, both on the command line and in the protocol.
_TIMES = {
    "boottime",
    "date",
    "for",
    "idle_grace",
    "monotonic",
    "offset",
    "span",
    "timeout",
    "until",
}


def _text(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if name in _TIMES and not isinstance(value, (str, date)):
        raise TypeError(f"{name}: {value!r} is neither text nor a timedelta, datetime or date")
    if name == "continue" and not isinstance(value, str):
        return value.decode() if isinstance(value, bytes) else json.dumps(value)
    return str(value) if isinstance(value, (date, float, Fraction)) else value


def written(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, by protocol names: `for_` is `for`, since that is a keyword."""
    names = {name.rstrip("_"): it for name, it in given.items() if it is not None}
    return {name: _text(name, it) for name, it in names.items()}


class Answer(NamedTuple):
    """A timeline's answer."""

    virtual_ns: int
    fields: dict[str, Any]

    @classmethod
    def of(cls, line: bytes, name: str) -> Answer:
        """Raises an error if the timeline reports one."""
        if not line:
            raise ended(name)
        answer = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            message = f"timeline '{name}': {error['message']}"
            raise TimelineError(error["code"], message, error.get("help"))
        return cls(answer["virtual_ns"], answer["result"])

    def now(self) -> datetime:
        """When it was given, on the timeline's wall clock."""
        return _instant(self.virtual_ns)

    def result(self) -> dict[str, Any]:
        """What the method returns."""
        return self.fields

    def state(self) -> State:
        """The result of methods that return the timeline."""
        shown = self.fields
        return State(shown["name"], shown["state"], shown["rate"], self.now(), shown)


def event(line: bytes) -> Event:
    """Parses an event from its line."""
    fields = json.loads(line)
    return Event(fields["event"], _instant(fields["virtual_ns"]), fields)


def ended(name: str) -> TimelineError:
    """The error that the timeline has ended."""
    return TimelineError("ended", f"timeline '{name}': it has ended")


def silent(name: str) -> TimelineError:
    """The error that it does not answer in time."""
    message = f"timeline '{name}': it has not answered within {PATIENCE:g} s"
    help = "if its supervisor is stopped, `kill -CONT` lets it go on"
    return TimelineError("silent", message, help)


_NAMED = "install Eigentime, and put the command on PATH or its path into EIGENTIME"


def _command() -> str:
    """The path of `eigentime`."""
    name = os.environ.get("EIGENTIME") or "eigentime"
    found = shutil.which(name)
    if found is None:
        message = f"there is no command '{name}', which makes timelines"
        raise TimelineError("not_installed", message, _NAMED)
    return os.path.abspath(found)


class Client:
    """Knows where a timeline is, finds or makes it, and ends one that it made."""

    name: str
    """The name of the timeline."""
    # The process with which the timeline ends.
    _holder: Any = None

    def _find(self, name: str) -> None:
        """Finds a timeline that somebody else made and removes."""
        self._eigentime = _command()
        words = [self._eigentime, "ctl", "show", "--json", "--", name]
        asked = subprocess.run(words, check=False, capture_output=True, text=True)
        if not asked.stdout.startswith("{"):
            raise self._failed("not_found", asked.stderr)
        self._take(json.loads(asked.stdout))

    def _make(self, name: str | None, options: Mapping[str, Any]) -> None:
        """Makes a timeline that ends when it is closed, and at the latest with this process."""
        self._eigentime = _command()
        self._process = os.getpid()
        given = written(options)
        saved = given.get("continue")
        if saved is not None:
            given["continue"] = "-"
        flags = [
            f"--{option.replace('_', '-')}" + ("" if value is True else f"={value}")
            for option, value in given.items()
            if value is not False
        ]
        words = [self._eigentime, "ctl", "create", "--hold", "--json", *flags]
        self._holder = subprocess.Popen(
            words if name is None else [*words, "--", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Ctrl-C is meant for the program that started it.
            start_new_session=True,
        )
        # If it does not read, it says why. An empty line terminates a truncated document.
        with suppress(BrokenPipeError):
            self._holder.stdin.write(f"{saved or ''}\n\n")
            self._holder.stdin.flush()
        said = []
        for line in self._holder.stdout:
            if line.startswith("{"):
                break
            said.append(line)
        else:
            self._holder.communicate()
            raise self._failed("not_made", "".join(said))
        sys.stderr.writelines(said)
        self._take(json.loads(line))

    def _take(self, told: dict[str, Any]) -> None:
        self.name, self._socket = told["name"], told["socket"]

    def _failed(self, code: str, said: str) -> TimelineError:
        """The command's output: a message, then help or a tip, then the usage text."""
        said = said.strip() or f"'{self._eigentime}' tells of no timeline\nhelp: {_NAMED}"
        said = said.replace("\n\n  tip: ", "\nhelp: ")
        text = re.sub("^(eigentime|error): ", "", said.split("\n\n")[0])
        message, _, help = text.partition("\nhelp: ")
        return TimelineError(code, message, help or None)

    def _end(self) -> None:
        """Removes a timeline made by this object, with its members. Once is enough."""
        if self._holder is None or self._holder.stdin.closed:
            return
        self._holder.stdin.close()
        with self._holder.stdout as stdout:
            if os.getpid() != self._process:
                # It is not a child of a forked process; the process that made the timeline ends it.
                self._holder.returncode = 0
                return
            # Forked processes have the pipe, too.
            self._holder.terminate()
            said = stdout.read()
        status = self._holder.wait()
        if status != 0:
            raise self._failed(
                "refused", said or f"eigentime ctl create ended with status {status}"
            )

    def environment(self, env: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
        """`env`, or this process's, with the variables by which `eigentime` finds the timeline."""
        runtime, directory = os.path.split(os.path.dirname(self._socket))
        # In /tmp, the directory has another name, and is found if the variable is empty.
        found = runtime if directory == "eigentime" else ""
        return {**(os.environ if env is None else env), "EIGENTIME_RUNTIME_DIR": found}

    def _start(self, args: Any, options: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The words and options that start in the timeline what `Popen(args, **options)` starts on
        the host."""
        if not os.path.exists(self._socket):
            raise ended(self.name)
        words: Sequence[Any] = [args] if isinstance(args, (str, bytes, os.PathLike)) else args
        shell, executable = options.pop("shell", False), options.pop("executable", None)
        if shell:
            words = [executable or "/bin/sh", "-c", *words]
        elif executable is not None:
            replace = "import os, sys; os.execvp(sys.argv[1], sys.argv[2:])"
            words = [sys.executable, "-ISc", replace, executable, *words]
        options["env"] = self.environment(options.get("env"))
        run = [self._eigentime, "run", "--timeline", self.name, "--existing", "--"]
        return [*run, *words], options

    def _connect(self, method: str, params: Mapping[str, Any]) -> socket.socket:
        """Makes a request on its own connection: threads and forked processes do not share it,
        and a waiting request delays nothing else."""
        asked = {"method": method, "params": written(params), "protocol": 1}
        request = json.dumps(asked).encode() + b"\n"
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(None if method == "wait" else PATIENCE)
        directory, name = os.path.split(self._socket)
        try:
            # A socket path has at most 107 bytes: unix(7).
            place = os.open(directory, os.O_PATH)
            try:
                connection.connect(f"/proc/self/fd/{place}/{name}")
            finally:
                os.close(place)
            connection.sendall(request)
        except (ConnectionError, FileNotFoundError):
            connection.close()
            raise ended(self.name) from None
        return connection

    def _otherwise(self, error: Exception, params: Mapping[str, Any]) -> Answer | None:
        """Handles an unanswered request: the end may be what it waits for. Returns None if
        another supervisor has taken over the timeline and must answer."""
        if isinstance(error, socket.timeout):
            raise silent(self.name) from None
        if isinstance(error, ConnectionError):
            error = ended(self.name)
        code = getattr(error, "code", None)
        if params.get("ended") and code == "ended":
            return Answer(0, {})
        if code == "moved":
            return None
        raise error
