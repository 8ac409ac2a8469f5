"""An installation on a cluster, from beginning to end."""

import json
import os
import tempfile
import unittest
from pathlib import Path

import images
from cluster import (
    CHART,
    DATE_S,
    HOUR_S,
    LABEL,
    NAMESPACE,
    SHELL,
    apply,
    built_image,
    files_of,
    get,
    helm,
    kubectl,
    load_image,
    nodes,
    objects,
    pod,
    processes,
    rollout,
    tool,
    until,
)

UNINSTALL = "uninstall", "eigentime", "--timeout=400s"


class Installation(unittest.TestCase):
    """Its tests run in alphabetical order, on one installation."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.scratch = Path(cls.folder.name)
        cls.record = {}
        images.busybox(cls.scratch / "shell.tar", SHELL)
        load_image(cls.scratch / "shell.tar")
        load_image(built_image())
        cls.nodes = nodes()
        restart = os.environ.get("EIGENTIME_RESTART", "auto")
        cls.values = [
            *("--set", f"node.restart={restart}"),
            *("--set", "image.pullPolicy=Never"),
        ]
        # What must be the same in the end: the images stay, as on any cluster.
        cls.before = {node: files_of(node) for node in cls.nodes}, objects()

    @classmethod
    def tearDownClass(cls):
        cls.clear()
        cls.folder.cleanup()
        to = os.environ.get("EIGENTIME_RECORD")
        if to:
            file = Path(to)
            held = json.loads(file.read_text()) if file.exists() else {}
            held[cls.__name__] = cls.record
            file.write_text(json.dumps(held, indent=2) + "\n")

    @classmethod
    def clear(cls):
        """Deletes what a test has made."""
        kubectl("delete", "pod,job", "-l", "test=eigentime", "--now")

    def tearDown(self):
        self.clear()

    def install(self):
        helm("install", "eigentime", CHART, "--create-namespace", *self.values)
        rollout("status")

    def start(self, name, spec, annotations=None, runtime="eigentime"):
        apply(pod(name, spec, annotations, runtime))

    def ready(self, name):
        kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=120s")

    def program(self, language):
        """The image of a program in a language, loaded onto all nodes."""
        made = images.LANGUAGES[language]
        if not all(tool(one) for one in made.needs):
            self.skipTest(f"needs {' and '.join(made.needs)}")
        scratch = self.scratch / language
        scratch.mkdir()
        archive = self.scratch / f"{language}.tar"
        reference = f"localhost/eigentime-test-{language}:1"
        made.image(archive, reference, scratch)
        load_image(archive)
        return reference

    def own_time(self, seconds):
        self.assertTrue(DATE_S <= int(seconds) < DATE_S + HOUR_S, seconds)

    def files_are_as_before(self):
        files, _ = self.before
        for node in self.nodes:
            now = files_of(node)
            self.assertEqual((now - files[node], files[node] - now), (set(), set()))

    def nothing_is_left(self):
        """All files and processes of the nodes and all objects are as before the installation."""
        kubectl("delete", "namespace", NAMESPACE)
        self.files_are_as_before()
        for node in self.nodes:
            until(
                lambda node=node: not processes(node, ".*[e]igentime"),
                f"no process is left on {node}",
            )
        _, before = self.before
        now = until(
            lambda: objects() - before == set() and objects(), "no object is left"
        )
        self.assertEqual(before - now, set())
        for node in get("nodes")["items"]:
            self.assertNotIn(LABEL, node["metadata"]["labels"])
