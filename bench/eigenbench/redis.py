"""A Redis server at a level, and its clients on the host."""

import csv
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eigenbench import levels
from eigenbench.columns import BESIDE_PEERS, Column
from eigenbench.levels import Level
from eigenbench.processes import Deadline, child, run
from eigenbench.samples import REQUESTS, Probe
from eigenbench.servers import (
    LEVELS,
    all_failed,
    answers,
    clients_text,
    why_not_started,
)
from eigenbench.suites import Effort, Efforts, Failure, Outcome, Value

# For each probe, the command and the number of clients.
WORK = {
    f"redis-{command.lower()}-{clients}": (command, clients)
    for clients in (1, 20)
    for command in ("GET", "SET")
}

START_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 2.0
BENCHMARK_TIMEOUT_S = 15.0
PING_INTERVAL_S = 0.02

# Requests that warm up the server and show how many take the requested time.
PILOT_REQUESTS = 500

EFFORTS = Efforts(Effort(7, 260), Effort(2, 30))


@dataclass(frozen=True)
class Redis:
    """Requests per second of a server, with one client and with several."""

    seconds_per_probe: float
    name: str = "redis"
    title: str = "Redis, the server at the level and the clients on the host"
    note: str = (
        "`redis-benchmark` over a Unix socket, nothing written to disk; more is "
        "better. Debian's server uses jemalloc, under which libfaketime hangs at "
        "start (its issue 130), so there is a row without jemalloc."
    )
    levels: tuple[str, ...] = (*LEVELS[:-2], levels.FAKETIME_MALLOC, *LEVELS[-2:])
    columns: tuple[Column, ...] = BESIDE_PEERS
    efforts: Efforts = EFFORTS

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each command and number of clients."""
        return tuple(
            Probe(key, _title(command, clients), REQUESTS)
            for key, (command, clients) in WORK.items()
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Starts a server, measures each command, and ends it."""
        for tool in "redis-server", "redis-benchmark":
            if shutil.which(tool) is None:
                yield from all_failed(wanted, f"{tool} not installed")
                return
        with tempfile.TemporaryDirectory(prefix="eigenbench-") as folder:
            path = Path(folder) / "redis.sock"
            log = Path(folder) / "errors"
            command = level.command(*_server(path))
            with log.open("wb") as err, child(command, err=err) as process:
                until = deadline.within(START_TIMEOUT_S)
                if answers(process, until, lambda: _pongs(path), PING_INTERVAL_S):
                    yield from self._ask(path, wanted, deadline)
                    _shut_down(path, process)
                else:
                    yield from all_failed(
                        wanted, why_not_started(process, log, START_TIMEOUT_S)
                    )

    def _ask(
        self, path: Path, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        for key, (command, clients) in WORK.items():
            if key not in wanted:
                continue
            rate = _benchmark(path, command, clients, PILOT_REQUESTS, deadline)
            if isinstance(rate, float):
                requests = max(PILOT_REQUESTS, int(rate * self.seconds_per_probe))
                rate = _benchmark(path, command, clients, requests, deadline)
            if isinstance(rate, float):
                yield Value(key, rate)
            else:
                yield Failure(key, rate)


def _title(command: str, clients: int) -> str:
    return f"{command}, {clients_text(clients)}"


def _server(path: Path) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(path),
        "dir": str(path.parent),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
    }
    arguments = [word for name in options for word in (f"--{name}", options[name])]
    return ["redis-server", *arguments]


def _pongs(path: Path) -> bool:
    with suppress(OSError), _connected(path) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")
    return False


def _shut_down(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Asks the server to end; if it does not, whoever started it ends it."""
    with suppress(OSError), _connected(path) as connection:
        connection.sendall(b"SHUTDOWN NOSAVE\r\n")
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(1.0)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _benchmark(
    path: Path, command: str, clients: int, requests: int, deadline: Deadline
) -> float | str:
    """Requests per second, or why there is no such figure."""
    argv = ["redis-benchmark", "-s", str(path), "--csv", "-t", command.lower()]
    argv += ["-c", str(clients), "-n", str(requests)]
    finished = run(argv, deadline.within(BENCHMARK_TIMEOUT_S))
    if not finished.succeeded:
        return finished.complaint
    for row in csv.reader(finished.out.splitlines()):
        if len(row) > 1 and row[0] == command:
            return float(row[1])
    return "no result"
