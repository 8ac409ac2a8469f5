"""Moves containers through checkpoints, by the verbs of their runtime or of an engine.

    containers.py CASE TICKER     EIGENTIME names the command, beside which eigentime-oci is;
                                  EIGENTIME_CRIU names that of CRIU

TICKER is a static program. Prints what is wrong and ends with status 1, or with 0.
"""

import sys
import time
from pathlib import Path

import commanded
from contained import MANIFEST, Podman, Runc, call
from daemons import Containerd, Docker
from first import judge, on_host
from killed_runtime import killing
from moving import (
    EIGENTIME,
    LATE,
    Wrong,
    check_policy,
    check_steps,
    command,
    ensure,
    show,
    ticks,
)

ENGINES = {"runc": Runc, "podman": Podman, "docker": Docker, "containerd": Containerd}
TIMELINE = {"io.eigentime.date": "2038-01-01", "io.eigentime.rate": "2"}


def put_away(container, annotations):
    """It is written down, and does not run for a while; returns how many lines it has written."""
    container.start(annotations)
    container.await_lines(5)
    container.checkpoint()
    before = len(container.lines())
    time.sleep(2)
    ensure(len(container.lines()) == before, "it runs on")
    return before


def moves(container, annotations, policy):
    """It goes on by the clocks that the policy says, and is a container as before."""
    rate = float(annotations.get("io.eigentime.rate", 1))
    before = put_away(container, annotations)
    began = time.time()
    container.restore(f"--eigentime-policy={policy}")
    done = time.time()
    container.await_lines(before + 5)
    found = ticks(container.lines())
    check_policy(found, before, container.stood(), policy, rate, began, done)
    lives(container, rate)


def first(container, annotations, policy):
    """The same to a millisecond, of its first reading."""
    rate = int(annotations.get("io.eigentime.rate", 1))
    before = put_away(container, annotations)
    early, began = on_host(container.ticker), time.time_ns()
    container.restore(f"--eigentime-policy={policy}")
    container.await_lines(before + 2)
    hosts = early, on_host(container.ticker)
    judge(container, before, hosts, show(container.name), policy, rate, began)


def moves_unseen(container, annotations, policy):
    """The same, as far as programs tell that are started in it, and its timeline."""
    container.start(annotations)
    at = {"CONTAINERD_ADDRESS": f"{Path.cwd()}/socket"}
    told_by_whom(container, "ctr tasks checkpoint --exit", **at)
    container.checkpoint()
    stood = container.stood()
    wall, host = stood["clocks"]["realtime"] / 1e9, stood["host_realtime_ns"] / 1e9
    time.sleep(2)
    rate = float(annotations["io.eigentime.rate"])
    began = time.time()
    container.restore(f"--eigentime-policy={policy}")
    told = float(container.exec("date", "+%s"))
    passed = time.time() - began
    # In whole seconds.
    least = wall + ((began - host) * rate if policy == "catch-up" else 0) - 1
    ensure(least <= told <= least + 1 + (passed + LATE) * rate, f"{told}, not {least}")
    shown = show(container.name)
    ensure(any("ticker" in one["command"] for one in shown["members"]), f"{shown}")
    command("ctl", "leap", container.name, "30d")
    leapt = float(container.exec("date", "+%s")) - told
    ensure(leapt >= 30 * 86400, f"it has leapt {leapt} s")


def lives(container, rate):
    """Programs that are started in it have its clocks, and these can be changed."""
    told = float(container.exec("date", "+%s"))
    wall = ticks(container.lines())[-1][1]
    ensure(abs(told - wall) < 2 + LATE * rate, f"date tells {told}, the ticker {wall}")
    shown = show(container.name)
    ensure(len(shown["containers"]) == 1, f"{shown}")
    ensure(all(member["container"] for member in shown["members"]), f"{shown}")
    command("ctl", "leap", container.name, "30d")
    written = len(container.lines())
    container.await_lines(written + 3)
    leapt = ticks(container.lines())[-1][1] - wall
    ensure(leapt > 30 * 86400, f"it has leapt {leapt} s")


def again(container):
    """Once more, of what was restored; and while it goes on."""
    container.start(TIMELINE)
    for options in [], ["--leave-running"]:
        container.await_lines(len(container.lines()) + 3)
        container.checkpoint(*options)
        if not options:
            container.restore()
    container.await_lines(len(container.lines()) + 3)
    check_steps(ticks(container.lines()))
    lives(container, 2)


