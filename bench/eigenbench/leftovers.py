"""What `faketime` leaves in shared memory when it is ended before its program.

It names a segment and a semaphore after its own process id and removes them
only if it lives to see its program end; one that had to be ended does not.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
PATTERNS = ("faketime_shm_*", "sem.faketime_sem_*")


@contextmanager
def removed(folder: Path = SHARED_MEMORY) -> Iterator[None]:
    """Remove what came to be in the meantime and belongs to no process."""
    before = set(_found(folder))
    try:
        yield
    finally:
        for file in _found(folder):
            if file not in before and not _owner_lives(file):
                with suppress(OSError):
                    file.unlink()


def _found(folder: Path) -> Iterator[Path]:
    for pattern in PATTERNS:
        yield from folder.glob(pattern)


def _owner_lives(file: Path) -> bool:
    pid = file.name.rpartition("_")[2]
    return Path("/proc", pid).exists()
