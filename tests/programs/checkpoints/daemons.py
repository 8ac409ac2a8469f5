"""Containers of engines that have a daemon."""

import hashlib
import json
import os
import subprocess
import tarfile
import time
from pathlib import Path

from contained import MANIFEST, OCI, PATH, Container, call
from moving import Wrong, ensure


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
        self.forget()
        words = ["start", f"--checkpoint={self.last}", self.name]
        said = self.engine(*words, status=status)
        self.own.write_text("")
        return said

    def forget(self):
        """Docker puts the checkpoint into containerd, and fails if what that has kept of it is the same."""
        address = Path.cwd() / "run-docker/containerd/containerd.sock"
        content = ["ctr", f"--address={address}", "--namespace=moby", "content"]
        kept = call(*content, "ls", "--quiet").split()
        if kept:
            call(*content, "rm", *kept)

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