def joined(container):
    """Two that are restored from one checkpoint have one timeline, if the second joins that of the first."""
    container.start(TIMELINE)
    container.await_lines(3)
    container.checkpoint()
    twin = container.twin()
    container.restore()
    timeline = show(container.name)["name"]
    both = [container, twin]
    try:
        said = twin.restore("--eigentime-join=nowhere", status=1)
        ensure("no timeline 'nowhere'" in said, said)
        twin.restore(f"--eigentime-join={timeline}")
        shown = show(timeline)
        ids = sorted(one["id"] for one in shown["containers"])
        ensure(ids == sorted(one.name for one in both), f"{shown}")
        command("ctl", "leap", timeline, "30d")
        least = float(container.exec("date", "+%s")) - 1
        for one in both:
            one.await_lines(len(one.lines()) + 3)
            check_steps(ticks(one.lines()))
            ensure(ticks(one.lines())[-1][1] >= least, f"{one.name}: {least}")
            lives_beside(one, timeline)
    finally:
        twin.remove()


def lives_beside(container, timeline):
    """Programs that are started in it have the clocks of that timeline."""
    clocks = show(timeline)["clocks"]
    wall = next(int(it["virtual_ns"]) for it in clocks if it["clock"] == "realtime")
    told = float(container.exec("date", "+%s")) - wall / 1e9
    ensure(-1 <= told <= 2 * LATE, f"{container.name} is {told} s ahead")


def refusals(container):
    """What cannot be done is said; the container goes on, or is not there."""
    container.start(TIMELINE, silent=False)
    said = container.checkpoint(status=1)
    known = [f"criu cannot dump container {container.name}", "lookup mount", "ctl save"]
    ensure(all(text in said for text in known), said)
    container.remove()
    container.start(TIMELINE)
    container.await_lines(3)
    said = container.checkpoint("--lazy-pages", status=1)
    ensure("--lazy-pages" in said, said)
    written = len(container.lines())
    container.await_lines(written + 3)
    container.checkpoint()
    manifest = container.images / MANIFEST
    whole = manifest.read_text()
    manifest.unlink()
    said = container.restore(status=1)
    ensure("without eigentime" in said, said)
    manifest.write_text(whole.replace('"version": 2,', '"version": 7,', 1))
    said = container.restore(status=1)
    ensure("version 7" in said, said)
    manifest.write_text(whole)
    said = container.restore("--eigentime-policy=yesterday", status=1)
    ensure("yesterday" in said and "catch-up" in said, said)
    container.restore()
    container.await_lines(written + 5)


def told_by_whom(container, way, **options):
    """`eigentime checkpoint` names the command of the engine, whether it is on a timeline or not."""
    words = [EIGENTIME, "checkpoint", container.name, "-o", "place"]
    said = call(*words, status=125, **options)
    ensure("only " in said and way in said and container.name in said, said)
    ensure(not Path("place").exists(), "something is left")


def kept(container):
    """It is restored where it was written, without an archive."""
    container.start(TIMELINE)
    container.await_lines(3)
    container.podman("container", "checkpoint", container.name)
    written = len(container.lines())
    time.sleep(1)
    ensure(len(container.lines()) == written, "it runs on")
    container.podman("container", "restore", container.name)
    container.await_lines(written + 3)
    check_steps(ticks(container.lines()))
    lives(container, 2)


def by_daemon(container):
    """Docker is named, and what has lost its clocks is not restored."""
    at = {"DOCKER_HOST": f"unix://{Path.cwd()}/docker.sock"}
    container.start({})
    told_by_whom(container, "docker checkpoint create moved place", **at)
    container.engine("rm", "--force", container.name)
    container.start(TIMELINE)
    container.await_lines(3)
    told_by_whom(container, "docker checkpoint create moved place", **at)
    container.checkpoint()
    container.path().unlink()
    said = container.restore(status=1)
    ensure("without eigentime" in said, said)


def main(case, ticker):
    engine, kind, *rest = case.split(":")
    container = ENGINES[engine](ticker)
    moved = moves_unseen if engine == "containerd" else moves
    cases = {
        "plain": lambda policy: moves(container, {}, policy),
        "first": lambda policy: first(container, TIMELINE, policy),
        "named": lambda policy: moved(container, TIMELINE, policy),
        "again": lambda: again(container),
        "joined": lambda: joined(container),
        "killing": lambda count: killing(container, TIMELINE, int(count)),
        "refusals": lambda: refusals(container),
        "by_daemon": lambda: by_daemon(container),
        "kept": lambda: kept(container),
        "commanded": lambda policy: commanded.moves(container, TIMELINE, policy),
        "commanded-plain": lambda policy: commanded.moves(container, {}, policy),
        "commanded-changed": lambda: commanded.changed(container, TIMELINE),
        "commanded-refused": lambda: commanded.refused(container, TIMELINE),
    }
    try:
        cases[kind](*rest)
    except Wrong as wrong:
        print(f"{case}: {wrong}")
        return 1
    finally:
        container.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
