"""Named timelines of this run alone, and commands that nobody rebuilds meanwhile."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigenbench.processes import Deadline, run

# The name of the folder of timelines, in the runtime directory.
FOLDER = "eigentime"
VARIABLE = "XDG_RUNTIME_DIR"
REMOVAL_TIMEOUT_S = 10.0


@contextmanager
def own(eigentime: Path, *others: Path) -> Iterator[list[Path]]:
    """Copies of commands; timelines created meanwhile are removed at the end.

    They are in a private runtime directory, which children find in their environment. A command
    that does not exist has no copy.
    """
    # Inaccessible to others, as timelines require.
    with tempfile.TemporaryDirectory(prefix="eigenbench-") as name:
        copies = []
        for command in eigentime, *others:
            # Under another name than its own, which the folder of the timelines has.
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
    """Makes children find and create timelines in this folder."""
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
