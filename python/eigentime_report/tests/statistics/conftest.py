"""No result has a NaN, and nothing warns."""

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    """What warns has not looked at its numbers first."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def numbers(found: Any) -> Iterator[float]:
    """All numbers in a result."""
    if isinstance(found, bool | str | None):
        return
    if isinstance(found, int | float | np.number):
        yield float(found)
    elif isinstance(found, np.ndarray):
        yield from map(float, found.ravel())
    elif isinstance(found, Mapping):
        for each in found.values():
            yield from numbers(each)
    elif is_dataclass(found):
        for each in fields(found):
            yield from numbers(getattr(found, each.name))
    else:
        for each in found:
            yield from numbers(each)


@pytest.fixture
def sound() -> Callable[[Any], Any]:
    """Fails where a result has a number that is not finite; hands it on otherwise."""

    def check(found: Any) -> Any:
        wrong = [number for number in numbers(found) if not math.isfinite(number)]
        assert not wrong, f"{wrong} in {found}"
        return found

    return check


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    """What R says of the data sets that come with it (fixtures/oracle.R)."""
    found: dict[str, Any] = json.loads((FIXTURES / "oracle.json").read_text())
    return found
