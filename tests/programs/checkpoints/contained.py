"""Containers by the verbs of their runtime or of podman."""

import copy
import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from moving import EIGENTIME, ensure

OCI = str(Path(EIGENTIME).with_name("eigentime-oci"))
# Runtimes and podman call CRIU by its name.
PATH = (
    f"{Path(os.environ['EIGENTIME_CRIU']).parent}:{os.environ['PATH']}:/usr/sbin:/sbin"
)
MANIFEST = "eigentime.json"


def call(*words, status=0, silent=False, **options):
    """Runs a command, whose status is to be 0, or another, or any (None). CRIU does not write a container down that has
    a file of the host open, to which it speaks; so one is started silently."""
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
        self.ticker, self.root = ticker, root_file_system(ticker)
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

    def environment(self):
        """By which `eigentime` finds it."""
        return {}

    def forget(self):
        """Lets its name be used by another."""


class Runc(Container):
    """A bundle, by the runtime alone."""

    engine = "runtime"
    # The control group is named after it, and other tests run at the same time.
    name = f"moved-{os.getpid()}"

    def __init__(self, ticker):
        super().__init__(ticker)
        self.bundle, self.images = Path("bundle").absolute(), Path("images").absolute()
        self.bundle.mkdir()
        self.state, self.work = Path("state").absolute(), Path("work").absolute()

    def twin(self):
        """Another container to be restored from the same images, with its own copy of what this one has written."""
        twin = copy.copy(self)
        twin.name = f"{self.name}-twin"
        twin.data = self.data.with_name("twin-data")
        shutil.copytree(self.data, twin.data)
        twin.bundle = self.bundle.with_name("twin-bundle")
        twin.bundle.mkdir()
        config = (self.bundle / "config.json").read_text()
        config = config.replace(str(self.data), str(twin.data))
        (twin.bundle / "config.json").write_text(config)
        twin.work = self.work.with_name("twin-work")
        return twin

    def runtime(self, *words, own=(), **options):
        own = ["--eigentime-runtime", "runc", *own]
        return call(OCI, *own, "--root", self.state, *words, **options)

    def start(self, annotations, silent=True):
        path = self.bundle / "config.json"
        path.unlink(missing_ok=True)
        call("runc", "spec", "--bundle", self.bundle)
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
        words = ["run", "--detach", "--bundle", self.bundle, self.name]
        self.runtime(*words, silent=silent)

    def put_in(self, place):
        self.images = place / "images"

    def forget(self):
        self.remove()

    def checkpoint_words(self, *options):
        where = ["--image-path", self.images, "--work-path", self.work]
        return ["checkpoint", *where, *options, self.name]

    def checkpoint(self, *options, status=0):
        return self.runtime(*self.checkpoint_words(*options), status=status)

    def restore_words(self):
        where = ["--image-path", self.images, "--work-path", self.work]
        return ["restore", "--detach", *where, "--bundle", self.bundle, self.name]

    def restore(self, *own, status=0):
        return self.runtime(*self.restore_words(), own=own, status=status)

    def runs(self):
        """Does it, by the runtime's own word? It knows nothing of one that it could not restore."""
        said = self.runtime("state", self.name, status=None)
        return '"status": "running"' in said

    def exec(self, *words):
        return self.runtime("exec", self.name, *words)

    def manifest(self):
        return json.loads((self.images / MANIFEST).read_text())

    def remove(self):
        self.runtime("delete", "--force", self.name)


class Podman(Container):
    """A container that is moved to another store."""

    engine = "podman"
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
tmp_dir = "{Path.cwd()}/tmp"
conmon_env_vars = ["PATH={PATH}"]
[engine.runtimes]
eigentime = ["{script}"]
"""
        )
        self.storage = Path("storage.conf").absolute()
        self.storage.write_text(
            f"""[storage]
graphroot = "{Path.cwd()}/one"
runroot = "{Path.cwd()}/podman"
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

    def environment(self):
        variables = {
            "CONTAINERS_CONF": self.configuration,
            "CONTAINERS_STORAGE_CONF": self.storage,
        }
        return {name: str(path) for name, path in variables.items()}

    def put_in(self, place):
        self.archive = place / "container.tar"

    def forget(self):
        self.podman("rm", "--force", self.name)

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
