#!/usr/bin/env python3
"""How long a large Redis is stopped while it is saved: `eigentime ctl snapshot` compared with
`criu dump --leave-running`."""

import argparse
import json
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from eigenbench.precision import ROOT, Failed
from eigenbench.processes import Deadline, child, run
from eigenbench.table import markdown
from eigenbench.translated import EIGENTIME, TIMELINE, VALUE, Saved, rounds, stopped_in

START_S = 10.0
FILL_S = 300.0
WATCH_S = 0.0005
WRITE_S = 120.0
# The command uses the same.
OPTIONS = ["--file-locks", "--leave-running", "-v4", "-o", "dump.log"]
FIGURES = ("stopped, as told", "stopped, as seen", "all of it")
FIGURES_IN_MACHINE = ("longest stop", "last stop", "all stops")
CRIU, OURS = "criu dump --leave-running", "eigentime ctl snapshot"


def main() -> int:
    """Starts two servers, saves each in turn, prints the results."""
    arguments = parse()
    try:
        if arguments.in_machine:
            in_machine(arguments)
        else:
            here(arguments)
    except Failed as failed:
        print(f"snapshot: {failed}", file=sys.stderr)
        return 1
    return 0


def here(arguments: argparse.Namespace) -> None:
    """On this host."""
    place = Path(tempfile.mkdtemp(prefix="eigenbench-", dir=arguments.dir))
    try:
        with ExitStack() as stack:
            own = [str(EIGENTIME), "run", "--timeline", TIMELINE, "--rate", "10", "--"]
            # Runs last, when the servers have ended.
            stack.callback(remove_timeline)
            ours = stack.enter_context(
                server(place / "ours.sock", own, arguments.bytes)
            )
            bare = stack.enter_context(server(place / "bare.sock", [], arguments.bytes))
            writers = {
                CRIU: (bare, lambda to: by_criu(arguments.criu, bare.pid, to)),
                OURS: (ours, lambda to: by_us(arguments.criu, to)),
            }
            told = measure(writers, place, arguments.rounds)
    finally:
        shutil.rmtree(place)
    print(table(told, FIGURES))


