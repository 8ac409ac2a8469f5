"""Named timelines of this run alone, and an `eigentime` that nobody rebuilds."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigenbench.processes import Deadline, run

# Names timelines are found under, in the runtime directory.
FOLDER = "eigentime"
REMOVAL_TIMEOUT_S = 10.0


@contextmanager
def own(eigentime: Path) -> Iterator[Path]:
    """A copy of the command; timelines that are made meanwhile end at the end.

    They lie in a runtime directory of their own, which children find in their
    environment. Without a command there is no copy either.
    """
    before = os.environ.get("XDG_RUNTIME_DIR")
    # Made so that nobody else can enter it, as timelines demand.
    with tempfile.TemporaryDirectory(prefix="eigenbench-") as name:
        copy = Path(name) / "eigentime-command"
        with suppress(OSError):
            shutil.copy2(eigentime, copy)
        os.environ["XDG_RUNTIME_DIR"] = name
        try:
            yield copy
        finally:
            for timeline in found(Path(name)):
                command = [str(copy), "ctl", "rm", "--force", timeline]
                run(command, Deadline(REMOVAL_TIMEOUT_S))
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before


def found(runtime: Path) -> list[str]:
    """The names of the timelines in a runtime directory."""
    with suppress(OSError):
        files = sorted((runtime / FOLDER).iterdir())
        return [file.name for file in files if file.is_socket()]
    return []
