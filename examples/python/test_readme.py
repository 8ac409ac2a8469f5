"""The code that the documentation shows is the code that runs."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]
PACKAGE = EXAMPLES.parent / "python" / "eigentime"


def test_the_tests_of_the_examples():
    shown = re.findall(
        r"^\[(\S+)\]\(\1\).*?^```\w+\n(.*?)^```$",
        (EXAMPLES / "README.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert len(shown) >= 3
    for file, test in shown:
        assert test in (EXAMPLES / file).read_text(), file


def test_the_example_of_the_package():
    blocks = re.findall(
        r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL
    )
    (example,) = [block for block in blocks if "eigentime.testcontainers" in block]
    subprocess.run([sys.executable, "-c", example], check=True)
