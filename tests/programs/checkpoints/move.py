"""Moves programs through checkpoints, as the first process of a process namespace, where their numbers
are free again once they have ended.

    move.py CASE PROGRAM...     EIGENTIME names the command, EIGENTIME_CRIU that of CRIU

Prints what is wrong and ends with status 1, or with 0.
"""

import ctypes
import itertools
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

EIGENTIME = os.environ["EIGENTIME"]
# A machine that is busy.
LATE = 5.0


class Wrong(Exception):
    """What is not as it should be."""


def ensure(holds, text):
    if not holds:
        raise Wrong(text)


def command(*words, status=0):
    done = subprocess.run(
        [EIGENTIME, *map(str, words)],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    said = f"eigentime {' '.join(map(str, words))}: {done.returncode}: {done.stdout}{done.stderr}"
    ensure(done.returncode == status, said)
    return done.stdout + done.stderr


class Moving:
    """A program, and what it has written."""

    def __init__(self, name, words, timeline=None):
        self.timeline, self.directory = timeline, Path(f"{name}.checkpoint")
        self.out = Path(f"{name}.out")
        before = (
            []
            if timeline is None
            else [EIGENTIME, "run", "--timeline", name, *timeline, "--"]
        )
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                [*before, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.pid, self.name = self.process.pid, name

    def lines(self):
        text = self.out.read_text()
        return text[: text.rfind("\n") + 1].splitlines()

    def await_lines(self, count, limit=60):
        end = time.monotonic() + limit
        while len(self.lines()) < count:
            ensure(time.monotonic() < end, f"it has written {self.lines()}")
            time.sleep(0.02)

    def await_clocks(self):
        end = time.monotonic() + 60
        while f"{self.name} " not in command("ctl", "list") or "member" not in command(
            "ctl", "list"
        ):
            ensure(time.monotonic() < end, "it has no timeline")
            time.sleep(0.02)

    def checkpoint(self, *options):
        shutil.rmtree(self.directory, ignore_errors=True)
        of = ["--pid", self.pid] if self.timeline is None else [self.name]
        command("checkpoint", *of, "-o", self.directory, *options)

    def reap(self):
        """Once it has ended: only then its number is free."""
        end = time.monotonic() + 60
        while any(session == self.pid for session in sessions()):
            ensure(time.monotonic() < end, "it has not ended")
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass
            time.sleep(0.01)

    def restore(self, *options):
        command("restore", self.directory, "--timeline", self.name, *options)

    def end(self):
        ended = [self.pid, *(int(pid) for pid in children_of(self.pid))]
        for pid in ended:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.reap()

    def stood(self):
        return json.loads((self.directory / "manifest.json").read_text())["moved"][
            "saved"
        ]


def sessions():
    """Those of all processes, also of ones that nobody has waited for."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield int(path.read_text().rsplit(")", 1)[1].split()[3])
        except OSError:
            pass


def children_of(pid):
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        yield from path.read_text().split()


def ticks(lines):
    """The readings of a ticker: number, wall clock, monotonic clock, in seconds."""
    return [[float(word) for word in line.split()[:3]] for line in lines]


def check_steps(found):
    for before, after in itertools.pairwise(found):
        ensure(after[0] == before[0] + 1, f"{after} follows {before}")
        ensure(
            after[2] >= before[2], f"its monotonic clock went back: {before}, {after}"
        )


def first_since(found, written, saved):
    """The first reading since clocks stood, of those that follow as many as were written by then: one more
    may have been made before, and not been written yet."""
    stood = saved["clocks"]["realtime"] / 1e9
    since = [reading for reading in found[written : written + 2] if reading[1] >= stood]
    ensure(
        since, f"{found[written : written + 2]} were read before it stood at {stood}"
    )
    return since[0]


def check_policy(found, written, saved, policy, rate, began, done):
    """A ticker's first reading after a restore, between two instants of the host, is what that says."""
    check_steps(found)
    host, clocks = saved["host_realtime_ns"] / 1e9, saved["clocks"]
    first = first_since(found, written, saved)
    policies = (
        dict(part.split("=") for part in policy.split(",")) if "=" in policy else {}
    )
    for index, clock, kind in [(1, "realtime", "wall"), (2, "monotonic", "monotonic")]:
        stood = clocks[clock] / 1e9
        last = found[written - 1][index]
        ensure(
            last <= stood + 1e-6, f"{clock} showed {last} before it stood at {stood}"
        )
        catches_up = policies.get(kind, policy) == "catch-up"
        least = stood + ((began - host) * rate if catches_up else 0)
        # It has slept meanwhile; it is started by a command that needs time.
        most = least + (done - began + LATE) * rate
        ensure(
            least <= first[index] <= most,
            f"{clock} is {first[index]}, not {least} to {most}",
        )


def clocks(program, timeline, policy, rate):
    """A ticker is moved; its first reading is what the policy says."""
    moving = Moving("ticker", program, timeline)
    moving.await_lines(5)
    moving.checkpoint()
    moving.reap()
    before = len(moving.lines())
    time.sleep(2)
    began = time.time()
    moving.restore("--policy", policy)
    done = time.time()
    moving.await_lines(before + 5)
    check_policy(
        ticks(moving.lines()), before, moving.stood(), policy, rate, began, done
    )
    moving.end()


def waits(program, timeline, policy):
    """Threads wait in every way: none is early, each ends once."""
    moving = Moving("waits", program, timeline)
    moving.await_lines(1)
    time.sleep(0.5)
    moving.checkpoint()
    moving.reap()
    time.sleep(3)
    moving.restore("--policy", policy)
    moving.await_lines(1 + len(WAITS))
    time.sleep(0.5)
    lines = moving.lines()[1:]
    # A reading that a thread of a process without a timeline was in the middle of is the kernel's.
    told = sorted(
        line.split()[0] for line in lines if line.split()[0] not in ("BACK", "jump")
    )
    ensure(told == sorted(WAITS), f"{lines}")
    late = {line.split()[0]: float(line.split()[-1]) for line in lines}
    early = {name: by for name, by in late.items() if by < -0.002}
    ensure(not early, f"too early: {early}")
    if timeline is not None:
        ensure("BACK" not in late, f"a clock went back: {lines}")
    moving.end()


WAITS = [
    *[
        "abs-sleep",
        "rel-sleep",
        "poll",
        "cond-wall",
        "tfd-wall-abs",
        "tfd-mono-abs",
        "tfd-rel",
    ],
    *["posix", "itimer", "child-sleep"],
]


def redis(program, timeline, policy, rate):
    """Keys expire when the virtual time says so."""
    moving = Moving(
        "redis",
        [*program, "--unixsocket", "redis.sock", "--port", "0", "--save", ""],
        timeline,
    )
    path = Path("redis.sock")

    def ask(*words):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            request = f"*{len(words)}\r\n" + "".join(
                f"${len(word)}\r\n{word}\r\n" for word in words
            )
            client.sendall(request.encode())
            return client.recv(4096).decode().splitlines()[0]

    end = time.monotonic() + 60
    while not path.exists():
        ensure(time.monotonic() < end, "redis does not start")
        time.sleep(0.05)
    for key, span in [("short", "5000"), ("long", "60000")]:
        ensure(ask("SET", key, "value", "PX", span) == "+OK", "SET fails")
    before = int(ask("PTTL", "long")[1:])
    moving.checkpoint()
    moving.reap()
    host = moving.stood()["host_realtime_ns"] / 1e9
    time.sleep(6 / rate)
    moving.restore("--policy", policy)
    left = int(ask("PTTL", "long")[1:])
    away = (time.time() - host) * 1000 * rate
    if policy == "catch-up":
        ensure(ask("GET", "short") == "$-1", "a key outlived its time")
        ensure(
            before - away - LATE * 1000 <= left <= before - 5900, f"{left} of {before}"
        )
    else:
        ensure(before - LATE * 1000 * rate <= left <= before, f"{left} of {before}")
    moving.end()


# What Python's ssl and the command openssl say of a certificate.
VALID, NOT_YET_VALID = ["0", "0"], ["9", "9"]


class Authority:
    """Issues certificates by the command openssl, whose clock is what it is told."""

    def __init__(self):
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        own = ["-keyout", "authority.key", "-out", "authority.pem", "-days", "7300"]
        self.openssl("req", "-x509", *new, "-subj", "/CN=authority", *own)
        name = ["-subj", "/CN=server.test", "-addext", "subjectAltName=DNS:server.test"]
        request = ["-keyout", "server.key", "-out", "server.csr"]
        self.openssl("req", *new, *name, *request)

    @staticmethod
    def openssl(*words, date=None):
        at = [] if date is None else [EIGENTIME, "run", "--date", date, "--"]
        words = [*at, "openssl", *words]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        ensure(done.returncode == 0, f"{words}: {done.stderr}")
        return done.stdout

    def issue(self, date):
        """A fresh one, and from when on it is valid."""
        by = ["-CA", "authority.pem", "-CAkey", "authority.key", "-days", "1"]
        request = ["-req", "-in", "server.csr", "-copy_extensions", "copy"]
        self.openssl("x509", *request, *by, "-out", "fresh.pem", date=date)
        Path("fresh.pem").rename("server.pem")
        told = self.openssl("x509", "-in", "server.pem", "-noout", "-startdate")
        return ssl.cert_time_to_seconds(told.strip().removeprefix("notBefore="))


def tls(program, timeline, policy, rate):
    """A certificate that was issued meanwhile is valid for a client whose wall clock has caught up."""
    authority = Authority()
    authority.issue(None if timeline is None else "2038-01-01")
    files = ["authority.pem", "server.pem", "server.key"]
    moving = Moving("tls", [*program, *files], timeline)

    def connect():
        """When it did, and what it says of the certificate."""
        written = len(moving.lines())
        os.kill(moving.pid, signal.SIGUSR1)
        moving.await_lines(written + 1)
        began, ended, *told = moving.lines()[-1].split()
        return int(float(began)), int(float(ended)), told

    moving.await_lines(1)
    ensure(connect()[2] == VALID, f"{moving.lines()}")
    moving.checkpoint()
    moving.reap()
    time.sleep(3)
    saved = moving.stood()
    stood, host = saved["clocks"]["realtime"] / 1e9, saved["host_realtime_ns"] / 1e9
    now = datetime.fromtimestamp(stood + (time.time() - host) * rate, timezone.utc)
    valid_from = authority.issue(None if timeline is None else now.isoformat())
    moving.restore("--policy", policy)
    _, _, told = connect()
    first = VALID if "catch-up" in policy else NOT_YET_VALID
    ensure(told == first, f"valid from {valid_from} on: {moving.lines()}")
    end = time.monotonic() + 60
    while told != VALID:
        began, ended, told = connect()
        # It may have become valid between the two.
        is_right = told == VALID if began >= valid_from else "0" not in told
        ensure(
            is_right or began < valid_from <= ended,
            f"valid from {valid_from} on: {moving.lines()}",
        )
        ensure(time.monotonic() < end, f"valid from {valid_from} on: {moving.lines()}")
    moving.end()


def leave_running(program):
    """It goes on, and what was written can be restored later."""
    moving = Moving("left", program, ["--date", "2038-01-01", "--rate", "2"])
    moving.await_lines(3)
    moving.checkpoint("--leave-running")
    written = len(moving.lines())
    moving.await_lines(written + 5)
    check_steps(ticks(moving.lines()))
    said = command("checkpoint", "left", "-o", moving.directory, status=125)
    ensure("exists already" in said, said)
    command("ctl", "set", "left", "--rate", "3")
    moving.end()


# CRIU as if the kernel tracked memory, on any: a run beforehand writes everything, as does the last, which only looks
# whether the former is where it is said to be.
TRACKING = """#!/bin/sh
case $1 in
check) exit 0 ;;
pre-dump) shift; set -- dump --leave-running "$@" ;;
esac
former='' place='' last=''
for word; do
    shift
    case $last in
    -D) place=$word ;;
    --prev-images-dir) former=$word ;;
    esac
    last=$word
    [ "$word" = --track-mem ] || [ "$word" = --prev-images-dir ] || [ "$word" = "$former" ] || set -- "$@" "$word"
done
[ -z "$former" ] || [ -e "$place/$former/inventory.img" ] || { echo "no $former" >&2; exit 1; }
exec "$EIGENTIME_CRIU" "$@"
"""


def passes(program):
    """What was written in several runs of CRIU is whole, and restored."""
    tracking = Path("tracking-criu")
    tracking.write_text(TRACKING)
    tracking.chmod(0o755)
    moving = Moving("passes", program, TIMELINE)
    moving.await_lines(1)
    words = ["ctl", "snapshot", "passes", "-o", moving.directory]
    told = json.loads(command(*words, "--criu", tracking.absolute(), "--json"))
    # The second run writes no less than the first, so that there is no third before the last.
    ensure(len(told["stopped_ns"]) == 3 and "notes" not in told, f"{told}")
    moving.end()
    command("ctl", "rm", "passes", "--force")
    files = json.loads((moving.directory / "manifest.json").read_text())["files"]
    pages = [name for name in files if name.startswith("images-1/pages-")]
    ensure(pages, f"{list(files)}")
    path = moving.directory / pages[0]
    content = path.read_bytes()
    path.write_bytes(content + b"more")
    said = command("restore", moving.directory, status=125)
    ensure(pages[0] in said and "not what was written" in said, said)
    path.write_bytes(content)
    moving.restore()
    os.kill(moving.pid, signal.SIGUSR1)
    moving.await_lines(2)
    check_steps(ticks(moving.lines()))
    moving.end()


def snapshot(program, policy):
    """It goes on, it is told for how long it was stopped, and what was written is restored."""
    moving = Moving("snapshot", program, TIMELINE)

    def tell():
        written = len(moving.lines())
        os.kill(moving.pid, signal.SIGUSR1)
        moving.await_lines(written + 1)

    moving.await_lines(1)
    for _ in range(2):
        tell()
        shutil.rmtree(moving.directory, ignore_errors=True)
        words = ["ctl", "snapshot", "snapshot", "-o", moving.directory]
        said = command(*words, "--json")
        told = json.JSONDecoder().raw_decode(said)[0]
        stopped, took = told["stopped_ns"], told["took_ns"]
        ensure(stopped and 0 < min(stopped) <= sum(stopped) < took, said)
        # Only a kernel that tracks memory can let it go on in between.
        ensure((len(stopped) == 1) == ("SOFT_DIRTY" in said), said)
        said = command(*words, status=1)
        ensure("exists already" in said, said)
    written = len(moving.lines())
    moving.end()
    command("ctl", "rm", "snapshot", "--force")
    time.sleep(1)
    began = time.time()
    moving.restore("--policy", policy)
    done = time.time()
    tell()
    check_policy(ticks(moving.lines()), written, moving.stood(), policy, 2, began, done)
    moving.end()


def refusals(program):
    """What cannot be done is said, and leaves everything as it was."""
    moving = Moving("refused", program, ["--rate", "2"])
    moving.await_lines(3)
    directory = moving.directory
    said = command(
        "checkpoint", "refused", "-o", directory, "--criu", "/nonexistent", status=125
    )
    ensure("4.0" in said and "ctl save" in said, said)
    old = Path("old-criu")
    old.write_text("#!/bin/sh\necho 'Version: 3.17.1'\n")
    old.chmod(0o755)
    said = command(
        "checkpoint", "refused", "-o", directory, "--criu", "./old-criu", status=125
    )
    ensure("3.17.1" in said and "4.0" in said, said)
    said = command("checkpoint", "nowhere", "-o", directory, status=125)
    ensure("no timeline 'nowhere'" in said, said)
    said = command("checkpoint", "--pid", "4000000", "-o", directory, status=125)
    ensure("no process 4000000" in said, said)
    ensure(not directory.exists(), "something is left")
    written = len(moving.lines())
    moving.await_lines(written + 3)
    moving.checkpoint()
    moving.reap()
    manifest = directory / "manifest.json"
    whole = manifest.read_text()
    manifest.write_text(whole.replace('"version": 1,', '"version": 7,', 1))
    said = command("restore", directory, status=125)
    ensure("version 7" in said, said)
    manifest.write_text(whole[:-20])
    said = command("restore", directory, status=125)
    ensure("no whole checkpoint" in said, said)
    manifest.write_text(whole)
    images = sorted((directory / "images").glob("pages-*.img"))
    content = images[0].read_bytes()
    images[0].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = command("restore", directory, status=125)
    ensure("pages-" in said and "not what was written" in said, said)
    images[0].unlink()
    said = command("restore", directory, status=125)
    ensure("pages-" in said, said)
    images[0].write_bytes(content)
    moving.restore()
    said = command("restore", directory, "--timeline", "other", status=125)
    ensure("another process namespace" in said or "bad size" in said, said)
    moving.await_lines(written + 5)
    moving.end()


def frozen(program):
    """Clocks that stand still do so afterwards, and others can be told to."""
    moving = Moving("frozen", program, ["--date", "2038-01-01", "--rate", "2"])
    moving.await_lines(3)
    command("ctl", "freeze", "frozen")
    for options in [], ["--freeze"]:
        moving.checkpoint()
        stood = moving.stood()["clocks"]["monotonic"]
        moving.reap()
        written = len(moving.lines())
        moving.restore(*options)
        shown = json.loads(command("ctl", "show", "frozen", "--json"))
        clocks = {clock["clock"]: clock["virtual_ns"] for clock in shown["clocks"]}
        ensure(int(clocks["monotonic"]) == stood, f"{clocks} is not {stood}")
        time.sleep(0.5)
        ensure(len(moving.lines()) <= written + 1, "it does not stand still")
        command("ctl", "thaw", "frozen")
        moving.await_lines(written + 3)
    check_steps(ticks(moving.lines()))
    moving.end()


def slew(program, timeline, rate):
    """The wall clock reaches what it would have shown without a step."""
    moving = Moving("slew", program, timeline)
    moving.await_lines(5)
    moving.checkpoint()
    moving.reap()
    before = len(moving.lines())
    time.sleep(2)
    moving.restore("--policy", "slew", "--slew-rate", "0.5")
    saved = moving.stood()
    stood, host = saved["clocks"]["realtime"] / 1e9, saved["host_realtime_ns"] / 1e9
    moving.await_lines(before + 2)
    first = first_since(ticks(moving.lines()), before, saved)
    ensure(first[1] <= stood + LATE * rate * 1.5, f"{first} is not {stood}")
    end = time.monotonic() + 60
    while True:
        shown = json.loads(command("ctl", "show", "slew", "--json"))
        clocks = {clock["clock"]: clock for clock in shown["clocks"]}
        wall = int(clocks["realtime"]["virtual_ns"]) / 1e9
        behind = stood + (int(clocks["realtime"]["host_ns"]) / 1e9 - host) * rate - wall
        if abs(shown["rate"] - rate) < 1e-6:
            break
        ensure(time.monotonic() < end, f"it is still {behind} s behind")
        time.sleep(0.05)
    # As late as the supervisor was to slow down.
    ensure(abs(behind) < 1, f"it is {behind} s behind")
    check_steps(ticks(moving.lines()))
    moving.end()


def rounds(program, count):
    """Again and again at random moments, with changes of the map in between."""
    moving = Moving("rounds", program, ["--date", "2038-01-01", "--rate", "2"])
    for number in range(count):
        moving.await_lines(len(moving.lines()) + 3)
        time.sleep(random.random() / 5)
        change = [
            ["ctl", "set", "rounds", "--rate", random.choice("1234")],
            ["ctl", "leap", "rounds", "3s"],
        ]
        command(*random.choice(change))
        moving.checkpoint()
        moving.reap()
        moving.restore("--policy", random.choice(["continue", "catch-up"]))
    moving.await_lines(len(moving.lines()) + 3)
    check_steps(ticks(moving.lines()))
    moving.end()


def children(program, timeline):
    """Some of its children are about to end, one has ended already."""
    moving = Moving("children", program, timeline)
    for _ in range(5):
        moving.await_lines(len(moving.lines()) + 2)
        moving.checkpoint()
        moving.reap()
        moving.restore()
    moving.await_lines(len(moving.lines()) + 2)
    check_steps(ticks(moving.lines()))
    moving.end()


def killing(program, count):
    """The command is killed at a random moment: the program runs on, or it is in a whole checkpoint."""
    moving = Moving("killing", program, ["--rate", "2"])
    for number in range(count):
        moving.await_lines(len(moving.lines()) + 2)
        shutil.rmtree(moving.directory, ignore_errors=True)
        words = [EIGENTIME, "checkpoint", "killing", "-o", str(moving.directory)]
        asked = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        time.sleep(random.random() / 2)
        asked.kill()
        asked.wait()
        # CRIU is nobody's to kill, and brings to an end what it has begun.
        end = time.monotonic() + 60
        while any(b"criu" in path.read_bytes() for path in lines_of_all()):
            ensure(time.monotonic() < end, "criu does not end")
            time.sleep(0.05)
        time.sleep(0.1)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pass
        state = Path(f"/proc/{moving.pid}/stat")
        runs = state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
        ensure(
            runs != moving.directory.exists(), f"round {number}: runs {runs}, or both"
        )
        if not runs:
            moving.reap()
            subprocess.run(
                [EIGENTIME, "ctl", "rm", "killing"], check=False, capture_output=True
            )
            moving.restore()
    moving.await_lines(len(moving.lines()) + 3)
    check_steps(ticks(moving.lines()))
    moving.end()


def killing_restore(program, count):
    """`restore` is killed at a random moment: its processes run, or there are none and they can be restored."""
    moving = Moving("back", program, ["--rate", "2"])
    moving.await_lines(3)
    moving.checkpoint()
    moving.reap()
    size = moving.out.stat().st_size
    for number in range(count):
        asked = subprocess.Popen(
            [EIGENTIME, "restore", str(moving.directory), "--timeline", "back"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + 60
        if number % 2:
            # Its timeline is just being made.
            while not Path(
                os.environ["EIGENTIME_RUNTIME_DIR"], "eigentime/back"
            ).exists():
                ensure(time.monotonic() < end, "it makes no timeline")
            time.sleep(random.random() / 200)
        else:
            time.sleep(random.random() / 2)
        asked.kill()
        asked.wait()
        while any(b"criu" in path.read_bytes() for path in lines_of_all()):
            ensure(time.monotonic() < end, "criu does not end")
            time.sleep(0.05)
        # One that has been ended may still be seen for a moment.
        written = len(moving.lines())
        while (state := state_of(moving.pid)) and len(moving.lines()) <= written:
            ensure(
                time.monotonic() < end, f"round {number}: it is left in state {state}"
            )
            time.sleep(0.02)
        if state is None:
            ensure(moving.out.stat().st_size == size, f"round {number}: it has run")
            moving.reap()
            while "back" in command("ctl", "list"):
                ensure(time.monotonic() < end, f"round {number}: its timeline is left")
                time.sleep(0.02)
            continue
        command("ctl", "leap", "back", "1s")
        moving.checkpoint()
        moving.reap()
        size = moving.out.stat().st_size
    moving.restore()
    moving.await_lines(len(moving.lines()) + 2)
    check_steps(ticks(moving.lines()))
    moving.end()


def state_of(pid):
    """The letter of a process that has not ended."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        pass
    path = Path(f"/proc/{pid}/stat")
    try:
        letter = path.read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None
    return None if letter in "ZX" else letter


def uptime(program):
    """Restored where the host has been up for longer, it goes on from where it stood."""
    moving = Moving("up", program, TIMELINE)
    moving.await_lines(3)
    moving.checkpoint()
    moving.reap()
    before = moving.lines()
    longer = [
        "unshare",
        "--time",
        "--monotonic=1000000",
        "--boottime=1000000",
        "--fork",
    ]
    done = subprocess.run(
        [*longer, EIGENTIME, "restore", str(moving.directory)],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    ensure(done.returncode == 0, done.stderr)
    moving.await_lines(len(before) + 3)
    found = ticks(moving.lines())
    check_steps(found)
    saved = moving.stood()
    first = first_since(found, len(before), saved)
    passed = first[2] - saved["clocks"]["monotonic"] / 1e9
    ensure(0 <= passed <= LATE * 2, f"its monotonic clock has moved by {passed} s")
    command("ctl", "leap", "up", "1s")
    moving.end()


def first_reading(_program):
    """What is read first is what the policy says, to a millisecond."""
    read = (
        "import time\n"
        "while True:\n"
        "    print(*[time.clock_gettime_ns(clock) for clock in (1, 0, 1)], flush=True)\n"
        "    time.sleep(0.05)"
    )
    moving = Moving("first", ["/usr/bin/python3", "-c", read], TIMELINE)
    moving.await_lines(5)
    moving.checkpoint()
    moving.reap()
    before = len(moving.lines())
    time.sleep(1)
    moving.restore("--policy", "catch-up")
    moving.await_lines(before + 2)
    shown = json.loads(command("ctl", "show", "first", "--json"))
    clocks = {clock["clock"]: clock for clock in shown["clocks"]}
    wall, host = (int(clocks["realtime"][key]) for key in ("virtual_ns", "host_ns"))
    saved = moving.stood()
    due = saved["clocks"]["realtime"] + (host - saved["host_realtime_ns"]) * 2
    ensure(abs(wall - due) < MS, f"the wall clock is {wall - due} ns off")
    ahead = wall - int(clocks["monotonic"]["virtual_ns"])
    readings = [[int(word) for word in line.split()] for line in moving.lines()]
    first, between, then = next(
        reading
        for reading in readings[before:]
        if reading[0] >= saved["clocks"]["monotonic"]
    )
    # The wall clock was read between two readings of the monotonic one.
    ensure(
        first - MS <= between - ahead <= then + MS, f"{first} {between} {then}: {ahead}"
    )
    moving.end()


def twice(_program):
    """Two that come of one checkpoint live by two timelines."""
    moving = Moving(
        "twin", ["/usr/bin/python3", "-c", "import time; time.sleep(1e8)"], TIMELINE
    )
    moving.await_clocks()
    moving.checkpoint()
    moving.reap()
    moving.restore()
    elsewhere = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    script = (
        f"'{EIGENTIME}' restore '{moving.directory}' --timeline other >&2 && read end"
    )
    other = subprocess.Popen(
        [*elsewhere, "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while "other" not in command("ctl", "list"):
        ensure(
            time.monotonic() < end and other.poll() is None, "the other is not there"
        )
        time.sleep(0.05)
    command("ctl", "leap", "other", "30d")
    dates = [
        json.loads(command("ctl", "show", name, "--json")) for name in ("twin", "other")
    ]
    walls = [
        int(clock["virtual_ns"])
        for shown in dates
        for clock in shown["clocks"]
        if clock["clock"] == "realtime"
    ]
    ensure(walls[1] - walls[0] > 29 * 86400 * 1e9, f"{walls}")
    other.communicate(b"\n")
    moving.end()


MS = 1_000_000


def lines_of_all():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            path.read_bytes()
            yield path
        except OSError:
            pass


TIMELINE = ["--date", "2038-01-01", "--rate", "2"]


def main(case, *program):
    # The first numbers are taken again by those who restore.
    Path("/proc/sys/kernel/ns_last_pid").write_text("500")
    # Orphans come to this process.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    name, *rest = case.split(":")
    cases = {
        "plain": lambda policy: clocks(program, None, policy, 1),
        "named": lambda policy: clocks(program, TIMELINE, policy, 2),
        "plain-waits": lambda policy: waits(program, None, policy),
        "named-waits": lambda policy: waits(program, TIMELINE, policy),
        "plain-redis": lambda policy: redis(program, None, policy, 1),
        "named-redis": lambda policy: redis(program, TIMELINE, policy, 2),
        "plain-tls": lambda policy: tls(program, None, policy, 1),
        "named-tls": lambda policy: tls(program, TIMELINE, policy, 2),
        "plain-slew": lambda: slew(program, None, 1),
        "named-slew": lambda: slew(program, TIMELINE, 2),
        "plain-children": lambda: children(program, None),
        "named-children": lambda: children(program, TIMELINE),
        "frozen": lambda: frozen(program),
        "snapshot": lambda policy: snapshot(program, policy),
        "passes": lambda: passes(program),
        "left": lambda: leave_running(program),
        "refusals": lambda: refusals(program),
        "rounds": lambda count: rounds(program, int(count)),
        "killing": lambda count: killing(program, int(count)),
        "killing-restore": lambda count: killing_restore(program, int(count)),
        "uptime": lambda: uptime(program),
        "first": lambda: first_reading(program),
        "twice": lambda: twice(program),
    }
    try:
        cases[name](*rest)
    except Wrong as wrong:
        print(f"{case}: {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
