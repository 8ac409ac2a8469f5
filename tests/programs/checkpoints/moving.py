"""A program that is moved, and how its clocks are judged afterwards. EIGENTIME names the command."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

EIGENTIME = os.environ["EIGENTIME"]
# A machine that is busy.
LATE = 5.0
# Starts a command on a host whose monotonic clocks are ahead.
UP_LONGER = ["unshare", "--time", "--fork", "--monotonic=1000000", "--boottime=1000000"]
TIMELINE = ["--date", "2038-01-01", "--rate", "2"]


class Private(list):
    """The options of a timeline without a name."""


# How a program is started, and how fast its monotonic clocks run then: on no timeline, or on one with these options.
KINDS = {
    "plain": (None, 1),
    "named": (TIMELINE, 2),
    "traced": ([*TIMELINE, "--traced"], 2),
    "private": (Private(TIMELINE), 2),
    "offset": (Private(["--offset", "-30d", "--monotonic", "10d"]), 1),
}
# Those of programs/moving.c, and for how many seconds.
SPAN = 8
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


class Wrong(Exception):
    """What is not as it should be."""


def ensure(holds, text):
    if not holds:
        raise Wrong(text)


def command(*words, status=0, before=()):
    done = subprocess.run(
        [*before, EIGENTIME, *map(str, words)],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    said = f"eigentime {' '.join(map(str, words))}: {done.returncode}: {done.stdout}{done.stderr}"
    ensure(done.returncode == status, said)
    return done.stdout + done.stderr


def show(name):
    return json.loads(command("ctl", "show", name, "--json"))


class Moving:
    """A program, and what it has written."""

    def __init__(self, name, words, timeline=None):
        self.timeline, self.directory = timeline, Path(f"{name}.checkpoint")
        self.out = Path(f"{name}.out")
        before = []
        if timeline is not None:
            named = [] if isinstance(timeline, Private) else ["--timeline", name]
            before = [EIGENTIME, "run", *named, *timeline, "--"]
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                [*before, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.pid, self.name = self.process.pid, name
        self.tree = set()

    def lines(self):
        """What it has written itself, line by line."""
        text = self.out.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [line for line in lines if not line.startswith("eigentime: ")]

    def await_lines(self, count, limit=60):
        end = time.monotonic() + limit
        while len(self.lines()) < count:
            ensure(time.monotonic() < end, f"it has written {self.lines()}")
            time.sleep(0.02)

    def await_state(self, states):
        """Until the kernel tells one of these."""
        end = time.monotonic() + 60
        while (
            next(state for pid, state, _ in processes() if pid == self.pid)
            not in states
        ):
            ensure(time.monotonic() < end, f"it is in none of the states {states}")
            time.sleep(0.02)

    def await_clocks(self):
        end = time.monotonic() + 60
        while f"{self.name} " not in command("ctl", "list") or "member" not in command(
            "ctl", "list"
        ):
            ensure(time.monotonic() < end, "it has no timeline")
            time.sleep(0.02)

    def subject(self):
        is_named = self.timeline is not None and not isinstance(self.timeline, Private)
        return [self.name] if is_named else ["--pid", str(self.pid)]

    def checkpoint(self, *options):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.tree = set(tree_of(self.pid))
        command("checkpoint", *self.subject(), "-o", self.directory, *options)

    def reap(self):
        """Once it has ended with its children, also those in sessions of their own: only then their numbers are free."""
        end = time.monotonic() + 60
        while any(
            session == self.pid or pid in self.tree or state == "Z"
            for pid, state, session in processes()
        ):
            ensure(time.monotonic() < end, "it has not ended")
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass
            time.sleep(0.01)

    def restore(self, *options, elsewhere=False):
        """Brings it back, also as on another host, which has been up for longer; returns what is said."""
        words = ["restore", self.directory, "--timeline", self.name, *options]
        return command(*words, before=UP_LONGER if elsewhere else ())

    def end(self):
        self.tree = set(tree_of(self.pid))
        for pid in self.tree:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.reap()

    def stood(self):
        return json.loads((self.directory / "manifest.json").read_text())["moved"][
            "saved"
        ]


def processes():
    """The number, state and session of each, also of ones that nobody has waited for."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rsplit(")", 1)[1].split()
            yield int(path.parent.name), words[0], int(words[3])
        except OSError:
            pass


def tree_of(pid):
    """A process with its descendants; of one that ends meanwhile, maybe not all."""
    yield pid
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return
    for thread in threads:
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree_of(int(child))


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


def ticks(lines):
    """The readings of a ticker: number, wall clock, monotonic clock, in seconds."""
    return [[float(word) for word in line.split()[:3]] for line in lines]


def check_steps(found):
    for before, after in itertools.pairwise(found):
        ensure(after[0] == before[0] + 1, f"{after} follows {before}")
        ensure(
            after[2] >= before[2], f"its monotonic clock went back: {before}, {after}"
        )


def judge_waits(moving, passed, is_plain):
    """The lines of programs/moving.c: each wait ends once, not early, and late only by as much of its clocks as has
    passed meanwhile beyond its span, or, of a program that had no timeline, at all, since it starts again."""
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
    # At most the reading that each of the two threads that read was in the middle of.
    back = sum(line.split()[0] == "BACK" for line in lines)
    ensure(back <= (2 if is_plain else 0), f"a clock went back: {lines}")
    most = LATE + (passed if is_plain else max(0, passed - SPAN))
    too_late = {name: late[name] for name in WAITS if late[name] > most}
    ensure(not too_late, f"later than {most} s: {too_late}")


def first_since(found, written, saved):
    """The first reading since clocks stood, of those that follow as many as were written by then: one more
    may have been made before, and not been written yet."""
    stood = saved["clocks"]["realtime"] / 1e9
    since = [reading for reading in found[written : written + 2] if reading[1] >= stood]
    ensure(
        since, f"{found[written : written + 2]} were read before it stood at {stood}"
    )
    return since[0]


def policy_of(policy, clock):
    """What it says of a clock."""
    policies = (
        dict(part.split("=") for part in policy.split(",")) if "=" in policy else {}
    )
    kind = "wall" if clock in ("realtime", "tai") else "monotonic"
    return policies.get(kind, "continue") if policies else policy


def catches_up(policy, clock):
    return policy_of(policy, clock) == "catch-up"


def slews(policy, clock):
    return policy_of(policy, clock) == "slew"


def check_policy(found, written, saved, policy, rate, began, done):
    """A ticker's first reading after a restore, between two instants of the host, is what that says."""
    check_steps(found)
    host, clocks = saved["host_realtime_ns"] / 1e9, saved["clocks"]
    first = first_since(found, written, saved)
    for index, clock in [(1, "realtime"), (2, "monotonic")]:
        stood = clocks[clock] / 1e9
        last = found[written - 1][index]
        ensure(
            last <= stood + 1e-6, f"{clock} showed {last} before it stood at {stood}"
        )
        least = stood + ((began - host) * rate if catches_up(policy, clock) else 0)
        # It has slept meanwhile; it is started by a command that needs time.
        most = least + (done - began + LATE) * rate
        ensure(
            least <= first[index] <= most,
            f"{clock} is {first[index]}, not {least} to {most}",
        )
