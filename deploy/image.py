"""Writes an OCI image of the files in a folder: the same files give the same archive, byte for byte.

    image.py ROOT ARCHIVE NAME:TAG CONFIG [SECONDS]

CONFIG is the image's configuration as JSON, and SECONDS since 1970 is the timestamp used in the image. The archive is
an OCI layout; manifest.json, which older Docker reads, names the same blobs. The layer is not compressed, since
the output of compressors differs between versions.
"""

import hashlib
import io
import json
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

MEDIA = "application/vnd.oci.image."


def tar(files, seconds):
    """A tar of these names with contents and modes, owned by root: bytes, a link's target, or None for a folder."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content, mode in files:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.mtime = mode, seconds
            if content is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    return written.getvalue()


def document(value):
    """JSON in a canonical form."""
    return json.dumps(value, sort_keys=True).encode()


def write(archive, reference, files, config, seconds=0):
    """Writes an archive with an image of these files; returns its digest."""
    blobs = {}

    def blob(kind, content):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {
            "mediaType": MEDIA + kind,
            "digest": f"sha256:{digest}",
            "size": len(content),
        }

    layer = blob("layer.v1.tar", tar(files, seconds))
    created = datetime.fromtimestamp(seconds, timezone.utc)
    described = {
        "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    described = blob("config.v1+json", document(described))
    manifest = {"schemaVersion": 2, "mediaType": f"{MEDIA}manifest.v1+json"}
    manifest |= {"config": described, "layers": [layer]}
    manifest = blob("manifest.v1+json", document(manifest))
    # The names for containerd and for others.
    names = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA}index.v1+json"}
    index["manifests"] = [manifest | {"annotations": names}]
    legacy = {"RepoTags": [reference], "Config": place(described)}
    legacy["Layers"] = [place(layer)]
    contents = {
        "blobs": None,
        "blobs/sha256": None,
        "index.json": document(index),
        "manifest.json": document([legacy]),
        "oci-layout": document({"imageLayoutVersion": "1.0.0"}),
        **blobs,
    }
    entries = [
        (name, content, 0o755 if content is None else 0o644)
        for name, content in sorted(contents.items())
    ]
    Path(archive).write_bytes(tar(entries, seconds))
    return manifest["digest"]


def place(descriptor):
    """The file name of a blob."""
    return "blobs/" + descriptor["digest"].replace(":", "/")


def contents(root):
    """The contents of a folder, as `write` takes them."""
    for path in sorted(Path(root).rglob("*")):
        name, mode = str(path.relative_to(root)), path.lstat().st_mode & 0o7777
        if path.is_symlink():
            yield name, str(path.readlink()), mode
        else:
            yield name, None if path.is_dir() else path.read_bytes(), mode


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    root, archive, reference, config, *seconds = sys.argv[1:]
    print(
        write(
            archive, reference, contents(root), json.loads(config), *map(int, seconds)
        )
    )
