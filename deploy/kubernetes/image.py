#!/usr/bin/env python3
"""Writes an image of static programs, and nothing else, as an OCI archive: the same programs give the
same archive, byte for byte.

    image.py ARCHIVE NAME:TAG PROGRAM...

The first program is the entry point.
"""

import hashlib
import io
import json
import platform
import sys
import tarfile
from pathlib import Path

# Who runs the image if nobody else is named: no user of any machine.
USER = "65532:65532"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def tar(files):
    """A tar of these files, names and bytes with modes, or links, of root and of no time."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data, mode in files:
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, data
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return written.getvalue()


def write(archive, reference, files, config):
    """Writes an archive with an image of these files; returns its digest."""
    blobs = {}

    def blob(kind, data):
        if not isinstance(data, bytes):
            data = json.dumps(data, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    system = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    layer = blob("layer.v1.tar", tar(files))
    rootfs = {"type": "layers", "diff_ids": [layer["digest"]]}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", system | {"config": config, "rootfs": rootfs}),
        "layers": [layer],
    }
    manifest = blob("manifest.v1+json", manifest)
    # What containerd, and what others call it.
    names = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "manifests": [manifest | {"platform": system, "annotations": names}],
    }
    contents = [
        ("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode(), 0o644),
        ("index.json", json.dumps(index, sort_keys=True).encode(), 0o644),
    ]
    contents += [
        (f"blobs/sha256/{digest}", data, 0o644)
        for digest, data in sorted(blobs.items())
    ]
    Path(archive).write_bytes(tar(contents))
    return manifest["digest"]


def main(archive, reference, *programs):
    files = [Path(program) for program in programs]
    contents = [(file.name, file.read_bytes(), 0o755) for file in files]
    config = {"Entrypoint": [f"/{files[0].name}"], "User": USER}
    print(write(archive, reference, contents, config))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
