"""Moves containers through checkpoints, by the verbs of their runtime or of podman.

    containers.py CASE TICKER     EIGENTIME names the command, beside which eigentime-oci is;
                                  EIGENTIME_CRIU names that of CRIU

TICKER is a static program. Prints what is wrong and ends with status 1, or with 0.
"""

import hashlib
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
PATH = (
    f"{Path(os.environ['EIGENTIME_CRIU']).parent}:{os.environ['PATH']}:/usr/sbin:/sbin"
)
MANIFEST = "eigentime.json"


def call(*words, status=0, silent=False, **options):
    """Runs a command, whose status is to be 0, or another, or any (None). CRIU does not write a container down that has a file of the host open, to which it
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
    is_right = status is None or (done.returncode == 0) == (status == 0)
    ensure(is_right, f"{words}: {done.returncode}: {text}")
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


class Daemon(Container):
    """A container of an engine that has a daemon, which is started for it."""

    name = "moved"

    def __init__(self, ticker, *words):
        super().__init__(ticker)
        self.made, self.own = 0, Path("own").absolute()
        self.own.write_text("")
        self.script = Path("runtime").absolute()
        options = "--eigentime-trust-environment --eigentime-runtime runc"
        self.script.write_text(
            f"#!/bin/sh\nexec '{OCI}' {options} $(cat '{self.own}') \"$@\"\n"
        )
        self.script.chmod(0o755)
        with Path("daemon.log").open("w") as log:
            self.daemon = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "--", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": PATH},
            )
        end = time.monotonic() + 60
        while not self.answers():
            ensure(self.daemon.poll() is None, Path("daemon.log").read_text()[-500:])
            ensure(time.monotonic() < end, "its daemon does not answer")
            time.sleep(0.05)

    def answers(self):
        words = [*self.client(), "version"]
        done = subprocess.run(words, check=False, capture_output=True, timeout=60)
        return done.returncode == 0

    def engine(self, *words, **options):
        return call(*self.client(), *words, **options)

    def next_name(self):
        self.made += 1
        return f"made-{self.made}"

    def end(self):
        self.daemon.terminate()
        self.daemon.wait(60)
        # What it leaves mounted.
        here = str(Path.cwd())
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if line.split()[1].startswith(here):
                call("umount", line.split()[1])


class Docker(Daemon):
    """By Docker's experimental verbs."""

    def __init__(self, ticker):
        here = Path.cwd()
        self.data_root = here / "docker"
        settings = {
            "data-root": str(self.data_root),
            "exec-root": str(here / "run-docker"),
            "pidfile": str(here / "docker.pid"),
            "hosts": [f"unix://{here}/docker.sock"],
            "deprecated-key-path": str(here / "key.json"),
            "experimental": True,
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "runtimes": {"eigentime": {"path": str(here / "runtime")}},
            "bridge": "none",
            **dict.fromkeys(["iptables", "ip6tables", "ip-forward", "ip-masq"], False),
            "userland-proxy": False,
        }
        Path("daemon.json").write_text(json.dumps(settings))
        super().__init__(ticker, "dockerd", "--config-file", "daemon.json")
        image = Path("image.tar").absolute()
        call("tar", "-C", self.root, "-cf", image, ".")
        self.engine("import", image, "localhost/ticker:1")

    def client(self):
        here = Path.cwd()
        return [
            "docker",
            f"--config={here}/client",
            f"--host=unix://{here}/docker.sock",
        ]

    def start(self, annotations):
        # Docker passes annotations from version 24 on.
        marks = [
            f"--env={name.removeprefix('io.').replace('.', '_').upper()}={value}"
            for name, value in annotations.items()
        ]
        base = ["run", "--detach", "--runtime=eigentime", "--network=none"]
        base += [f"--name={self.name}", f"--volume={self.data}:/data", *marks]
        self.engine(*base, "localhost/ticker:1", *self.WORDS)

    def checkpoint(self, *options, status=0):
        self.last = self.next_name()
        words = ["checkpoint", "create", *options, self.name, self.last]
        return self.engine(*words, status=status)

    def restore(self, *own, status=0):
        self.own.write_text(" ".join(own))
        words = ["start", f"--checkpoint={self.last}", self.name]
        said = self.engine(*words, status=status)
        self.own.write_text("")
        return said

    def exec(self, *words):
        return self.engine("exec", self.name, *words)

    def path(self):
        (found,) = self.data_root.glob(f"containers/*/checkpoints/{self.last}")
        return found / MANIFEST

    def manifest(self):
        return json.loads(self.path().read_text())

    def remove(self):
        self.engine("rm", "--force", self.name)
        self.end()


