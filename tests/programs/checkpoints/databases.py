"""Redis is moved, with keys that expire, and PostgreSQL, with an open transaction and a sleep on the server."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from moving import EIGENTIME, LATE, Moving, catches_up, ensure, slews

SLEEP = 5
# How long keys live that expire while they are looked at, in seconds.
SHORT = range(5, 11)
# By which part of a second clocks gain in a second, unless it is said.
SLEW = 0.1
CAP_SYS_RESOURCE = 24


def redis(program, timeline, rate, policy):
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
    begin = time.time()
    for key, span in [*((f"short-{span}", span) for span in SHORT), ("long", 3600)]:
        set_it = ask("SET", key, "value", "PX", str(span * 1000))
        ensure(set_it == "+OK", "SET fails")
    begun = time.time()
    before = int(ask("PTTL", "long")[1:])
    moving.checkpoint()
    moving.reap()
    host = moving.stood()["host_realtime_ns"] / 1e9
    time.sleep((SHORT[0] + 1) / rate)
    back = time.time()
    moving.restore("--policy", policy, elsewhere=True)
    resumed = time.time()
    left = int(ask("PTTL", "long")[1:])
    # As long as it ran; its clocks also ran on in between, or not.
    ran, away = (host - begin) + (time.time() - back), back - host
    fastest = rate * (1 + SLEW) if slews(policy, "realtime") else rate
    most, least = before, before - ran * 1000 * fastest
    if catches_up(policy, "realtime"):
        ensure(ask("GET", f"short-{SHORT[0]}") == "$-1", "a key outlived its time")
        most, least = (span - away * 1000 * rate for span in (most, least))
    # It tells whole milliseconds.
    ensure(least - 2 <= left <= most + 2, f"{left}, not {least} to {most}")
    skipped = away * rate if catches_up(policy, "realtime") else 0
    gone = time.time() + 60
    for span in SHORT:
        while (asked := time.time()) and ask("GET", f"short-{span}") != "$-1":
            ensure(asked < gone, f"a key of {span} s does not expire")
            passed = (host - begun + asked - resumed) * rate + skipped
            ensure(passed < span + 0.1, f"a key of {span} s is there after {passed} s")
            time.sleep(0.01)
        ran = (host - begin) + (time.time() - back)
        passed = ran * fastest + skipped
        ensure(passed >= span - 0.01, f"a key of {span} s expired after {passed} s")
    moving.end()


def may_read_limits():
    """May this process read the limits of another user's?"""
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff"))
    return int(effective.split()[1], 16) >> CAP_SYS_RESOURCE & 1 == 1


def criu_for(moving):
    """Options by which CRIU can write processes of other users. Where it cannot by itself, that is told."""
    if may_read_limits():
        return []
    words = [EIGENTIME, "checkpoint", *moving.subject(), "-o", str(moving.directory)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    ensure(done.returncode == 125 and "CAP_SYS_RESOURCE" in done.stderr, done.stderr)
    source = Path(__file__).with_name("limits.c")
    library, criu = Path("limits.so").absolute(), Path("criu").absolute()
    build = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
    subprocess.run(build, check=True)
    criu.write_text(
        f"#!/bin/sh\nLD_PRELOAD='{library}' exec '{os.environ['EIGENTIME_CRIU']}' \"$@\"\n"
    )
    criu.chmod(0o755)
    return ["--criu", criu]


def postgres(program, timeline, rate, policy):
    """Its transaction goes on, and its sleep ends when the policy says."""
    # It has memory of System V.
    moving = Moving("postgres", ["unshare", "--ipc", *program], timeline)
    moving.await_lines(1)
    begun = float(moving.lines()[0].split()[1])
    options = criu_for(moving)
    moving.checkpoint(*options)
    moving.reap()
    written = len(moving.lines())
    saved = moving.stood()
    stood, host = saved["clocks"]["realtime"] / 1e9, saved["host_realtime_ns"] / 1e9
    time.sleep(3)
    back = time.time()
    moving.restore("--policy", policy, elsewhere=True)
    os.kill(moving.pid, signal.SIGUSR1)
    moving.await_lines(3)
    told = dict(line.split(maxsplit=1) for line in moving.lines())
    now, wall, rows, others = (float(word) for word in told["seen"].split())
    ensure((now, rows, others) == (begun, 1, 1), f"{told}, begun {begun}")
    least = stood + ((back - host) * rate if catches_up(policy, "realtime") else 0)
    fastest = rate * (1 + SLEW) if slews(policy, "realtime") else rate
    most = least + (time.time() - back + LATE) * fastest
    ensure(least <= wall <= most, f"its wall clock is {wall}, not {least} to {most}")
    slept = float(told["slept"])
    # It may have been over already; and what was relative is as long as before where there was no timeline.
    passed = most - begun
    ensure(SLEEP - 0.01 <= slept <= passed + SLEEP, f"it slept {slept} s: {told}")
    ensure(written in (1, 2), f"{moving.lines()}")
    moving.end()
