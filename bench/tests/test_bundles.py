"""The annotations of containers, with a date like tomorrow's."""

import json
import unittest
from datetime import datetime, timezone
from pathlib import Path

from eigenbench import levels
from eigenbench.bundles import LEVELS, annotations, config, container_levels, typed

NOON = datetime(2030, 1, 31, 12, tzinfo=timezone.utc)


class Annotations(unittest.TestCase):
    def test_each_level_asks_for_what_it_is_called(self) -> None:
        date = ("io.eigentime.date", "2030-02-01T12:00:00Z")
        uptimes = [
            ("io.eigentime.monotonic", "+1000s"),
            ("io.eigentime.boottime", "+1000s"),
        ]
        expected = {
            levels.CONTAINER: {},
            levels.CONTAINER_UNSET: {},
            levels.CONTAINER_DATE: dict([date]),
            levels.CONTAINER_OFFSETS: dict([date, *uptimes]),
            levels.CONTAINER_RATE: {"io.eigentime.rate": "10"},
            levels.CONTAINER_AGAIN: {},
        }
        found = {level: annotations(level, NOON) for level in LEVELS}
        self.assertEqual(found, expected)

    def test_readers_see_no_date_that_is_over(self) -> None:
        self.assertEqual(typed(levels.CONTAINER_DATE), ["io.eigentime.date=DATE"])

    def test_the_bundle_carries_them(self) -> None:
        asked = annotations(levels.CONTAINER_RATE, NOON)
        written = json.loads(json.dumps(config(Path("/r"), "mine", ["/inside"], asked)))
        self.assertEqual(written["annotations"], {"io.eigentime.rate": "10"})
        self.assertEqual(written["root"], {"path": "/r", "readonly": True})
        self.assertEqual(written["linux"]["cgroupsPath"], "/mine")


class Levels(unittest.TestCase):
    def test_without_the_wrapper_only_bare_containers_are_left(self) -> None:
        found = container_levels(Path("/nonexistent/wrapper"))
        self.assertEqual([level.key for level in found], list(LEVELS))
        usable = [level.key for level in found if not level.absent]
        self.assertEqual(usable, [levels.CONTAINER, levels.CONTAINER_AGAIN])


if __name__ == "__main__":
    unittest.main()
