"""Moves programs through checkpoints, as the first process of a process namespace, where their numbers
are free again once they have ended.

    move.py CASE PROGRAM...     EIGENTIME names the command, EIGENTIME_CRIU that of CRIU

Prints what is wrong and ends with status 1, or with 0.
"""

import contextlib
import ctypes
import functools
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from certificates import tls
from connections import connected
from contended import contended, retried
from databases import postgres, redis
from first import first_reading
from joining import joining_refused, joining_waits, joins
from killed import killing, killing_all, killing_restore
from moving import (
    EIGENTIME,
    KINDS,
    LATE,
    TIMELINE,
    Moving,
    Wrong,
    check_policy,
    check_steps,
    command,
    ensure,
    judge_waits,
    show,
    slews,
    ticks,
)
from slews import end_of_slew, slew, slew_changed, slew_kept, slew_timers


def clocks(program, timeline, rate, policy):
    """A ticker is moved; its first reading is what the policy says."""
    moving = Moving("ticker", program, timeline)
    moving.await_lines(5)
    move(moving, policy, rate)
    command("ctl", "leap", "ticker", "1s")
    moving.end()


def move(moving, policy, rate):
    """Moves a ticker, and judges its first reading."""
    moving.checkpoint()
    moving.reap()
    before = len(moving.lines())
    time.sleep(2)
    began = time.time()
    moving.restore("--policy", policy, elsewhere=True)
    done = time.time()
    moving.await_lines(before + 5)
    check_policy(
        ticks(moving.lines()), before, moving.stood(), policy, rate, began, done
    )


def waits(program, timeline, rate, policy):
    """Threads wait in every way: none is early, each ends once, and when its clock says."""
    moving = Moving("waits", program, timeline)
    moving.await_lines(1)
    time.sleep(0.5)
    began = time.monotonic()
    moving.checkpoint()
    moving.reap()
    time.sleep(3)
    moving.restore("--policy", policy, elsewhere=True)
    away = time.monotonic() - began
    passed = away * rate if "catch-up" in policy else 0
    judge_waits(moving, passed, is_plain=timeline is None)
    moving.end()


def dues(program, timeline, _rate):
    """Timers that CRIU arms by the time that was left are due as they were, however long it takes."""

    def told():
        written = len(moving.lines())
        moving.await_lines(written + 30)
        lines = map(json.loads, moving.lines()[written:])
        return {line.pop("pid"): line for line in lines}

    moving = Moving("dues", program, timeline)
    before = told()
    moving.checkpoint()
    moving.reap()
    moving.restore()
    after = told()
    ensure(before.keys() == after.keys(), f"{before} {after}")
    for kind in next(iter(before.values())):
        late = [after[pid][kind] - before[pid][kind] for pid in before]
        # Of CRIU, too, the processor may be taken away in between.
        ensure(abs(statistics.median(late)) < 0.01, f"{kind}: {late}")
    moving.end()


def ordered(program, timeline, _rate):
    """What came due meanwhile goes off in order."""
    moving = Moving("ordered", [*program, "5"], timeline)
    moving.await_lines(1)
    moving.checkpoint()
    moving.reap()
    time.sleep(5)
    moving.restore("--policy", "catch-up")
    moving.await_lines(9)
    due = [f"{kind} {i}" for kind in ("posix", "descriptor") for i in (3, 2, 1, 0)]
    ensure(moving.lines()[1:] == due, f"{moving.lines()}")
    moving.end()


def spread(program, timeline, _rate):
    """None of the timers is lost that go off while CRIU writes, and none goes off twice."""
    moving = Moving("spread", program, timeline)
    moving.await_lines(1)
    moving.checkpoint()
    moving.reap()
    moving.restore()
    armed = moving.lines()[0].split()
    moving.await_lines(1 + len(armed))
    time.sleep(0.2)
    ensure(sorted(moving.lines()[1:]) == armed, f"{moving.lines()}")
    moving.end()