def in_machine(arguments: argparse.Namespace) -> None:
    """In a machine whose kernel tracks memory changes."""
    saved: dict[str, list[Saved]] = {CRIU: [], OURS: []}
    for criu, ours in rounds(arguments.criu, arguments.bytes, arguments.rounds):
        saved[CRIU].append(criu)
        saved[OURS].append(ours)
        # A round takes minutes.
        print(f"stopped, s: {criu.stops}, {ours.stops}", file=sys.stderr)
    told = {
        name: [(max(one.stops), one.stops[-1], sum(one.stops)) for one in all_of_it]
        for name, all_of_it in saved.items()
    }
    print(table(told, FIGURES_IN_MACHINE))
    for name, (*_, last) in saved.items():
        sizes = ", ".join(f"{size / 1e6:.0f}" for size in last.sizes)
        print(f"\nIn the last round, `{name}` wrote {sizes} MB, stop by stop.")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench/snapshot.py", description=__doc__)
    parser.add_argument(
        "--bytes", type=int, default=1 << 30, help="what each server holds"
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--criu", default=str(ROOT / "build/criu/criu"), metavar="PATH")
    parser.add_argument("--dir", default="/dev/shm", help="where it is written")
    parser.add_argument(
        "--in-machine",
        action="store_true",
        help="in a virtual machine whose kernel tracks memory changes, so that both write most of "
        "it beforehand",
    )
    return parser.parse_args()


class Server:
    """A server with this much data."""

    def __init__(self, pid: int, path: Path) -> None:
        self.pid, self.path = pid, path

    def ask(self, *words: str) -> str:
        """The first line of its answer."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(FILL_S)
            client.connect(str(self.path))
            request = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            client.sendall(f"*{len(words)}\r\n{request}".encode())
            return client.recv(4096).decode().splitlines()[0]

    def answers(self) -> bool:
        """Whether it answers."""
        try:
            return self.ask("PING") == "+PONG"
        except OSError:
            return False


@contextmanager
def server(path: Path, before: list[str], size: int) -> Iterator[Server]:
    """A running server."""
    options = [
        "--port",
        "0",
        "--unixsocket",
        str(path),
        "--save",
        "",
        "--dir",
        str(path.parent),
    ]
    options += ["--enable-debug-command", "yes"]
    with child([*before, "redis-server", *options]) as process:
        started = Server(process.pid, path)
        until = Deadline(START_S)
        while not started.answers():
            if not until.remaining() or process.poll() is not None:
                raise Failed("redis-server does not answer")
            time.sleep(0.02)
        filled = started.ask("DEBUG", "POPULATE", str(size // VALUE), "key", str(VALUE))
        if filled != "+OK":
            raise Failed(filled)
        yield started


def remove_timeline() -> None:
    """Removes the timeline of our server."""
    removed = run([str(EIGENTIME), "ctl", "rm", TIMELINE, "--force"], Deadline(START_S))
    if not removed.succeeded:
        print(f"snapshot: {removed.complaint}", file=sys.stderr)


def by_criu(criu: str, pid: int, to: Path) -> float:
    """Saves with CRIU; returns for how many seconds CRIU's log says that it was stopped."""
    to.mkdir()
    done = run(
        [criu, "dump", "-t", str(pid), "-D", str(to), *OPTIONS], Deadline(WRITE_S)
    )
    if not done.succeeded:
        raise Failed(f"criu: {done.complaint}")
    return stopped_in((to / "dump.log").read_text())


def by_us(criu: str, to: Path) -> float:
    """Saves with our command; returns for how many seconds it reports that it was stopped."""
    words = ["ctl", "snapshot", TIMELINE, "-o", str(to), "--criu", criu, "--json"]
    done = run([str(EIGENTIME), *words], Deadline(WRITE_S))
    if not done.succeeded:
        raise Failed(done.err)
    return sum(json.loads(done.out)["stopped_ns"]) / 1e9


class Watching(threading.Thread):
    """Polls a process to measure how long its last thread is stopped: in the first one, CRIU
    runs code of its own."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        *_, last = sorted(Path(f"/proc/{pid}/task").iterdir())
        self.state, self.stopped, self.ends = last / "stat", 0.0, False

    def run(self) -> None:
        last = time.monotonic()
        while not self.ends:
            state = self.state.read_text().rsplit(")", 1)[1].split()[0]
            now = time.monotonic()
            # By job control, or by a tracer.
            if state in "Tt":
                self.stopped += now - last
            last = now
            time.sleep(WATCH_S)


Writer = tuple[Server, Callable[[Path], float]]


def measure(
    writers: dict[str, Writer], place: Path, rounds: int
) -> dict[str, list[tuple[float, ...]]]:
    """The figures of each round; the two writers take turns."""
    told: dict[str, list[tuple[float, ...]]] = {name: [] for name in writers}
    for _ in range(rounds):
        for name, (asked, write) in writers.items():
            watching = Watching(asked.pid)
            watching.start()
            began = time.monotonic()
            try:
                stopped = write(place / "written")
            finally:
                took = time.monotonic() - began
                watching.ends = True
                watching.join()
            shutil.rmtree(place / "written")
            told[name].append((stopped, watching.stopped, took))
    return told


def table(told: dict[str, list[tuple[float, ...]]], titles: Sequence[str]) -> str:
    """Medians in milliseconds, with the ratio to the first, of them and in each round."""
    first, *_ = told.values()
    rows = []
    for name, figures in told.items():
        for index, figure in enumerate(titles):
            values = [one[index] * 1e3 for one in figures]
            bases = [one[index] * 1e3 for one in first]
            ratios = [value / base for value, base in zip(values, bases, strict=True)]
            span = f"{min(values):.0f} – {max(values):.0f}"
            middle = median(values)
            ratio = f"{middle / median(bases):.2f}"
            between = f"{min(ratios):.2f} – {max(ratios):.2f}"
            rows.append([name, figure, f"{middle:.0f}", span, ratio, between])
    header = ["by", "in ms", "median", "range", "ratio", "of rounds"]
    return markdown(header, "llrrrr", rows)


if __name__ == "__main__":
    sys.exit(main())
