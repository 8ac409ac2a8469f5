"""One line that shows what is being measured: on a terminal only."""

import shutil
import sys


class Progress:
    """Writes to standard error if that is a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replaces the line."""
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{text[:width]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the line."""
        self.show("")