def pending(program, timeline, _rate):
    """The signal of a timer that was queued comes once, also if the clocks change first."""
    moving = Moving("pending", program, timeline)
    moving.await_lines(1)
    moving.checkpoint()
    moving.reap()
    moving.restore()
    command("ctl", "set", "pending", "--rate", "3")
    os.kill(moving.pid, signal.SIGUSR1)
    moving.await_lines(2)
    ensure(moving.lines()[1] == "1", f"{moving.lines()}")
    moving.end()


def stopped(program, timeline, _rate):
    """A program that a signal has stopped stays so, until it is told to go on."""
    moving = Moving("stopped", program, timeline)
    moving.await_lines(3)
    os.kill(moving.pid, signal.SIGSTOP)
    moving.await_state("Tt")
    moving.checkpoint("--leave-running")
    os.kill(moving.pid, signal.SIGCONT)
    moving.await_lines(len(moving.lines()) + 3)
    os.kill(moving.pid, signal.SIGSTOP)
    moving.await_state("Tt")
    written = len(moving.lines())
    # The second time, the supervisor follows it.
    for _ in range(2):
        moving.checkpoint()
        moving.reap()
        moving.restore()
        moving.await_state("Tt")
        time.sleep(0.5)
        ensure(len(moving.lines()) == written, "it has gone on")
    os.kill(moving.pid, signal.SIGCONT)
    moving.await_lines(written + 3)
    check_steps(ticks(moving.lines()))
    moving.end()


def periodic(program, timeline, _rate):
    """Periodic timers that came due several times meanwhile go off once, say how often, and keep their phase."""
    moving = Moving("periodic", program, timeline)
    moving.await_lines(4)
    moving.checkpoint()
    moving.reap()
    written = len(moving.lines())
    time.sleep(5)
    moving.restore("--policy", "catch-up")
    moving.await_lines(written + 8)
    kinds = {}
    for line in moving.lines():
        kind, count, due, late = line.split()
        kinds.setdefault(kind, []).append((int(count), float(due), float(late)))
    ensure(set(kinds) == {"descriptor", "posix"}, f"{kinds}")
    for kind, told in kinds.items():
        for before, after in itertools.pairwise(told):
            # What is told beside each is the last instant it was due, in periods since the first.
            ensure(after[1] == before[1] + after[0], f"{kind}: {told}")
        # Most are seen soon, also after the first.
        late = statistics.median(late for *_, late in told)
        ensure(late < 0.5, f"{kind} has lost its phase: {told}")
        most = max(count for count, *_ in told)
        ensure(most >= 4, f"{kind} has not told how often it was due: {told}")
    moving.end()


