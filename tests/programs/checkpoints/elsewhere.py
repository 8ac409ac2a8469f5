"""Moves programs to another host and from it: a virtual machine with another kernel, another uptime, another clock
that it counts by, and another day.

    elsewhere.py CASE PROGRAM...    EIGENTIME names the command, EIGENTIME_CRIU that of CRIU, EIGENTIME_VM the
                                    directory of the machine's kernel

PROGRAM... are `ticking`, `moving` and `quiet`. Prints what is wrong and ends with status 1, or with 0.
"""

import ctypes
import json
import os
import re
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from machine import HPET, TSC, TSC_MHZ, Files, Machine
from moving import (
    EIGENTIME,
    TIMELINE,
    WAITS,
    Moving,
    Wrong,
    check_steps,
    command,
    ensure,
    first_since,
    show,
    ticks,
    tree_of,
)

SETPRIV = "/usr/bin/setpriv"
CRIU = Path(os.environ["EIGENTIME_CRIU"])
RATE, MS = 2, 1_000_000
AWAY = timedelta(days=2)
# By which clock source it counts to which programs go by a policy, and from which they come.
THERE = {"continue": HPET, "catch-up": TSC}
BACK = {"continue": TSC, "catch-up": HPET}
# Of how much of its span a wait may be late in a machine whose processor is translated.
LATE = 0.1
SPAN = 8
# Far fewer calls than its threads make meanwhile.
FEW = 500
# Above the numbers that are taken in the machine already.
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
FIRST_PID = 5000
RUNTIME = "/run/timelines"
# What glibc may find on this machine, and QEMU's translator lacks.
LACKING = ["XSAVEC", "AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD"]


def mapped(pid):
    """The files that processes execute."""
    for one in tree_of(pid):
        for line in Path(f"/proc/{one}/maps").read_text().splitlines():
            path = line.split(maxsplit=5)[5:]
            if path and path[0].startswith("/") and Path(path[0]).is_file():
                yield path[0]


def files_of(*programs):
    """What commands need there, and these programs."""
    files = Files(Path("machine").absolute())
    for program in [EIGENTIME, *programs]:
        files.add_program(program)
    files.add_program(CRIU)
    # What it is, where `scripts/criu.sh` has brought it.
    brought = CRIU.resolve().with_name("root")
    if brought.is_dir():
        files.add(brought)
    return files


def start_machine(files, away, source):
    here = Path.cwd()
    there = files.root / here.relative_to("/")
    there.mkdir(parents=True, exist_ok=True)
    # Programs have it as their working directory, of which CRIU compares the mode.
    there.chmod(here.stat().st_mode & 0o7777)
    date = datetime.now(timezone.utc) + away
    machine = Machine(files, date.strftime("%Y-%m-%dT%H:%M:%S"), source)
    there = machine.do("uname -r").strip()
    ensure(there != os.uname().release, f"it has the same kernel, {there}")
    current = "/sys/devices/system/clocksource/*/current_clocksource"
    counts = f"grep -qx {source.name} {current}"
    said = machine.do(f"until {counts}; do usleep 10000; done; dmesg")
    if source is TSC:
        told = re.search(r"tsc: Detected ([\d.]+) MHz", said)
        is_other = told is not None and abs(float(told[1]) - TSC_MHZ) < TSC_MHZ / 50
        ensure(is_other, f"its counter is of another frequency: {told}")
    return machine


def limited():
    """The start of a command that has no capability that root lacks here, as in a container: CRIU could not give it
    back."""
    status = Path("/proc/self/status").read_text()
    had = int(re.search(r"CapBnd:\s*([0-9a-f]+)", status)[1], 16)
    lost = ",".join(
        f"-cap_{number}" for number in range(had.bit_length()) if not had >> number & 1
    )
    return f"'{SETPRIV}' --inh-caps={lost} --bounding-set={lost}" if lost else ""


class There:
    """The command in a machine, in the directory in which we are."""

    def __init__(self, machine):
        self.machine, self.said = machine, ""
        variables = f"EIGENTIME_CRIU='{CRIU}' EIGENTIME_RUNTIME_DIR={RUNTIME}"
        self.before = f"mkdir -p {RUNTIME}; cd '{Path.cwd()}'; export {variables};"

    def do(self, line, status=0):
        return self.machine.do(f"{self.before} {line}", status)

    def eigentime(self, words, status=0):
        return self.do(f"'{EIGENTIME}' {words}", status)

    def show(self, name):
        return json.loads(self.eigentime(f"ctl show {name} --json"))

    def now(self):
        # That of busybox tells no fractions by `date`.
        told = dict(re.findall(r"time[.](tv_u?sec): +(\d+)", self.do("adjtimex")))
        return int(told["tv_sec"]) + int(told["tv_usec"]) / 1e6

    def await_lines(self, path, count, limit=60):
        end = time.monotonic() + limit
        while len(lines := self.machine.lines(Path(path).absolute())) < count:
            ensure(time.monotonic() < end, f"it has written {lines}")
        return lines

    def start(self, name, program):
        run = f"'{EIGENTIME}' run --timeline {name} {' '.join(TIMELINE)} --"
        variable = f"GLIBC_TUNABLES={os.environ['GLIBC_TUNABLES']}"
        self.do(
            f"echo {FIRST_PID} >{LAST_PID}; "
            f"{variable} setsid {limited()} {run} '{program}' >{name}.out 2>&1 </dev/null &"
        )

    def restore(self, name, policy):
        """The instants of that machine's wall clock between which it is restored."""
        began = self.now()
        self.said = self.eigentime(
            f"restore {name}.checkpoint --policy {policy} --timeline {name}"
        )
        return began, self.now()

    def executes(self, name):
        """Has its processor this instruction?"""
        return name in self.do("cat /proc/cpuinfo").split()


