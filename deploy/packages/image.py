"""Writes an OCI image with the commands of the static release, the same bytes each time.

    image.py TREE VERSION SECONDS ARCHIVE

TREE has bin/ and share/; SECONDS since 1970 are the times in the image. The archive is an OCI layout
that `podman load`, `docker load`, `skopeo` and `eigentime run --image` read: older Docker looks for
manifest.json, which names the same blobs.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

NAME = "eigentime"
MEDIA = "application/vnd.oci.image."


def entry(name, seconds, mode, size=None):
    """A directory, or a file of that size."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if size is None else tarfile.REGTYPE
    info.mtime, info.mode, info.size = seconds, mode, size or 0
    return info


def archive(files, seconds, directories=()):
    """A tape archive of files, by name, with their modes and contents."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, mode in directories:
            tar.addfile(entry(name, seconds, mode))
        for name, (mode, content) in sorted(files.items()):
            tar.addfile(entry(name, seconds, mode, len(content)), io.BytesIO(content))
    return written.getvalue()


def layer(tree, seconds):
    """The commands and their licences, and the directories that programs expect."""
    files = {
        f"usr/bin/{file.name}": (0o755, file.read_bytes())
        for file in (tree / "bin").iterdir()
    }
    for file in (tree / "share/doc/eigentime").iterdir():
        files[f"usr/share/doc/eigentime/{file.name}"] = (0o644, file.read_bytes())
    usual = ["dev", "etc", "proc", "root", "run", "sys", "usr", "usr/bin", "usr/share"]
    usual += ["usr/share/doc", "usr/share/doc/eigentime"]
    return archive(
        files, seconds, [(name, 0o755) for name in usual] + [("tmp", 0o1777)]
    )


def image(tree, version, seconds):
    """All files of the OCI layout, by name."""
    plain = layer(tree, seconds)
    files = {"oci-layout": (0o644, b'{"imageLayoutVersion":"1.0.0"}')}

    def blob(media, content):
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = (0o644, content)
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    def document(value):
        return json.dumps(value, sort_keys=True).encode()

    packed = blob(f"{MEDIA}layer.v1.tar+gzip", gzip.compress(plain, 9, mtime=0))
    config = {
        "created": datetime.fromtimestamp(seconds, timezone.utc).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        ),
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/eigentime"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/bin"],
            "Labels": {
                "org.opencontainers.image.title": NAME,
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"],
        },
    }
    described = blob(f"{MEDIA}config.v1+json", document(config))
    manifest = {"schemaVersion": 2, "mediaType": f"{MEDIA}manifest.v1+json"}
    manifest |= {"config": described, "layers": [packed]}
    named = blob(f"{MEDIA}manifest.v1+json", document(manifest))
    named["annotations"] = {
        "io.containerd.image.name": f"localhost/{NAME}:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}index.v1+json",
        "manifests": [named],
    }
    files["index.json"] = (0o644, document(index))

    def place(descriptor):
        return "blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")

    legacy = {"Config": place(described), "Layers": [place(packed)]}
    legacy["RepoTags"] = [f"localhost/{NAME}:{version}"]
    files["manifest.json"] = (0o644, document([legacy]))
    return files


def main(tree, version, seconds, out):
    """Writes the archive."""
    files = image(Path(tree), version, int(seconds))
    folders = [("blobs", 0o755), ("blobs/sha256", 0o755)]
    Path(out).write_bytes(archive(files, int(seconds), folders))


if __name__ == "__main__":
    main(*sys.argv[1:])
