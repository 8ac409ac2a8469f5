"""Containers on timelines, as requested from an engine. examples/python runs them."""

import os
import tempfile
import unittest
from importlib.util import find_spec
from unittest import mock

import eigentime_command
from eigentime.timeline import Timeline, TimelineError


@unittest.skipIf(
    find_spec("testcontainers") is None,
    "skipped: needs testcontainers, which `make python` installs",
)
class Containers(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        needed = {**eigentime_command.needed(), "EIGENTIME_RUNTIME_DIR": directory.name}
        environment = mock.patch.dict(os.environ, needed)
        environment.start()
        self.addCleanup(environment.stop)

    def asked(self, timeline: Timeline, version: str) -> dict:
        """What an engine with this API version is asked for."""
        from eigentime.testcontainers import on

        container = mock.Mock()
        api = container.get_docker_client.return_value.client.api
        api.api_version = version
        create = api.create_container_from_config
        self.assertIs(on(timeline, container), container)
        given = {"Env": None, "HostConfig": {"Annotations": {"a": "b"}}}
        created = api.create_container_from_config(given, "name", platform="p")
        self.assertIs(created, create.return_value)
        create.assert_called_once_with(given, "name", platform="p")
        self.assertEqual(given["HostConfig"]["Runtime"], "eigentime")
        return given

    def test_annotations(self) -> None:
        with Timeline(joinable=True) as timeline:
            asked = self.asked(timeline, "1.43")
            self.assertIsNone(asked["Env"])
            annotations = asked["HostConfig"]["Annotations"]
            self.assertEqual(annotations["io.eigentime.timeline"], timeline.name)
            self.assertEqual(annotations["io.eigentime.existing"], "true")
            self.assertEqual(annotations["a"], "b")

    def test_an_engine_that_passes_none(self) -> None:
        with Timeline(joinable=True) as timeline:
            asked = self.asked(timeline, "1.42")
            self.assertIn(f"EIGENTIME_TIMELINE={timeline.name}", asked["Env"])
            self.assertIn("EIGENTIME_EXISTING=true", asked["Env"])

    def test_a_timeline_that_containers_may_not_join(self) -> None:
        with Timeline() as timeline, self.assertRaises(TimelineError) as caught:
            self.asked(timeline, "1.43")
        self.assertEqual(caught.exception.code, "refused")
        self.assertIn("joinable=True", str(caught.exception))

    def test_each_joinable_timeline_has_a_name_of_its_own(self) -> None:
        with Timeline(joinable=True) as one, Timeline(joinable=True) as other:
            self.assertNotEqual(one.name, other.name)
            Timeline.connect(one.name).now()


if __name__ == "__main__":
    unittest.main()