def clocks_of(shown):
    """What the clocks of a timeline show, and those of its host, in nanoseconds."""
    clocks = {clock["clock"]: clock for clock in shown["clocks"]}
    return tuple(
        {name: int(clocks[name][key]) for name in ("realtime", "monotonic")}
        for key in ("virtual_ns", "host_ns")
    )


def check_map(shown, saved, policy, began, done):
    """Its clocks are what the policy says, to a millisecond."""
    virtual, host = clocks_of(shown)
    ran = {
        name: virtual[name] - saved["clocks"][name]
        for name in ("realtime", "monotonic")
    }
    apart = ran["realtime"] - ran["monotonic"]
    ensure(abs(apart) < MS, f"its clocks have moved apart by {apart} ns")
    away = host["realtime"] - saved["host_realtime_ns"]
    if policy == "catch-up":
        behind = away * RATE - ran["realtime"]
        ensure(abs(behind) < MS, f"its clocks are {behind} ns behind")
    else:
        # Since then they go on.
        since = (host["realtime"] - ran["realtime"] / RATE) / 1e9
        ensure(
            began - MS / 1e9 <= since <= done + MS / 1e9,
            f"its clocks go on since {since}, and it was restored from {began} to {done}",
        )


def check_readings(lines, written, saved, shown, policy, began):
    """The first one since is by these clocks, to a millisecond."""
    found = ticks(lines)
    check_steps(found)
    first = first_since(found, written, saved)
    # Read before and after the monotonic one.
    number, before, monotonic, after = (
        int(word.replace(".", "")) for word in lines[int(first[0])].split()
    )
    virtual, _ = clocks_of(shown)
    wall = monotonic + virtual["realtime"] - virtual["monotonic"]
    ensure(before - MS <= wall <= after + MS, f"{number}: {before} {wall} {after}")
    catches_up = policy == "catch-up"
    away = began * 1e9 - saved["host_realtime_ns"] if catches_up else 0
    least = saved["clocks"]["realtime"] + away * RATE - MS
    ensure(least <= before <= virtual["realtime"], f"{lines[int(first[0])]}: {least}")


def check_waits(lines, saved, policy, began):
    """Each has ended once, at its instant or, if that was over, at once."""
    told = [line.split() for line in lines[1:]]
    back = [words for words in told if words[0] == "BACK"]
    ensure(not back, f"a clock went back: {back}")
    ensure(sorted(words[0] for words in told) == sorted(WAITS), f"{told}")
    for name, _, due, _, late in told:
        due, late = float(due), float(late)
        ensure(late > -0.002, f"{name} is early: {late}")
        if policy == "continue":
            ensure(late < SPAN * LATE, f"{name} is late: {late}")
            continue
        clock = "realtime" if name in BY_WALL_CLOCK else "monotonic"
        away = began - saved["host_realtime_ns"] / 1e9
        caught_up = saved["clocks"][clock] / 1e9 + away * RATE
        passed = due + late - caught_up
        ensure(
            -MS / 1e9 <= passed, f"{name} has ended {-passed} s before it was restored"
        )


BY_WALL_CLOCK = ["cond-wall", "tfd-wall-abs"]


