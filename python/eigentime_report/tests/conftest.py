"""Tests find `making` by its name, whichever of them is run; and what several of them share."""

import sys
from pathlib import Path

import pytest

from eigentime_report.results import Results

# At the end: a folder of tests may be called as a module of Python's own.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Results]:
    """Results from before and from afterwards, when one call had grown and one had shrunk."""
    from comparison import folders

    return folders.pair(tmp_path_factory.mktemp("folders"))
