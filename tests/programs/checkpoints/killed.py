"""Processes of ours are killed at random moments."""

import collections
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from moving import (
    EIGENTIME,
    Moving,
    Wrong,
    check_steps,
    command,
    ensure,
    processes,
    show,
    state_of,
    ticks,
)

JOINING_BACK = [EIGENTIME, "run", "--timeline", "back", "--"]


def await_session(leader, end):
    """Until all of its processes have ended: CRIU is nobody's to kill, and brings to an end what it has begun."""
    calm = 0
    # One list may miss a process whose parent has ended meanwhile.
    while calm < 2:
        states = [state for _, state, session in processes() if session == leader]
        calm = calm + 1 if set(states) <= set("ZX") else 0
        ensure(time.monotonic() < end, f"session {leader} does not end")
        time.sleep(0.01)


def runs_on(moving, end, what, may_run=True, may_be_stopped=False):
    """Is there the program, or has it ended? It writes, or is stopped if it may be."""
    written = len(moving.lines())
    while state := state_of(moving.pid):
        if may_run and len(moving.lines()) >= written + 2:
            return True
        if may_be_stopped and state == "T":
            return True
        ensure(time.monotonic() < end, f"{what}: it is left in state {state}")
        time.sleep(0.02)
    return False


def kill_or_interrupt(asked):
    """Kills a command, or presses Ctrl-C, which sends a signal to CRIU and its script, too."""
    if random.random() < 0.5:
        asked.kill()
    else:
        os.killpg(asked.pid, signal.SIGINT)
    asked.wait()


def killing(program, timeline, _rate, count):
    """The command is killed at a random moment: the program runs on, or it is in a whole checkpoint."""
    moving = Moving("killing", program, timeline)
    for number in range(int(count)):
        moving.await_lines(len(moving.lines()) + 2)
        shutil.rmtree(moving.directory, ignore_errors=True)
        words = [
            EIGENTIME,
            "checkpoint",
            *moving.subject(),
            "-o",
            str(moving.directory),
        ]
        asked = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        time.sleep(random.random() / 2)
        kill_or_interrupt(asked)
        end = time.monotonic() + 60
        await_session(asked.pid, end)
        runs = runs_on(moving, end, f"round {number}")
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


