"""The scripts' arguments, which are checked before anything is measured."""

import math
from argparse import ArgumentTypeError
from pathlib import Path


def count(text: str) -> int:
    """A number of things, at least one."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError("at least 1")
    return number


def seconds(text: str) -> float:
    """A positive time."""
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise ArgumentTypeError(f"{text} s is no time to wait: more than 0")
    return number


def writable(text: str) -> Path:
    """A file that can be written; it is not changed yet."""
    file = Path(text)
    known = file.exists()
    try:
        file.open("a").close()
    except OSError as error:
        raise ArgumentTypeError(f"{text}: {error.strerror}") from error
    if not known:
        file.unlink()
    return file
