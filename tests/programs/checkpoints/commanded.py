"""Containers by `eigentime checkpoint` and `eigentime restore`, which call their engine."""

import json
import time
from pathlib import Path

from contained import EIGENTIME, call
from moving import check_policy, check_steps, ensure, show, ticks

PLACE = "place"


def asked(container, *words, **options):
    return call(EIGENTIME, *words, **options, **container.environment())


def checkpoint(container, *options):
    container.put_in(Path(PLACE).absolute())
    if container.engine == "podman":
        # Python cannot read what it compresses otherwise.
        options = [*options, "--criu-arg=--compress=none"]
    said = asked(container, "checkpoint", container.name, "-o", PLACE, *options)
    ensure(f"checkpoint of container {container.name}: " in said, said)


def moves(container, annotations, policy):
    """It goes on by the clocks that the policy says, and not before it is restored."""
    rate = float(annotations.get("io.eigentime.rate", 1))
    container.start(annotations)
    container.await_lines(5)
    checkpoint(container)
    before = len(container.lines())
    time.sleep(2)
    ensure(len(container.lines()) == before, "it runs on")
    container.forget()
    began = time.time()
    said = asked(container, "restore", PLACE, *(["--policy", policy] if policy else []))
    ensure(f"restored container {container.name}" in said, said)
    done = time.time()
    container.await_lines(before + 5)
    policy = policy or "continue"
    found = ticks(container.lines())
    check_policy(found, before, container.stood(), policy, rate, began, done)
    ensure(len(show(container.name)["containers"]) == 1, "it has no timeline")


def changed(container, annotations):
    """It may run on while it is written, and get other clocks and another timeline."""
    container.start(annotations)
    container.await_lines(3)
    checkpoint(container, "--leave-running")
    container.await_lines(len(container.lines()) + 3)
    said = asked(container, "checkpoint", container.name, "-o", PLACE, status=1)
    ensure(f"{PLACE} exists already" in said, said)
    Path(PLACE).rename("earlier")
    checkpoint(container)
    container.forget()
    said = asked(container, "restore", "earlier", status=1)
    ensure("has bad size" in said and "must be unchanged" in said, said)
    written = len(container.lines())
    options = ["--timeline", "moved-on", "--rate", "20", "--freeze", "--json"]
    said = asked(container, "restore", PLACE, *options)
    ensure(json.loads(said[said.index("{") :])["container"] == container.name, said)
    shown = show("moved-on")
    ensure(shown["state"] == "frozen" and shown["rate"] == 20, f"{shown}")
    time.sleep(1)
    ensure(len(container.lines()) <= written + 1, "it is not frozen")
    asked(container, "ctl", "thaw", "moved-on")
    container.await_lines(written + 5)
    check_steps(ticks(container.lines()))


def refused(container, annotations):
    """Where nothing can be done, nothing is left, and the container goes on."""
    container.start(annotations)
    container.await_lines(3)
    wrong = ["-o", PLACE, "--criu-arg=--no-such-option"]
    said = asked(container, "checkpoint", container.name, *wrong, status=1)
    ensure("--no-such-option" in said, said)
    ensure(not Path(PLACE).exists(), "something is left")
    container.await_lines(len(container.lines()) + 3)
    pid = show(container.name)["members"][0]["pid"]
    said = asked(container, "checkpoint", "--pid", pid, "-o", PLACE, status=1)
    ensure(f"eigentime checkpoint {container.name} -o DIR" in said, said)
    checkpoint(container)
    container.forget()
    for wrong, why in [
        (["--join", "nowhere"], "no timeline 'nowhere'"),
        (["--slew-rate", "0.5"], "policy slew"),
    ]:
        said = asked(container, "restore", PLACE, *wrong, status=1)
        ensure(why in said, said)
    manifest = Path(PLACE) / "container.json"
    whole = manifest.read_text()
    for text, why in [
        (whole.replace('"version": 1', '"version": 7'), "version 7"),
        (whole.replace(container.engine, "docker"), "docker"),
        (whole[:-10], "not a complete checkpoint"),
    ]:
        manifest.write_text(text)
        said = asked(container, "restore", PLACE, status=1)
        ensure(why in said, said)
    manifest.write_text(whole)
    written = len(container.lines())
    asked(container, "restore", PLACE)
    container.await_lines(written + 3)
