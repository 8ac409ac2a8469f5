"""Tests find `making` by its name, whichever of them is run."""

import sys
from pathlib import Path

# At the end: a folder of tests may be called as a module of Python's own.
sys.path.append(str(Path(__file__).parent))