class Containerd(Daemon):
    """By `ctr containers checkpoint`, which lets it go on, and `ctr containers restore`. A file that it writes would
    not be as CRIU has seen it."""

    WORDS = ("/bin/sh", "-c", "exec /bin/ticker >/dev/null")
    # The control group is named after it.
    name = f"moved-{os.getpid()}"

    def __init__(self, ticker):
        here = Path.cwd()
        Path("config.toml").write_text(
            f"""version = 2
root = "{here}/containerd"
state = "{here}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{here}/socket"
[ttrpc]
address = "{here}/socket.ttrpc"
"""
        )
        super().__init__(ticker, "containerd", "--config", "config.toml")
        self.engine("images", "import", self.archive())

    def client(self):
        return ["ctr", f"--address={Path.cwd()}/socket"]

    def archive(self):
        """Its image, as `docker save` writes it."""
        call("tar", "-C", self.root, "-cf", "layer.tar", ".")
        layer = hashlib.sha256(Path("layer.tar").read_bytes()).hexdigest()
        files = {"type": "layers", "diff_ids": [f"sha256:{layer}"]}
        config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": files}
        Path("config.json").write_text(json.dumps(config))
        image = {"Config": "config.json", "Layers": ["layer.tar"]}
        manifest = [{**image, "RepoTags": ["localhost/ticker:1"]}]
        Path("manifest.json").write_text(json.dumps(manifest))
        parts = ["config.json", "manifest.json", "layer.tar"]
        call("tar", "-cf", "image.tar", *parts)
        return "image.tar"

    def start(self, annotations):
        marks = [f"--annotation={name}={value}" for name, value in annotations.items()]
        mount = f"type=bind,src={self.data},dst=/data,options=rbind:rw"
        base = ["run", "--detach", f"--runc-binary={self.script}"]
        base += [f"--runc-root={Path.cwd()}/runc", f"--mount={mount}", *marks]
        words = [*base, "localhost/ticker:1", self.name, *self.WORDS]
        self.engine(*words, silent=True)

    def checkpoint(self):
        self.last = f"localhost/{self.next_name()}:1"
        words = ["containers", "checkpoint", "--task", "--image", "--rw"]
        self.engine(*words, self.name, self.last)
        self.engine("tasks", "kill", "--signal=SIGKILL", self.name)
        self.delete()

    def delete(self):
        end = time.monotonic() + 60
        while "RUNNING" in self.engine("tasks", "list"):
            ensure(time.monotonic() < end, "it does not end")
            time.sleep(0.02)
        self.engine("tasks", "delete", self.name)
        self.engine("containers", "delete", self.name)

    def restore(self, *own):
        self.own.write_text(" ".join(own))
        words = ["containers", "restore", "--rw", "--live", self.name, self.last]
        self.engine(*words, silent=True)
        self.own.write_text("")

    def exec(self, *words):
        one = self.next_name()
        return self.engine("tasks", "exec", f"--exec-id={one}", self.name, *words)

    def manifest(self):
        """It is in one of the archives that containerd keeps by their checksums."""
        for path in Path("containerd").glob(
            "io.containerd.content.v1.content/blobs/sha256/*"
        ):
            if tarfile.is_tarfile(path):
                with tarfile.open(path) as archive:
                    if MANIFEST in archive.getnames():
                        return json.load(archive.extractfile(MANIFEST))
        raise Wrong(f"no {MANIFEST}")

    def remove(self):
        for words in [["tasks", "kill", "--signal=SIGKILL"], ["tasks", "delete"]]:
            self.engine(*words, self.name, status=None)
        self.end()


ENGINES = {"runc": Runc, "podman": Podman, "docker": Docker, "containerd": Containerd}
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
    shown = json.loads(command("ctl", "show", container.name, "--json"))
    ensure(any("ticker" in one["command"] for one in shown["members"]), f"{shown}")
    command("ctl", "leap", container.name, "30d")
    leapt = float(container.exec("date", "+%s")) - told
    ensure(leapt >= 30 * 86400, f"it has leapt {leapt} s")


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
    told_by_whom(container, "eigentime-oci --root")
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


def told_by_whom(container, way, **options):
    """`eigentime checkpoint` names the command of the engine, whether it is on a timeline or not."""
    words = [EIGENTIME, "checkpoint", container.name, "-o", "place"]
    said = call(*words, status=125, **options)
    ensure("only " in said and way in said and container.name in said, said)
    ensure(not Path("place").exists(), "something is left")


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
        "named": lambda policy: moved(container, TIMELINE, policy),
        "again": lambda: again(container),
        "refusals": lambda: refusals(container),
        "by_daemon": lambda: by_daemon(container),
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
