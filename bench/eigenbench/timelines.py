"""Named timelines of this run alone, and commands that nobody rebuilds."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigenbench.processes import Deadline, run

# Names timelines are found under, in the runtime directory.
FOLDER = "eigentime"
VARIABLE = "XDG_RUNTIME_DIR"
REMOVAL_TIMEOUT_S = 10.0


@contextmanager
def own(eigentime: Path, *others: Path) -> Iterator[list[Path]]:
    """Copies of commands; timelines that are made meanwhile end at the end.

    They lie in a runtime directory of their own, which children find in their
    environment. Without a command there is no copy either.
    """
    # Made so that nobody else can enter it, as timelines demand.
    with tempfile.TemporaryDirectory(prefix="eigenbench-") as name:
        copies = []
        for command in eigentime, *others:
            # Not by its own name, which the folder of the timelines has.
            copies.append(Path(name) / f"{command.name}-command")
            with suppress(OSError):
                shutil.copy2(command, copies[-1])
        with runtime_directory(Path(name)):
            try:
                yield copies
            finally:
                for timeline in found(Path(name)):
                    removal = [str(copies[0]), "ctl", "rm", "--force", timeline]
                    run(removal, Deadline(REMOVAL_TIMEOUT_S))


@contextmanager
def runtime_directory(folder: Path) -> Iterator[None]:
    """Children find and make timelines in this folder."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def found(runtime: Path) -> list[str]:
    """The names of the timelines in a runtime directory."""
    with suppress(OSError):
        files = sorted((runtime / FOLDER).iterdir())
        return [file.name for file in files if file.is_socket()]
    return []
