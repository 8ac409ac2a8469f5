"""Snapshots of a Redis under a kernel that tracks memory changes, so that most of the memory is
written while it runs: in the tests' virtual machine, by QEMU's translator. That counts time by
instructions, so only ratios mean anything, however busy the host is."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenbench.precision import ROOT, Failed

EIGENTIME = ROOT / "build/bin/eigentime"
VM = ROOT / "build/share/eigentime/vm"
TESTS = ROOT / "tests/programs/checkpoints"
TIMELINE = "eigenbench-snapshot"
REDIS = ("redis-server", "redis-cli")
SERVER = "--save '' --enable-debug-command yes --dir /run"
VALUE = 4096
# A client changes one key in twenty, twenty at a time.
CHANGED, PERIOD_S = 20, 0.02
CHANGE = """
local now = redis.call('time')
for one = 1, 20 do
    local key = (now[1] * 1000003 + now[2] * 20 + one) % ARGV[1]
    redis.call('setrange', string.format('key:%d', key), 0, now[2])
end
return redis.status_reply('OK')
""".replace("\n", " ")
# The memory that Redis needs for a byte of a value, twice for servers and once for what is written;
# and what the machine itself needs.
OVERHEAD, COPIES, OWN_MIB = 1.35, 3, 1536
START_S = 120
WRITTEN, LAST = "/dev/shm/written", "images"
WRAPPER, KILLED = "/run/criu", 128 + 9
# Without them, CRIU refuses a server that has clients.
CONNECTED = ["--tcp-established", "--network-lock", "nftables"]
OPTIONS = " ".join(["--file-locks --track-mem -v4 -o dump.log", *CONNECTED])


@dataclass(frozen=True)
class Saved:
    """For how many seconds a server was stopped each time, and the bytes written of its memory."""

    stops: list[float]
    sizes: list[int]


class Server:
    """A Redis in the machine."""

    def __init__(self, there: Any, port: int, before: str, size: int) -> None:
        self.there, self.port, self.keys = there, port, size // VALUE
        words = f"{before} redis-server --port {port} {SERVER}"
        there.do(f"setsid {words} >/run/{port}.log 2>&1 </dev/null &")
        answers = f"until redis-cli -p {port} ping; do usleep 100000; done"
        there.do(f"timeout {START_S} sh -c '{answers}'")
        filled = self.ask(f"debug populate {self.keys} key {VALUE}")
        if filled.strip() != "OK":
            raise Failed(filled)
        _, told = self.ask("info server").split("process_id:")
        self.pid = int(told.split()[0])

    def ask(self, words: str) -> str:
        """What it answers."""
        return self.there.do(f"redis-cli -p {self.port} {words}")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While a client changes some of its keys."""
        change = f"eval {shlex.quote(CHANGE)} 0 {self.keys // CHANGED}"
        words = f"redis-cli -p {self.port} -r -1 -i {PERIOD_S} {change}"
        client = self.there.do(f"{words} >/run/client.log 2>&1 & echo $!").strip()
        yield
        self.there.do(f"kill {client}; tail -n 1 /run/client.log | grep -qx OK")


def rounds(criu: str, size: int, count: int) -> Iterator[tuple[Saved, Saved]]:
    """For each round, what CRIU and our command did. CRIU comes second, with as many passes."""
    with machine(criu, size) as there:
        there.do(f"printf '%s\\n' {shlex.join(wrapper(criu))} >{WRAPPER}")
        there.do(f"chmod +x {WRAPPER}")
        own = f"'{EIGENTIME}' run --timeline {TIMELINE} --rate 10 --"
        for _ in range(count):
            # New ones: where their mappings are decides which of them CRIU makes the kernel walk
            # twice, since what it reads ends in the middle of one.
            ours = Server(there, 7001, own, size)
            bare = Server(there, 7002, "", size)
            with ours.changing():
                by_us(there)
            told = saved(there)
            with bare.changing():
                by_criu(there, criu, bare.pid, len(told.stops))
            yield saved(there), told
            there.do(f"kill -KILL {bare.pid}")
            there.do(f"'{EIGENTIME}' ctl rm {TIMELINE} --force")


def wrapper(criu: str) -> list[str]:
    """A script in place of CRIU that ends our command after the last stop, since checksums take
    minutes in such a machine."""
    dump = f"'{criu}' \"$@\" || exit"
    return ["#!/bin/sh", dump, '[ "$1" != dump ] || kill -KILL $PPID']


@contextmanager
def machine(criu: str, size: int) -> Iterator[Any]:
    """The machine of the tests, with what is needed in it."""
    os.environ.update(
        EIGENTIME=str(EIGENTIME), EIGENTIME_CRIU=criu, EIGENTIME_VM=str(VM)
    )
    sys.path.append(str(TESTS))
    # They read these variables.
    from elsewhere import files_of
    from machine import TSC, Machine
    from moving import Wrong

    programs = [shutil.which(name) for name in REDIS]
    if None in programs:
        raise Failed(f"not installed: {', '.join(REDIS)}")
    memory = int(COPIES * OVERHEAD * size / (1 << 20)) + OWN_MIB
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="eigenbench-") as place:
        # It writes its files there.
        os.chdir(place)
        try:
            started = Machine(files_of(*programs), "2026-01-01", TSC, memory)
            try:
                yield started
            finally:
                started.process.kill()
                started.process.wait()
        except Wrong as wrong:
            raise Failed(str(wrong)) from wrong
        finally:
            os.chdir(before)


def by_us(there: Any) -> None:
    """By our command."""
    more = " ".join(f"--criu-arg={word}" for word in CONNECTED)
    words = f"ctl snapshot {TIMELINE} -o {WRITTEN} --criu {WRAPPER} {more}"
    there.do(f"'{EIGENTIME}' {words}", KILLED)


def by_criu(there: Any, criu: str, pid: int, count: int) -> None:
    """By CRIU, stopped this often."""
    former = ""
    for name in [*(f"images-{number}" for number in range(1, count)), LAST]:
        verb = "dump --leave-running" if name == LAST else "pre-dump"
        images = f"{WRITTEN}/{name}"
        words = f"{verb} -t {pid} -D {images} {OPTIONS} {former}"
        there.do(f"mkdir -p {images}; '{criu}' {words}")
        former = f"--prev-images-dir ../{name}"


def saved(there: Any) -> Saved:
    """What was written, which is removed."""
    # "images" comes before "images-1".
    last, *earlier = there.do(f"ls -d {WRITTEN}*/{LAST}*").split()
    stops, sizes = [], []
    for images in [*earlier, last]:
        stops.append(stopped_in(there.do(f"cat {images}/dump.log")))
        pages = there.do(f"stat -c %s {images}/pages-*.img")
        sizes.append(sum(map(int, pages.split())))
    there.do(f"rm -r {WRITTEN}*")
    return Saved(stops, sizes)


def stopped_in(log: str) -> float:
    """For how many seconds a run of CRIU stopped the processes, by its log; our command finds out
    in the same way."""
    lines = log.splitlines()
    began = next(line for line in lines if "Seized task " in line)
    ended = next(line for line in reversed(lines) if "Unfreezing tasks" in line)
    first, last = (float(line[1 : line.index(")")]) for line in (began, ended))
    return round(last - first, 6)
