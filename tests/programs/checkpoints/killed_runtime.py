"""Processes of ours around a container's checkpoint are killed at random moments."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

from contained import MANIFEST, OCI, PATH
from killed import told
from moving import Wrong, check_steps, ensure, ticks

ROLES = ["command", "script", "supervisor", "guardian"]


def killing(container, annotations, count):
    """The container runs on, or it is in a whole checkpoint and can be restored, never both. It is in neither only
    where its supervisor was killed, with which it ends. Nothing of it is left."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    container.start(annotations)
    killed = []
    for number in range(count):
        try:
            once(container, annotations, chance, killed)
        except Wrong as wrong:
            raise Wrong(
                f"seed {seed}, round {number}, {killed[-2:]}: {wrong}"
            ) from wrong
    container.await_lines(len(container.lines()) + 2)
    check_steps(ticks(container.lines()))
    print(killed)


def once(container, annotations, chance, killed):
    container.await_lines(len(container.lines()) + 2)
    shutil.rmtree(container.images, ignore_errors=True)
    killed.append(kill(container, chance, container.checkpoint_words()))
    runs, is_written = settle(container, killed[-1]), is_whole(container)
    ensure(not (runs and is_written), "it runs, and is in a checkpoint")
    if runs:
        return
    ensure(is_written or killed[-1] == "supervisor", "it is nowhere")
    check_left(container)
    if not is_written:
        container.start(annotations)
        return
    written = (container.data / "out").read_text()
    killed.append(kill(container, chance, container.restore_words()) or "none")
    if not settle(container, killed[-1]):
        check_left(container)
        # As the checkpoint knows it.
        (container.data / "out").write_text(written)
        container.restore()


def is_whole(container):
    return (container.images / MANIFEST).exists()


def settle(container, role):
    """Does it run? It ends with its supervisor."""
    written, end = len(container.lines()), time.monotonic() + 60
    while container.runs():
        if role != "supervisor" and len(container.lines()) >= written + 2:
            return True
        ensure(time.monotonic() < end, "it neither runs nor ends")
        time.sleep(0.02)
    return False


def check_left(container):
    """Nothing is left of one that does not run, once the runtime has deleted it."""
    container.remove()
    end = time.monotonic() + 60
    while left := [*of_container(container), *of_us()]:
        ensure(time.monotonic() < end, f"left: {[(it, words_of(it)) for it in left]}")
        time.sleep(0.02)
    mounts = Path("/proc/self/mounts").read_text()
    ensure(str(Path.cwd()) not in mounts, f"left: {mounts}")
    ensure(
        not any(container.state.glob("*")), f"left: {list(container.state.glob('*'))}"
    )


def kill(container, chance, words):
    """Kills a process of ours, and waits for the end of what goes on without it; returns its role."""
    asked = subprocess.Popen(
        [OCI, "--eigentime-runtime", "runc", "--root", container.state, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PATH": PATH},
    )
    end = time.monotonic() + 60
    wanted = chance.choice(ROLES)
    time.sleep(0 if wanted == "script" else chance.random() / 2)
    while not (found := list(of_role(wanted, asked.pid))) and asked.poll() is None:
        time.sleep(0.001)
    time.sleep(chance.random() / 100)
    killed = [pid for pid in found if told(pid, signal.SIGKILL)]
    asked.wait(60)
    while any(is_runtime(pid, container.name) for pid in numbers()):
        ensure(time.monotonic() < end, "the runtime does not end")
        time.sleep(0.02)
    return wanted if killed else None


def numbers():
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def of_us():
    """The processes of ours that are of this test."""
    own = f"EIGENTIME_RUNTIME_DIR={os.environ['EIGENTIME_RUNTIME_DIR']}"
    for pid in numbers():
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        except OSError:
            continue
        if own in variables and name_of(pid).startswith("eigentime"):
            yield pid


def of_role(role, command):
    for pid in of_us():
        words = words_of(pid)
        is_script = "--eigentime-complete" in words or "--eigentime-hold" in words
        is_one = {
            "command": pid == command,
            "script": is_script,
            "supervisor": name_of(pid) == "eigentime" and not is_script,
            "guardian": name_of(pid) == "eigentime-guard",
        }
        if is_one[role]:
            yield pid


def of_container(container):
    """What it has started."""
    for pid in numbers():
        try:
            groups = Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            continue
        if container.name in groups:
            yield pid


def is_runtime(pid, name):
    return name_of(pid) == "runc" and name in words_of(pid)