def restores(policy, ticking, moving, _quiet):
    """What was written here goes on there."""
    LAST_PID.write_text(str(FIRST_PID))
    ticker = Moving("ticker", [ticking], TIMELINE)
    ticker.await_lines(5)
    files = files_of(*mapped(ticker.pid))
    ticker.checkpoint()
    ticker.reap()
    waits = Moving("waits", [moving], TIMELINE)
    waits.await_lines(1)
    end = time.monotonic() + 60
    while not show("waits")["calls"]["rewritten"]:
        ensure(time.monotonic() < end, "no call is rewritten")
    for path in mapped(waits.pid):
        files.add(path)
    waits.checkpoint()
    waits.reap()
    ensure(len(waits.lines()) == 1, f"this machine is too slow: {waits.lines()}")
    written = len(ticker.lines())
    for one in ticker, waits:
        for path in one.directory, one.out:
            files.add(path)
    machine = start_machine(files, AWAY, THERE[policy])
    there = There(machine)

    began, done = there.restore("ticker", policy)
    if "xsavec" in Path("/proc/cpuinfo").read_text() and not there.executes("xsavec"):
        ensure("xsavec" in there.said and "SIGILL" in there.said, there.said)
    lines = there.await_lines(ticker.out, written + 3)
    shown = there.show("ticker")
    check_map(shown, ticker.stood(), policy, began, done)
    check_readings(lines, written, ticker.stood(), shown, policy, began)
    there.eigentime("ctl leap ticker 1h")
    lines = there.await_lines(
        ticker.out, len(there.machine.lines(ticker.out.absolute())) + 3
    )
    found = ticks(lines)
    check_steps(found)
    ensure(found[-1][2] - found[written][2] > 3600, f"{found[written:]}")

    began, done = there.restore("waits", policy)
    lines = there.await_lines(waits.out, 1 + len(WAITS))
    shown = there.show("waits")
    check_map(shown, waits.stood(), policy, began, done)
    check_waits(lines, waits.stood(), policy, began)
    # Two threads sleep all the time, from sites that were rewritten before.
    ensure(shown["calls"]["stops"] < FEW, f"{shown['calls']}")
    machine.end()


def returns(policy, ticking, _moving, _quiet):
    """What was written there goes on here."""
    files = files_of(ticking, SETPRIV)
    machine = start_machine(files, -AWAY, BACK[policy])
    there = There(machine)
    there.start("ticker", ticking)
    there.await_lines("ticker.out", 5)
    there.eigentime("checkpoint ticker -o ticker.checkpoint")
    for name in ["ticker.checkpoint", "ticker.out"]:
        machine.fetch(Path(name).absolute())
    machine.end()
    written = len(Path("ticker.out").read_text().splitlines())
    saved = json.loads(Path("ticker.checkpoint/manifest.json").read_text())["moved"][
        "saved"
    ]
    began = time.time()
    command("restore", "ticker.checkpoint", "--policy", policy)
    done = time.time()
    end = time.monotonic() + 60
    while len(lines := Path("ticker.out").read_text().splitlines()) < written + 4:
        ensure(time.monotonic() < end, f"it has written {lines}")
        time.sleep(0.02)
    shown = show("ticker")
    check_map(shown, saved, policy, began, done)
    # The last one may not be whole.
    check_readings(lines[:-1], written, saved, shown, policy, began)


def pre_dumps(_ticking, _moving, quiet):
    """Memory is written before the program is stopped, and is what it was when it is restored."""
    machine = start_machine(files_of(quiet, SETPRIV), AWAY, HPET)
    there = There(machine)
    there.start("quiet", quiet)
    there.await_lines("quiet.out", 1)
    pid = there.show("quiet")["members"][0]["pid"]

    def tell(count):
        there.do(f"kill -USR1 {pid}")
        return there.await_lines("quiet.out", count)

    tell(2)
    said = there.eigentime("ctl snapshot quiet -o first.checkpoint")
    found = re.search(r"stopped for (([0-9.]+) and )+([0-9.]+) ms", said)
    ensure(found and "note" not in said, said)
    lines = tell(3)
    told = json.loads(there.eigentime("ctl snapshot quiet -o quiet.checkpoint --json"))
    ensure(len(told["stopped_ns"]) >= 3 and "notes" not in told, f"{told}")
    sizes = [
        int(there.do(f"cat quiet.checkpoint/{place}/pages-*.img | wc -c"))
        for place in ["images-1", "images-2", "images"]
    ]
    ensure(sizes[0] >= MEMORY > 20 * max(sizes[1:]), f"they have {sizes} bytes")
    written = len(there.machine.lines(Path("quiet.out").absolute()))
    there.do(f"kill -KILL {pid}")
    there.eigentime("ctl wait quiet --empty")
    there.eigentime("ctl rm quiet --force")
    saved = json.loads(there.do("cat quiet.checkpoint/manifest.json"))["moved"]["saved"]
    began, done = there.restore("quiet", "continue")
    lines = tell(written + 1)
    shown = there.show("quiet")
    check_map(shown, saved, "continue", began, done)
    check_steps(ticks(lines))
    first_since(ticks(lines), written, saved)
    print(f"stopped for {[ns / 1e6 for ns in told['stopped_ns']]} ms, {sizes} bytes")
    machine.end()


MEMORY = 64 << 20


def main(case, *programs):
    # Orphans come to this process.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    hidden = ",".join(f"-{name}" for name in LACKING)
    os.environ["GLIBC_TUNABLES"] = f"glibc.cpu.hwcaps={hidden}"
    name, *rest = case.split(":")
    cases = {"restores": restores, "returns": returns, "pre-dumps": pre_dumps}
    try:
        cases[name](*rest, *programs)
    except Wrong as wrong:
        print(f"{case}: {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
