"""What is wrong with a results folder."""

from pathlib import Path


class FolderError(Exception):
    """A folder that cannot be read: which file of it, for what reason, and what to do."""

    def __init__(self, path: Path, reason: str, way_out: str) -> None:
        super().__init__(path, reason, way_out)
        self.path = path
        self.reason = reason
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}\nhelp: {self.way_out}"


def unreadable(path: Path, error: OSError) -> FolderError:
    """A file that this user cannot read, whatever is in it."""
    return FolderError(
        path,
        f"it cannot be read: {error.strerror or error}",
        "let this user read it, or name a copy that this user can read",
    )
