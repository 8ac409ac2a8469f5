"""Writing files: all of one, or nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of `path` when it is whole.

    If `path` is a link, what it leads to is replaced, and the link stays.
    """
    place = Path(os.path.realpath(path))
    new = place.with_name(f".{os.getpid()}.{place.name}")
    try:
        yield new
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)