def filtered(program, timeline, _rate):
    """What a filter of its own forbids is not asked of a program that is started after the move."""
    moving = Moving("filtered", program, timeline)
    moving.await_lines(1)
    moving.checkpoint()
    moving.reap()
    moving.restore()
    os.kill(moving.pid, signal.SIGUSR1)
    moving.await_lines(2)
    ensure(moving.lines()[1] == "polled", f"{moving.lines()}")
    moving.reap()


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
    ensure(pages[0] in said and "does not match its checksum" in said, said)
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
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("outside.sock")
        listener.listen()
        connect = (
            "import socket, time\n"
            "outside = socket.socket(socket.AF_UNIX)\n"
            "outside.connect('outside.sock')\n"
            "time.sleep(1e8)\n"
        )
        words = ["/usr/bin/python3", "-c", connect]
        connected = Moving("connected", words, ["--rate", "2"])
        peer, _ = listener.accept()
        said = command("checkpoint", "connected", "-o", directory, status=125)
        known = ["criu cannot dump process", "must be in the checkpoint", "ctl save"]
        ensure(all(text in said for text in known), said)
        peer.close()
        connected.end()
    written = len(moving.lines())
    moving.await_lines(written + 3)
    moving.checkpoint()
    moving.reap()
    manifest = directory / "manifest.json"
    whole = manifest.read_text()
    manifest.write_text(whole.replace('"version": 2,', '"version": 7,', 1))
    said = command("restore", directory, status=125)
    ensure("version 7" in said, said)
    manifest.write_text(whole[:-20])
    said = command("restore", directory, status=125)
    ensure("not a complete checkpoint" in said, said)
    at = re.search(r'"moved"\D*', whole).end()
    manifest.write_text(whole[:at] + str(9 - int(whole[at])) + whole[at + 1 :])
    said = command("restore", directory, status=125)
    ensure("manifest.json does not match its checksum" in said, said)
    manifest.write_text(whole)
    said = command("restore", directory, "--slew-rate", "0.5", status=125)
    ensure("--slew-rate" in said, said)
    images = sorted((directory / "images").glob("pages-*.img"))
    content = images[0].read_bytes()
    images[0].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = command("restore", directory, status=125)
    ensure("pages-" in said and "does not match its checksum" in said, said)
    images[0].unlink()
    said = command("restore", directory, status=125)
    ensure("pages-" in said, said)
    images[0].write_bytes(content)
    command("ctl", "create", "taken")
    said = command("restore", directory, "--timeline", "taken", status=125)
    ensure("timeline 'taken' exists already" in said, said)
    command("ctl", "rm", "taken")
    moving.reap()
    moving.restore()
    said = command("restore", directory, "--timeline", "other", status=125)
    ensure("another PID namespace" in said or "bad size" in said, said)
    moving.await_lines(written + 5)
    moving.end()


def written_by_others(program):
    """What another user may have written is not restored, as it decides what runs as root."""
    nobody = 65534
    moving = Moving("written", program, TIMELINE)
    moving.await_lines(3)
    moving.checkpoint()
    moving.reap()
    directory, written = moving.directory, len(moving.lines())
    mode = directory.stat().st_mode & 0o777
    ensure(mode == 0o700, f"its mode is {mode:o}")
    image = min((directory / "images").glob("pages-*.img"))

    def refused():
        said = command("restore", directory, status=125)
        ensure("users other than this one" in said and "chmod" in said, said)

    for path in [directory, directory / "images", image]:
        os.chown(path, nobody, -1)
        refused()
        os.chown(path, 0, -1)
    directory.chmod(0o755)
    for path in [directory, directory / "images", image, directory / "manifest.json"]:
        mode = path.stat().st_mode
        path.chmod(mode | 0o020)
        refused()
        path.chmod(mode)
    outside = directory.with_name("outside")
    image.rename(outside)
    image.symlink_to(outside.absolute())
    refused()
    outside.rename(image)
    # No other user reaches these.
    image.chmod(0o666)
    directory.chmod(0o700)
    ensure("written" not in command("ctl", "list"), "it has a timeline")
    moving.restore()
    moving.await_lines(written + 3)
    moving.end()


def refused_timelines(program):
    """Timelines whose programs cannot be written, each with the reason."""
    slewed = Moving("slewed", program, TIMELINE)
    slewed.await_lines(3)
    slewed.checkpoint()
    slewed.reap()
    time.sleep(1)
    slewed.restore("--policy", "slew", "--slew-rate", "0.01")
    nested = [EIGENTIME, "run", "--rate", "3", "--", *program]
    outer = Moving("outer", ["/bin/sh", "-c", '"$@" & wait', "sh", *nested], TIMELINE)
    outer.await_lines(3)
    reasons = {
        slewed: "have caught up",
        outer: "another timeline runs inside one of its programs",
    }
    for moving, reason in reasons.items():
        words = ["checkpoint", *moving.subject(), "-o", "refused.checkpoint"]
        said = command(*words, status=125)
        ensure(reason in said, said)
        written = len(moving.lines())
        moving.await_lines(written + 3)
        check_steps(ticks(moving.lines()))
        moving.end()


