"""A PostgreSQL server at a level, and read-only clients on the host."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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

# Distributions do not put these on PATH.
DIRECTORIES = Path("/usr/lib/postgresql")
TOOLS = ("initdb", "postgres", "pgbench", "psql")

# It refuses to run as root.
NOBODY = "65534"

CLIENTS = (1, 8)
SCALE = 1
# How long pgbench counts, and the limit for everything else.
SECONDS = 1
MAKE_TIMEOUT_S = 30.0
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
LOOK_INTERVAL_S = 0.05

RATE = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


def tool(name: str) -> str | None:
    """The path of one of PostgreSQL's programs."""
    found = sorted(DIRECTORIES.glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


@dataclass(frozen=True)
class Postgres:
    """Transactions per second of a server with read-only clients."""

    name: str = "postgres"
    title: str = "PostgreSQL, the server at the level and the clients on the host"
    note: str = (
        f"`pgbench -S` for {SECONDS} s over a Unix socket, prepared statements, scale "
        f"{SCALE}; more is better."
    )
    levels: tuple[str, ...] = LEVELS
    columns: tuple[Column, ...] = BESIDE_PEERS
    efforts: Efforts = Efforts(Effort(7, 240), Effort(2, 40))  # noqa: RUF009

    @property
    def probes(self) -> tuple[Probe, ...]:
        """One for each number of clients."""
        return tuple(
            Probe(key(clients), f"`pgbench -S`, {clients_text(clients)}", REQUESTS)
            for clients in CLIENTS
        )

    def measure(
        self, level: Level, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        """Makes a database, starts a server, measures its transactions and ends it."""
        missing = [name for name in TOOLS if tool(name) is None]
        if missing:
            yield from all_failed(wanted, f"{missing[0]} not installed")
            return
        with tempfile.TemporaryDirectory(prefix="eigenbench-") as folder:
            place = Path(folder)
            os.chmod(place, 0o777)
            made = self._make(place, deadline)
            if made:
                yield from all_failed(wanted, made)
                return
            command = level.command(*_as_user(), *_server(place))
            log = place / "errors"
            with log.open("wb") as err, child(command, err=err) as process:
                until = deadline.within(START_TIMEOUT_S)
                if answers(process, until, lambda: _selects(place), LOOK_INTERVAL_S):
                    yield from self._ask(place, wanted, deadline)
                    _end(place, process)
                else:
                    why = why_not_started(process, log, START_TIMEOUT_S)
                    yield from all_failed(wanted, why)

    def _make(self, place: Path, deadline: Deadline) -> str:
        """Why there is no database; empty if there is one."""
        options = (
            "-D",
            str(place / "data"),
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
        )
        command = [*_as_user(), str(tool("initdb")), *options]
        finished = run(command, deadline.within(MAKE_TIMEOUT_S))
        return "" if finished.succeeded else finished.complaint

    def _ask(
        self, place: Path, wanted: Sequence[str], deadline: Deadline
    ) -> Iterator[Outcome]:
        base = [str(tool("pgbench")), "-h", str(place), "-U", "postgres"]
        filled = run(
            [*base, "-i", "-q", "-s", str(SCALE), "postgres"],
            deadline.within(MAKE_TIMEOUT_S),
        )
        for clients in CLIENTS:
            probe = key(clients)
            if probe not in wanted:
                continue
            if not filled.succeeded:
                yield Failure(probe, filled.complaint)
                continue
            options = ("-S", "-n", "-M", "prepared", "-T", str(SECONDS))
            command = [*base, *options, "-c", str(clients), "postgres"]
            finished = run(command, deadline.within(MAKE_TIMEOUT_S))
            found = RATE.search(finished.out)
            if finished.succeeded and found:
                yield Value(probe, float(found.group(1)))
            else:
                yield Failure(probe, finished.complaint or "no result")


def key(clients: int) -> str:
    """The probe for this number of clients."""
    return f"pgbench-{clients}"


def _as_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]


def _server(place: Path) -> list[str]:
    options = ("-c", "listen_addresses=", "-c", "fsync=off", "-k", str(place))
    return [str(tool("postgres")), "-D", str(place / "data"), *options]


def _selects(place: Path) -> bool:
    who = ("-h", str(place), "-U", "postgres", "-d", "postgres")
    command = [str(tool("psql")), *who, "-Atc", "select 1"]
    return run(command, Deadline(START_TIMEOUT_S)).succeeded


def _end(place: Path, process: subprocess.Popen[bytes]) -> None:
    """Asks the server to end; if it does not, whoever started it ends it."""
    pid = (place / "data" / "postmaster.pid").read_text().split()[0]
    run(["kill", "-INT", pid], Deadline(STOP_TIMEOUT_S))
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
