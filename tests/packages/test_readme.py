"""What the README shows first is what happens: each command runs, and prints what stands below it."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

from roots import PACKAGES, TOP, InRoots, inside, need, package, run

# What differs between machines, by the command that prints it.
VARIES = {"eigentime doctor": r"\d+ checks: (\d+ \w+, )*\d+ ok\n"}

# How long it took until the clock was read.
SECONDS = re.compile(r"\d\d(\.\d{1,9})?Z")


def sessions() -> list[list[tuple[str, str]]]:
    """The console blocks before the first heading: commands, each with what it prints."""
    first_screen = (TOP / "README.md").read_text("utf-8").split("\n## ")[0]
    blocks = re.findall(
        r"^```console\n(.*?)^```$", first_screen, re.MULTILINE | re.DOTALL
    )
    return [
        [
            (re.sub(r" {2,}# .*", "", command), printed)
            for command, printed in re.findall(
                r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE
            )
        ]
        for block in blocks
    ]


def write_image(to: Path, busybox: str) -> None:
    """An archive of an image with a busybox, as `docker save` writes it."""

    def pack(files: dict[str, bytes], mode: int) -> bytes:
        written = io.BytesIO()
        with tarfile.open(fileobj=written, mode="w") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(content), mode
                tar.addfile(info, io.BytesIO(content))
        return written.getvalue()

    layer = pack({"bin/date": Path(busybox).read_bytes()}, 0o755)
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"]}}
    config["rootfs"] = {"type": "layers", "diff_ids": [digest]}
    manifest = [
        {"Config": "config.json", "RepoTags": ["busybox:1"], "Layers": ["layer.tar"]}
    ]
    documents = {"config.json": config, "manifest.json": manifest}
    files = {name: json.dumps(value).encode() for name, value in documents.items()}
    to.write_bytes(pack({**files, "layer.tar": layer}, 0o644))


class FirstScreen(unittest.TestCase):
    """Its commands, on what is built."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="eigentime-readme-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        built = TOP / "build/bin"
        self.assertTrue((built / "eigentime").exists(), "run make build")
        variables = {
            "PATH": f"{built}:{os.environ['PATH']}",
            "EIGENTIME_RUNTIME_DIR": str(runtime),
        }
        self.environment = {**os.environ, **variables, "TZ": "UTC", "LC_ALL": "C"}

    def test_each_command_prints_what_it_says(self) -> None:
        installing, *shown = sessions()
        self.assertEqual(2, len(installing))
        self.assertEqual(4, len(shown), "the four things that people come for")
        lacking = set()
        for session in shown:
            for command, printed in session:
                if "busybox.tar" in command and (lacks := self.make_image()):
                    lacking.add(lacks)
                    continue
                with self.subTest(command):
                    self.prints(command, printed)
        if lacking:
            self.skipTest(f"needs {', '.join(lacking)}; all other commands were run")

    def make_image(self) -> str:
        """What is lacking for it."""
        for tool in ("busybox", "runc"):
            if shutil.which(tool) is None:
                return tool
        if os.geteuid() != 0:
            return "root, to be sure of containers"
        write_image(self.folder / "busybox.tar", str(shutil.which("busybox")))
        return ""

    def prints(self, command: str, printed: str) -> None:
        """Runs it in a shell."""
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(0, ended.returncode, ended.stderr)
        if command in VARIES:
            self.assertRegex(printed, VARIES[command])
            self.assertRegex(ended.stdout, VARIES[command])
        else:
            self.assertEqual(SECONDS.sub("Z", printed), SECONDS.sub("Z", ended.stdout))


class Installing(InRoots):
    """The commands that install, with the packages of this version."""

    def test_as_it_says(self) -> None:
        need("zstd")
        (debian, _), (static, _) = sessions()[0]
        deb, release = (
            package("eigentime_*_amd64.deb"),
            package("eigentime-*-x86_64-linux.tar.zst"),
        )
        self.assertIn(f"./{deb.name}", debian)
        self.assertIn(release.name, static)
        run("bash", "-c", f"cd '{PACKAGES}' && {static} -C '{self.folder}'")
        command = self.folder / release.name.removesuffix(".tar.zst") / "bin/eigentime"
        root = self.distribution("bookworm")
        shutil.copy(deb, root / deb.name)
        inside(
            root,
            "sh",
            "-c",
            f"cd / && {debian.removeprefix('sudo ')} --yes --no-install-recommends",
        )
        self.assertEqual(
            run(command, "--version"), inside(root, "eigentime", "--version")
        )


if __name__ == "__main__":
    unittest.main()