def skipping(policy):
    """What is skipped goes on as it was: how often it still may, and where it ends."""
    day = 86400
    read = (
        "import time\n"
        "for day in range(1000):\n"
        "    print(day, time.time(), time.monotonic(), flush=True)\n"
        f"    time.sleep({day})"
    )
    options = ["--date", "2038-01-01", "--skip-idle", "--skips", "3", "--for", "8d"]
    moving = Moving("skipping", ["/usr/bin/python3", "-c", read], options)
    # The last leap is followed by a line, and one more day.
    moving.await_lines(4)
    moving.checkpoint()
    moving.reap()
    time.sleep(1)
    moving.restore("--policy", policy)
    shown = show("skipping")["skipping"]
    ensure(shown["leaps"] == 3 and shown["paused"], f"{shown}")
    ensure("--skips 3 --for 8d" in shown["options"], f"{shown}")
    ensure(len(moving.lines()) == 4, f"it has skipped more: {moving.lines()}")
    if "slew" in policy:
        # Leaps end it no more than they wait for its end, which nobody but the supervisor brings about.
        command("ctl", "skip", "skipping", "--times", "1")
        ensure("slewed_ns" in show("skipping"), "its clocks are not slewed")
        moving.await_lines(5)
        end_of_slew("skipping")
    command("ctl", "skip", "skipping")
    moving.await_lines(8)
    found = ticks(moving.lines())
    check_steps(found)
    # It has run besides for as long as it was written, and started by the policy. It sleeps by the monotonic clock, which
    # gains on the wall clock if that alone is slewed.
    gains = 2 if slews(policy, "monotonic") and not slews(policy, "realtime") else 0
    for before, after in itertools.pairwise(found):
        passed = [after[1] - before[1] - day + gains, after[2] - before[2] - day]
        ensure(all(-0.002 < by < LATE for by in passed), f"{passed}: {found}")
    # It ends at the limit.
    moving.reap()
    ensure(len(moving.lines()) == 8, f"{moving.lines()}")


def frozen(program, timeline, rate):
    """Clocks that stand still do so afterwards, and others can be told to."""
    moving = Moving("frozen", program, timeline)
    moving.await_lines(1)
    command("ctl", "freeze", "frozen")
    for options in [], ["--freeze"], ["--policy", "catch-up", "--freeze"]:
        moving.checkpoint()
        saved = moving.stood()
        moving.reap()
        written = len(moving.lines())
        if not options:
            words = ["restore", moving.directory, "--policy", "slew"]
            said = command(*words, status=125)
            ensure("frozen clocks cannot be slewed" in said, said)
            moving.reap()
        began = time.time_ns()
        moving.restore(*options)
        shown = show("frozen")
        clocks = {clock["clock"]: clock["virtual_ns"] for clock in shown["clocks"]}
        away = [
            (now - saved["host_realtime_ns"]) * rate for now in (began, time.time_ns())
        ]
        least, most = away if "catch-up" in options else (0, 0)
        passed = int(clocks["monotonic"]) - saved["clocks"]["monotonic"]
        ensure(least <= passed <= most, f"{passed} is not {least} to {most}")
        time.sleep(0.5)
        ensure(len(moving.lines()) <= written + 1, "it does not stand still")
        command("ctl", "thaw", "frozen")
        moving.await_lines(written + 3)
    check_steps(ticks(moving.lines()))
    moving.end()


