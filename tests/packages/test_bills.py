"""The software bills of materials: they say what is in a package, and not where it was built."""

import json
import re
import unittest
from zipfile import ZipFile

from roots import package


class Bills(unittest.TestCase):
    """Of the commands, and of the library for Python."""

    def check(self, text: str, crate: str) -> None:
        """Is it this crate's, with all folders below the one that stands for the source?"""
        bill = json.loads(text)
        self.assertEqual(crate, bill["metadata"]["component"]["name"])
        self.assertIn("rustix", {part["name"] for part in bill["components"]})
        self.assertEqual({"file:///eigentime"}, set(re.findall("file:///[^/]*", text)))

    def test_of_the_commands(self) -> None:
        self.check(package("eigentime-*.cdx.json").read_text(), "eigentime-cli")

    def test_of_the_library_for_python(self) -> None:
        with ZipFile(package("eigentime-*.whl")) as wheel:
            (name,) = (name for name in wheel.namelist() if "/sboms/" in name)
            self.check(wheel.read(name).decode(), "eigentime-python")


if __name__ == "__main__":
    unittest.main()
