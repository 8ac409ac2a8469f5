"""The runtime around a container's checkpoint is killed at random moments."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

from contained import MANIFEST, OCI, PATH
from moving import Wrong, check_steps, ensure, ticks


def killing(container, annotations, count):
    """The container runs on, or it is in a whole checkpoint and can be restored."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    container.start(annotations)
    for number in range(count):
        try:
            once(container, chance)
        except Wrong as wrong:
            raise Wrong(f"seed {seed}, round {number}: {wrong}") from wrong
    container.await_lines(len(container.lines()) + 2)
    check_steps(ticks(container.lines()))


def once(container, chance):
    container.await_lines(len(container.lines()) + 2)
    shutil.rmtree(container.images, ignore_errors=True)
    kill(container, chance, container.checkpoint_words())
    runs, is_written = container.runs(), (container.images / MANIFEST).exists()
    if runs:
        # It may have been written down to the end, and then been told to go on.
        container.await_lines(len(container.lines()) + 2)
        return
    ensure(is_written, "it is nowhere")
    written = (container.data / "out").read_text()
    kill(container, chance, container.restore_words())
    if not container.runs():
        container.remove()
        # As the checkpoint knows it.
        (container.data / "out").write_text(written)
        container.restore()


def kill(container, chance, words):
    """Kills eigentime-oci, or what CRIU has started of it, and waits for the end of what goes on without it."""
    asked = subprocess.Popen(
        [OCI, "--eigentime-runtime", "runc", "--root", container.state, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PATH": PATH},
    )
    end = time.monotonic() + 60
    if chance.random() < 0.5:
        time.sleep(chance.random() / 2)
        asked.kill()
    else:
        while not (scripts := list(started(Path.cwd()))) and asked.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.random() / 100)
        for pid in scripts:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    asked.wait(60)
    while any(is_runtime(pid, container.name) for pid in numbers()):
        ensure(time.monotonic() < end, "the runtime does not end")
        time.sleep(0.02)


def numbers():
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def started(here):
    """What CRIU has started of ours in this directory."""
    for pid in numbers():
        words = words_of(pid)
        is_ours = "--eigentime-complete" in words or "--eigentime-hold" in words
        if is_ours and any(word.startswith(f"{here}/") for word in words):
            yield pid


def is_runtime(pid, name):
    try:
        command = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return False
    return command == "runc" and name in words_of(pid)