def rounds(program, timeline, _rate, count):
    """Again and again at random moments, with changes of the map in between: no timer is lost, no clock goes back."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    moving = Moving("rounds", program, timeline)
    try:
        for _ in range(int(count)):
            moving.await_lines(len(moving.lines()) + 2)
            time.sleep(chance.random() / 5)
            change = [
                ["ctl", "set", "rounds", "--rate", chance.choice("1234")],
                ["ctl", "leap", "rounds", "3s"],
            ]
            command(*chance.choice(change))
            moving.checkpoint()
            moving.reap()
            moving.restore("--policy", chance.choice(["continue", "catch-up"]))
        moving.await_lines(len(moving.lines()) + 3)
        check_steps(ticks(moving.lines()))
    except Wrong as wrong:
        raise Wrong(f"seed {seed}: {wrong}") from wrong
    moving.end()


@contextlib.contextmanager
def busy_processors():
    """Each carries out a loop."""
    loop = ["/bin/sh", "-c", "while :; do :; done"]
    loops = [subprocess.Popen(loop) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def children(program, timeline, _rate):
    """Some of its children may be about to end, or have ended already. Processors are busy meanwhile."""
    moving = Moving("children", program, timeline)
    for _ in range(5):
        moving.await_lines(len(moving.lines()) + 2)
        moving.checkpoint()
        moving.reap()
        with busy_processors():
            moving.restore()
    moving.await_lines(len(moving.lines()) + 2)
    lines = moving.lines()
    ensure(
        not any(line.startswith("SIGNAL") for line in lines),
        f"it was told of its stop: {lines}",
    )
    check_steps(ticks(lines))
    moving.end()


def attached(program):
    """A process that was attached is moved as one that was started in its timeline."""
    moving = Moving("attached", program)
    moving.await_lines(3)
    command("attach", "--pid", moving.pid, "--timeline", "attached", *TIMELINE)
    moving.timeline = TIMELINE
    move(moving, "continue", 2)
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
    script = f"'{EIGENTIME}' restore '{moving.directory}' --timeline other --rate 3 >&2 && read end"
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
    dates = [show(name) for name in ("twin", "other")]
    rates = [shown["rate"] for shown in dates]
    ensure(rates == [2, 3], f"{rates}")
    # Each has its image at the same place.
    members = [len(shown["members"]) for shown in dates]
    ensure(members == [1, 1], f"{dates}")
    walls = [
        int(clock["virtual_ns"])
        for shown in dates
        for clock in shown["clocks"]
        if clock["clock"] == "realtime"
    ]
    ensure(walls[1] - walls[0] > 29 * 86400 * 1e9, f"{walls}")
    other.communicate(b"\n")
    moving.end()


def main(case, *program):
    # The first numbers are taken again by those who restore.
    Path("/proc/sys/kernel/ns_last_pid").write_text("500")
    # Orphans come to this process.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    name, *rest = case.split(":")
    of_kinds = {
        "clocks": clocks,
        "waits": waits,
        "redis": redis,
        "postgres": postgres,
        "tls": tls,
        "slew": slew,
        "slew-changed": slew_changed,
        "slew-timers": slew_timers,
        "children": children,
        "dues": dues,
        "ordered": ordered,
        "pending": pending,
        "spread": spread,
        "stopped": stopped,
        "periodic": periodic,
        "filtered": filtered,
        "first": first_reading,
        "rounds": rounds,
        "killing": killing,
        "killing-all": killing_all,
        "connected": connected,
    }
    cases = {
        f"{kind}-{what}": functools.partial(case, program, *options)
        for what, case in of_kinds.items()
        for kind, options in KINDS.items()
    } | {
        "frozen": lambda: frozen(program, TIMELINE, 2),
        "frozen-from-start": lambda: frozen(program, [*TIMELINE[:2], "--freeze"], 1),
        "skipping": lambda policy: skipping(policy),
        "snapshot": lambda policy: snapshot(program, policy),
        "passes": lambda: passes(program),
        "left": lambda: leave_running(program),
        "refusals": lambda: refusals(program),
        "joins": lambda kind: joins(program, kind),
        "joining-waits": lambda kind: joining_waits(program, kind),
        "joining-refused": lambda: joining_refused(program),
        "killing-restore": lambda count: killing_restore(program, int(count), False),
        "killing-join": lambda count: killing_restore(program, int(count), True),
        "slew-kept": lambda: slew_kept(program),
        "refused-timelines": lambda: refused_timelines(program),
        "written-by-others": lambda: written_by_others(program),
        "attached": lambda: attached(program),
        "twice": lambda: twice(program),
        "contended": lambda: contended(program),
        "retried": lambda: retried(program),
    }
    try:
        cases[name](*rest)
    except Wrong as wrong:
        print(f"{case}: {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
