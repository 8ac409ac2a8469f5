"""Files that the peers leave on the machine.

`faketime` names a segment and a semaphore in shared memory after its own process ID and removes
them only if it outlives its program; if it is killed, they stay. Podman has one cache for all
storages, and gives our runtime no directory for its timelines, which are then in root's usual
place.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
PATTERNS = ("faketime_shm_*", "sem.faketime_sem_*")
# Folders that may appear, and everything that may be left in them.
FOLDERS = {
    Path("/run/eigentime"): ".lock",
    Path("/var/lib/containers/cache"): "blob-info-cache-v1.boltdb",
}


@contextmanager
def removed(
    folder: Path = SHARED_MEMORY, folders: Mapping[Path, str] = FOLDERS
) -> Iterator[None]:
    """Removes what has appeared meanwhile and belongs to no process."""
    before = set(_found(folder))
    # A folder that cannot be entered cannot be written to, either.
    new = [
        path
        for path in folders
        if os.access(path.parent, os.X_OK) and not path.exists()
    ]
    try:
        yield
    finally:
        for path in new:
            _remove(path, folders[path])
        for file in _found(folder):
            if file not in before and not _owner_lives(file):
                with suppress(OSError):
                    file.unlink()


def _found(folder: Path) -> Iterator[Path]:
    for pattern in PATTERNS:
        yield from folder.glob(pattern)


def _remove(folder: Path, content: str) -> None:
    """Removes a folder that contains only this."""
    with suppress(OSError):
        if [file.name for file in folder.iterdir()] == [content]:
            (folder / content).unlink()
            folder.rmdir()


def _owner_lives(file: Path) -> bool:
    pid = file.name.rpartition("_")[2]
    return Path("/proc", pid).exists()
