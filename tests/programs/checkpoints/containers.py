"""Moves containers through checkpoints, by the verbs of their runtime or of podman.

    containers.py CASE TICKER     EIGENTIME names the command, beside which eigentime-oci is;
                                  EIGENTIME_CRIU names that of CRIU

TICKER is a static program. Prints what is wrong and ends with status 1, or with 0.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from moving import (
    EIGENTIME,
    LATE,
    Wrong,
    check_policy,
    check_steps,
    command,
    ensure,
    ticks,
)

OCI = str(Path(EIGENTIME).with_name("eigentime-oci"))
# Runtimes and podman call CRIU by its name.
PATH = f"{Path(os.environ['EIGENTIME_CRIU']).parent}:{os.environ['PATH']}"
MANIFEST = "eigentime.json"


def call(*words, status=0, silent=False, **options):
    """Runs a command. CRIU does not write a container down that has a file of the host open, to which it
    speaks; so one is started silently."""
    with Path(os.devnull if silent else "said").open("w+") as said:
        done = subprocess.run(
            [str(word) for word in words],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**os.environ, "PATH": PATH, **options},
            timeout=120,
        )
        text = ""
        if not silent:
            said.seek(0)
            text = said.read()
    ensure(
        (done.returncode == 0) == (status == 0), f"{words}: {done.returncode}: {text}"
    )
    return text


def root_file_system(ticker):
    root = Path("rootfs").absolute()
    for name in ["bin", "proc", "dev", "sys", "data"]:
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for name in ["sh", "date"]:
        (root / "bin" / name).symlink_to("busybox")
    shutil.copy(ticker, root / "bin/ticker")
    return root


class Container:
    """A ticker that writes to a file which is mounted into it."""

    WORDS = ("/bin/sh", "-c", "exec /bin/ticker >/data/out")

    def __init__(self, ticker):
        self.root = root_file_system(ticker)
        self.data = Path("data").absolute()
        self.data.mkdir()

    def lines(self):
        path = self.data / "out"
        text = path.read_text() if path.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def await_lines(self, count, limit=60):
        end = time.monotonic() + limit
        while len(self.lines()) < count:
            ensure(time.monotonic() < end, f"it has written {self.lines()}")
            time.sleep(0.02)

    def stood(self):
        return self.manifest()["moved"]["saved"]


class Runc(Container):
    """A bundle, by the runtime alone."""

    # The control group is named after it, and other tests run at the same time.
    name = f"moved-{os.getpid()}"

    def __init__(self, ticker):
        super().__init__(ticker)
        self.bundle, self.images = Path("bundle").absolute(), Path("images").absolute()
        self.bundle.mkdir()
        self.state, self.work = Path("state").absolute(), Path("work").absolute()

    def runtime(self, *words, own=(), **options):
        own = ["--eigentime-runtime", "runc", *own]
        return call(OCI, *own, "--root", self.state, *words, **options)

    def start(self, annotations):
        call("runc", "spec", "--bundle", self.bundle)
        path = self.bundle / "config.json"
        config = json.loads(path.read_text())
        config["process"] |= {
            "terminal": False,
            "args": list(self.WORDS),
            "rlimits": [],
        }
        config["root"] = {"path": str(self.root), "readonly": False}
        config["annotations"] = annotations
        bind = {"destination": "/data", "type": "bind", "source": str(self.data)}
        config["mounts"].append({**bind, "options": ["bind", "rw"]})
        path.write_text(json.dumps(config))
        self.runtime("run", "--detach", "--bundle", self.bundle, self.name, silent=True)

    def checkpoint(self, *options, status=0):
        where = ["--image-path", self.images, "--work-path", self.work]
        return self.runtime("checkpoint", *where, *options, self.name, status=status)

    def restore(self, *own, status=0):
        where = [
            "--image-path",
            self.images,
            "--work-path",
            self.work,
            "--bundle",
            self.bundle,
        ]
        return self.runtime(
            "restore", "--detach", *where, self.name, own=own, status=status
        )

    def exec(self, *words):
        return self.runtime("exec", self.name, *words)

    def manifest(self):
        return json.loads((self.images / MANIFEST).read_text())

    def remove(self):
        self.runtime("delete", "--force", self.name)


class Podman(Container):
    """A container that is moved to another store."""

    name = "moved"

    def __init__(self, ticker):
        super().__init__(ticker)
        script = Path("runtime").absolute()
        variable = "EIGENTIME_RUNTIME_DIR"
        script.write_text(
            f"#!/bin/sh\n{variable}='{os.environ[variable]}' exec '{OCI}' "
            '--eigentime-runtime runc "$@"\n'
        )
        script.chmod(0o755)
        self.configuration = Path("containers.conf").absolute()
        self.configuration.write_text(
            f"""[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
conmon_env_vars = ["PATH={PATH}"]
[engine.runtimes]
eigentime = ["{script}"]
"""
        )
        image = Path("image.tar").absolute()
        call("tar", "-C", self.root, "-cf", image, ".")
        for store in ["one", "other"]:
            self.podman("import", image, "localhost/ticker:1", store=store)
        self.store, self.archive = "one", Path("archive.tar").absolute()

    def podman(self, *words, store=None, own=(), status=0):
        # What is moved names the directory of what there is only while it runs.
        here = Path.cwd()
        root = here / (store or self.store)
        where = [f"--root={root}", f"--runroot={here}/podman", f"--tmpdir={here}/tmp"]
        flags = [f"--runtime-flag={flag.removeprefix('--')}" for flag in own]
        base = [*where, "--runtime=eigentime", *flags]
        return call(
            "podman",
            *base,
            *words,
            status=status,
            CONTAINERS_CONF=str(self.configuration),
        )

    def start(self, annotations):
        marks = [f"--annotation={name}={value}" for name, value in annotations.items()]
        mount = f"--volume={self.data}:/data"
        base = [
            "run",
            "--detach",
            "--network=none",
            f"--name={self.name}",
            mount,
            *marks,
        ]
        self.podman(*base, "localhost/ticker:1", *self.WORDS)

    def checkpoint(self, *options, status=0):
        where = [f"--export={self.archive}", "--compress=none"]
        return self.podman(
            "container", "checkpoint", *where, *options, self.name, status=status
        )

    def restore(self, *own, status=0):
        self.podman("rm", "--force", self.name)
        self.store = "other"
        words = ["container", "restore", f"--import={self.archive}"]
        return self.podman(*words, own=own, status=status)

    def exec(self, *words):
        return self.podman("exec", self.name, *words)

    def manifest(self):
        with tarfile.open(self.archive) as archive:
            return json.load(archive.extractfile(f"checkpoint/{MANIFEST}"))

    def remove(self):
        for store in ["one", "other"]:
            self.podman("rm", "--all", "--force", store=store)


ENGINES = {"runc": Runc, "podman": Podman}
TIMELINE = {"io.eigentime.date": "2038-01-01", "io.eigentime.rate": "2"}


def moves(container, annotations, policy):
    """It goes on by the clocks that the policy says, and is a container as before."""
    rate = float(annotations.get("io.eigentime.rate", 1))
    container.start(annotations)
    container.await_lines(5)
    container.checkpoint()
    before = len(container.lines())
    time.sleep(2)
    ensure(len(container.lines()) == before, "it runs on")
    began = time.time()
    container.restore(f"--eigentime-policy={policy}")
    done = time.time()
    container.await_lines(before + 5)
    found = ticks(container.lines())
    check_policy(found, before, container.stood(), policy, rate, began, done)
    lives(container, rate)


def lives(container, rate):
    """Programs that are started in it have its clocks, and these can be changed."""
    told = float(container.exec("date", "+%s"))
    wall = ticks(container.lines())[-1][1]
    ensure(abs(told - wall) < 2 + LATE * rate, f"date tells {told}, the ticker {wall}")
    shown = json.loads(command("ctl", "show", container.name, "--json"))
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


def refusals(container):
    """What cannot be done is said; the container goes on, or is not there."""
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
    manifest.write_text(whole.replace('"version": 1,', '"version": 7,', 1))
    said = container.restore(status=1)
    ensure("version 7" in said, said)
    manifest.write_text(whole)
    said = container.restore("--eigentime-policy=yesterday", status=1)
    ensure("yesterday" in said and "catch-up" in said, said)
    container.restore()
    container.await_lines(written + 5)


def main(case, ticker):
    engine, kind, *rest = case.split(":")
    container = ENGINES[engine](ticker)
    cases = {
        "plain": lambda policy: moves(container, {}, policy),
        "named": lambda policy: moves(container, TIMELINE, policy),
        "again": lambda: again(container),
        "refusals": lambda: refusals(container),
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