def killing_restore(program, count, joins):
    """`restore` is killed at a random moment: its processes run, or there are none and they can be restored."""
    moving = Moving("back", program, ["--rate", "2"])
    onto = ["--join" if joins else "--timeline", "back"]
    moving.await_lines(3)
    other = None
    if joins:
        # The timeline has another member, which nothing of this concerns.
        other = Moving("other", [*JOINING_BACK, "/bin/sleep", "100000"])
        while len(show("back")["members"]) < 2:
            time.sleep(0.02)
        moving.timeline = None
    moving.checkpoint()
    moving.reap()
    size = moving.out.stat().st_size
    for number in range(count):
        asked = subprocess.Popen(
            [EIGENTIME, "restore", str(moving.directory), *onto],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + 60
        if joins:
            # It is just being brought in.
            while asked.poll() is None and state_of(moving.pid) is None:
                time.sleep(0.001)
            time.sleep(random.random() / 10)
        elif number % 2:
            # Its timeline is just being made.
            while not Path(
                os.environ["EIGENTIME_RUNTIME_DIR"], "eigentime/back"
            ).exists():
                ensure(time.monotonic() < end, "it makes no timeline")
            time.sleep(random.random() / 200)
        else:
            time.sleep(random.random() / 2)
        kill_or_interrupt(asked)
        await_session(asked.pid, end)
        if not runs_on(moving, end, f"round {number}"):
            ensure(moving.out.stat().st_size == size, f"round {number}: it has run")
            moving.reap()
            while (other is None) == ("back" in command("ctl", "list")):
                ensure(time.monotonic() < end, f"round {number}: its timeline is left")
                time.sleep(0.02)
            if joins:
                members = [it["pid"] for it in show("back")["members"]]
                ensure(members == [other.pid], f"round {number}: {members}")
            continue
        command("ctl", "leap", "back", "1s")
        moving.checkpoint()
        moving.reap()
        size = moving.out.stat().st_size
    # Nobody else removes what CRIU has been started for.
    left = list(Path(tempfile.gettempdir()).glob("eigentime-criu-*/restore.log"))
    ensure(not left, f"left: {left}")
    command("restore", moving.directory, *onto)
    moving.await_lines(len(moving.lines()) + 2)
    check_steps(ticks(moving.lines()))
    moving.end()
    if joins:
        ensure(state_of(other.pid), "the other member has ended")
        other.end()


def ours():
    """The processes of ours, with their words: in this process namespace, all of them are of this test."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            name = (path / "comm").read_text().strip()
            words = (path / "cmdline").read_text().split("\0")
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if name in ("eigentime", "eigentime-guard"):
            yield int(path.name), parent, name, words


ROLES = ["command", "guardian", "script", "supervisor"]


class Killing:
    """A command of ours, of which one process is killed at a random moment, or several together."""

    def __init__(self, chance, *words, supervisor=None):
        """Its supervisor is that one, or else the one that the command starts."""
        self.chance, self.supervisor = chance, supervisor
        self.before = {pid for pid, *_ in ours()}
        self.asked = subprocess.Popen(
            [EIGENTIME, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.killed = self.kill()

    def role_of(self, pid, found):
        """Of a process among those of ours that were found."""
        parent, name, words = found[pid]
        if pid == self.asked.pid:
            return "command"
        # One that is just being started has the name of its parent.
        is_started_by_supervisor = (
            parent in found and self.role_of(parent, found) == "supervisor"
        )
        if name == "eigentime-guard" or is_started_by_supervisor:
            return "guardian"
        if "--complete" in words or "--hold" in words:
            return "script"
        if self.supervisor is not None:
            return "supervisor" if pid == self.supervisor else None
        # The same holds for what the command starts.
        is_new = pid not in self.before and parent != self.asked.pid
        return "supervisor" if is_new else None

    def of_roles(self, roles):
        found = {pid: rest for pid, *rest in ours()}
        for pid in found:
            if (role := self.role_of(pid, found)) in roles:
                yield pid, role

    def kill(self):
        """Returns the roles of those that were."""
        count = self.chance.randint(1, len(ROLES))
        first, *others = self.chance.sample(ROLES, count)
        time.sleep(self.chance.random() / 2 if first != "script" else 0)
        while not any(self.of_roles([first])):
            if self.asked.poll() is not None:
                return frozenset()
        time.sleep(self.chance.random() / 100)
        # None of them sees another end, or starts one that is missed.
        stopped = {}
        while found := dict(self.of_roles([first, *others])).items() - stopped.items():
            stopped.update(pair for pair in found if told(pair[0], signal.SIGSTOP))
        killed = [stopped[pid] for pid in stopped if told(pid, signal.SIGKILL)]
        return frozenset(killed)

    def settle(self, moving):
        """Is there the program, once all that was begun has ended? It ends with its supervisor, unless who sees to that
        was killed as well: the guardian or, of one that is traced for life and stopped meanwhile, the command."""
        end = time.monotonic() + 60
        self.asked.wait(60)
        await_session(self.asked.pid, end)
        may_run = "supervisor" not in self.killed or "guardian" in self.killed
        is_traced = "--traced" in moving.timeline and self.supervisor is not None
        may_be_stopped = is_traced and self.killed >= {"command", "supervisor"}
        what = f"{set(self.killed)} killed"
        return runs_on(moving, end, what, may_run, may_be_stopped)


def told(pid, number):
    """Whether it was there to be sent a signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def forget_timeline(name):
    """It ends with its programs; one that has lost its supervisor is removed."""
    subprocess.run([EIGENTIME, "ctl", "rm", name], check=False, capture_output=True)


def killing_all(program, timeline, _rate, count):
    """Processes of ours are killed, of one role or of several at once.

    - The program runs on, or there is a whole checkpoint of it, never both.
    - There is neither only where its supervisor was killed, with which programs end.
    - If who sees to that was killed as well, the program may be left, but not besides a checkpoint.
    - Of what else was written, nothing is restored.
    """
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    killed = collections.Counter()
    number, moving = 0, None
    try:
        for number in range(int(count)):
            if moving is None:
                moving = Moving("all", program, timeline)
            moving.await_lines(len(moving.lines()) + 2)
            shutil.rmtree(moving.directory, ignore_errors=True)
            shown = show("all")
            words = ["checkpoint", "all", "-o", moving.directory]
            killing = Killing(chance, *words, supervisor=shown["supervisor"])
            roles = killing.killed
            killed["+".join(sorted(roles))] += 1
            runs, is_written = killing.settle(moving), moving.directory.exists()
            what = f"{set(roles)} killed: it"
            ensure(not (runs and is_written), f"{what} runs, and is in a checkpoint")
            ensure(runs or is_written or "supervisor" in roles, f"{what} is nowhere")
            refuse_rest(moving.directory)
            runs = runs and "supervisor" not in roles
            if not runs:
                moving.end()
                forget_timeline("all")
            if is_written:
                roles = restore_killed(moving, chance)
                killed["+".join(sorted(roles)) + " of restore"] += 1
            elif not runs:
                check_steps(ticks(moving.lines()))
                moving = None
        if moving is not None:
            moving.await_lines(len(moving.lines()) + 2)
            check_steps(ticks(moving.lines()))
            moving.end()
    except Wrong as wrong:
        raise Wrong(f"seed {seed}, round {number}: {wrong}") from wrong
    print(dict(killed))


def refuse_rest(directory):
    """What was not completed is not restored."""
    for partial in directory.parent.glob(f"{directory.name}.partial-*"):
        if not (partial / "manifest.json").exists():
            said = command("restore", partial, status=125)
            ensure("is not a complete checkpoint" in said, said)


def restore_killed(moving, chance):
    """The same while it is restored: what does not run can be restored again, also if it has run for a moment."""
    written = moving.out.read_text()
    words = ["restore", moving.directory, "--timeline", "all"]
    killing = Killing(chance, *words)
    if not killing.settle(moving) or "supervisor" in killing.killed:
        moving.end()
        # As the checkpoint knows it.
        moving.out.write_text(written)
        forget_timeline("all")
        moving.restore()
    return killing.killed
