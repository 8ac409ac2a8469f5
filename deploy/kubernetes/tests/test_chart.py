"""The chart: what it gives is what the manifests hold, is well-formed for a real API server, and grants no
more than it says. Needs helm; the API server's part needs kube-apiserver, etcd and kubectl.
"""

import json
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from cluster import CHART, WORKSPACE, run, tool

MANIFESTS = WORKSPACE / "deploy/kubernetes/manifests"
RENDER = WORKSPACE / "scripts/manifests.sh"
RESTARTS = "auto", "signal"
TIMELINES = "--set", "timelines.enabled=true"


def rendered(*words):
    """What the chart gives."""
    fixed = "--namespace", "eigentime", "--kube-version", "1.36"
    return run([tool("helm"), "template", "eigentime", CHART, *fixed, *words])


@unittest.skipUnless(
    tool("helm"), "needs helm (make manifests builds it where Go is new enough)"
)
class Chart(unittest.TestCase):
    def test_lint(self):
        for restart in RESTARTS:
            run(
                [
                    tool("helm"),
                    "lint",
                    "--strict",
                    CHART,
                    "--set",
                    f"node.restart={restart}",
                    *TIMELINES,
                ]
            )

    def test_manifests_are_what_the_chart_gives(self):
        with tempfile.TemporaryDirectory() as folder:
            run([RENDER, folder])
            made = {path.name: path.read_text() for path in Path(folder).iterdir()}
        held = {path.name: path.read_text() for path in MANIFESTS.glob("*.yaml")}
        self.assertEqual(made, held, "run 'make manifests'")

    def test_nothing_is_privileged(self):
        for restart in RESTARTS:
            text = rendered("--set", f"node.restart={restart}")
            self.assertNotIn("privileged: true", text)
            self.assertEqual("hostPID: true" in text, restart == "signal")
            self.assertNotIn("hostNetwork: true", text)
            self.assertNotIn('"*"', text)

    def test_only_agents_are_close_to_the_node(self):
        text = rendered(*TIMELINES)
        self.assertEqual(text.count("hostPID: true"), 1)
        self.assertNotIn("privileged: true", text)
        self.assertNotIn('"*"', text)

    def test_a_wrong_value_is_refused(self):
        ended = run(
            [tool("helm"), "template", CHART, "--set", "node.restart=perhaps"],
            check=False,
        )
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("restart", ended.stderr)


PROGRAMS = "kube-apiserver", "etcd", "kubectl", "openssl"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@unittest.skipUnless(
    tool("helm") and all(map(shutil.which, PROGRAMS)),
    f"needs helm, {', '.join(PROGRAMS)}",
)
class Server(unittest.TestCase):
    """An API server of its own, which has all schemas and compiles all expressions."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        cls.processes = []
        cls.addClassCleanup(cls.end)
        client, peer, secure = free_port(), free_port(), free_port()
        (folder / "tokens").write_text("token,admin,admin,system:masters\n")
        run(["openssl", "genrsa", "-out", folder / "key", "2048"])
        store, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        cls.serve(
            "etcd",
            f"--data-dir={folder}/etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )
        cls.serve(
            "kube-apiserver",
            f"--etcd-servers={store}",
            f"--secure-port={secure}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={folder}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={folder}/tokens",
            "--service-account-issuer=https://local",
            f"--service-account-key-file={folder}/key",
            f"--service-account-signing-key-file={folder}/key",
        )
        user = {"name": "admin", "user": {"token": "token"}}
        server = f"https://127.0.0.1:{secure}"
        cluster = {
            "name": "c",
            "cluster": {"server": server, "insecure-skip-tls-verify": True},
        }
        context = {"name": "c", "context": {"cluster": "c", "user": "admin"}}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "users": [user],
            "clusters": [cluster],
            "contexts": [context],
        }
        (folder / "config").write_text(json.dumps(config))
        cls.kubectl = ["kubectl", f"--kubeconfig={folder}/config"]
        end = time.monotonic() + 120
        while run([*cls.kubectl, "get", "--raw=/readyz"], check=False).returncode != 0:
            if time.monotonic() > end or any(
                one.poll() is not None for one in cls.processes
            ):
                raise AssertionError((folder / "log").read_text()[-2000:])
            time.sleep(0.2)
        run([*cls.kubectl, "create", "namespace", "eigentime"])

    @classmethod
    def serve(cls, *command):
        with (Path(cls.folder.name) / "log").open("ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            cls.processes.append(subprocess.Popen(command, **streams))

    @classmethod
    def end(cls):
        for process in reversed(cls.processes):
            process.terminate()
            process.wait(timeout=60)
        cls.folder.cleanup()

    def test_the_api_server_takes_all_of_it(self):
        for restart in RESTARTS:
            text = rendered("--set", f"node.restart={restart}", *TIMELINES)
            run(
                [
                    *self.kubectl,
                    "apply",
                    "--dry-run=server",
                    "--validate=strict",
                    "-f",
                    "-",
                ],
                text=text,
            )
        for manifest in sorted(MANIFESTS.glob("*.yaml")):
            words = "apply", "--dry-run=server", "--validate=strict", "-f", manifest
            run([*self.kubectl, *words])

    def test_the_installers_token_is_good_for_little(self):
        run([*self.kubectl, "apply", "-f", "-"], text=rendered())
        account = "system:serviceaccount:eigentime:eigentime-installer"
        for verb, what, is_allowed in (
            ("get", "nodes", True),
            ("patch", "nodes", True),
            ("list", "nodes", False),
            ("delete", "nodes", False),
            ("create", "pods", True),
            ("list", "secrets", False),
            ("get", "secrets", False),
            ("patch", "daemonsets", False),
            ("create", "pods --subresource=exec", False),
        ):
            with self.subTest(f"{verb} {what}"):
                words = (
                    "auth",
                    "can-i",
                    verb,
                    *what.split(),
                    f"--as={account}",
                    "-n",
                    "eigentime",
                )
                said = run([*self.kubectl, *words], check=False).stdout.strip()
                self.assertEqual(said, "yes" if is_allowed else "no")
        for name in "one", "two":
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            run([*self.kubectl, "apply", "-f", "-"], text=json.dumps(node))
        user = [
            f"--as={account}",
            "--as-user-extra=authentication.kubernetes.io/node-name=one",
        ]
        # The policies take a moment to be in force.
        end = time.monotonic() + 60
        while self.patched("two", {"labels": {"eigentime.io/runtime": "ready"}}, user):
            self.assertLess(time.monotonic(), end, "a policy that is not in force")
            time.sleep(0.2)
        for metadata, is_allowed in (
            ({"labels": {"eigentime.io/runtime": "ready"}}, True),
            ({"labels": {"eigentime.io/runtime": None}}, True),
            ({"labels": {"node-role.kubernetes.io/control-plane": ""}}, False),
            ({"annotations": {"a": "b"}}, False),
        ):
            with self.subTest(str(metadata)):
                self.assertEqual(self.patched("one", metadata, user), is_allowed)

    def test_a_timechaos_is_for_pods_of_those_who_may(self):
        policy = "name: eigentime-timechaos\n"
        parts = [it for it in rendered(*TIMELINES).split("\n---") if policy in it]
        self.assertEqual(len(parts), 2)
        crds = CHART / "files/crds.yaml"
        run([*self.kubectl, "apply", "--server-side", "-f", crds])
        run([*self.kubectl, "wait", "--for=condition=Established", "crd", "--all"])
        run([*self.kubectl, "apply", "-f", "-"], text="\n---".join(parts))
        for namespace in "tools", "shop", "bank", "post":
            run([*self.kubectl, "create", "namespace", namespace])
        role = "create", "clusterrole", "chaos", "--verb=*", "--resource=timechaos"
        run([*self.kubectl, *role])
        for namespace in "tools", "shop":
            binding = "create", "rolebinding", "dev", "--clusterrole=chaos"
            run([*self.kubectl, *binding, "--user=dev", "-n", namespace])
        binding = "create", "clusterrolebinding", "all", "--clusterrole=chaos"
        run([*self.kubectl, *binding, "--user=chief"])
        # The policy takes a moment to be in force.
        end = time.monotonic() + 60
        while self.shifted("dev", {"namespaces": ["bank"]}).returncode == 0:
            self.assertLess(time.monotonic(), end, "a policy that is not in force")
            time.sleep(0.2)
        several = ["shop", "bank", "post"]
        for user, selector, is_allowed in (
            ("dev", {}, True),
            ("dev", {"namespaces": ["tools", "shop"]}, True),
            ("dev", {"pods": {"shop": ["web"]}}, True),
            ("dev", {"pods": {"bank": ["web"]}}, False),
            ("dev", {"namespaces": ["shop", "bank"]}, False),
            ("dev", {"namespaces": several}, False),
            ("chief", {"namespaces": several}, True),
        ):
            with self.subTest(f"{user} {selector}"):
                ended = self.shifted(user, selector)
                self.assertEqual(ended.returncode == 0, is_allowed, ended.stderr)
                if not is_allowed:
                    self.assertIn(f"{user} may not make a TimeChaos", ended.stderr)

    def shifted(self, user, selector):
        chaos = {
            "apiVersion": "eigentime.io/v1alpha1",
            "kind": "TimeChaos",
            "metadata": {"name": "skew", "namespace": "tools"},
            "spec": {"selector": selector, "mode": "one", "timeOffset": "1h"},
        }
        words = "create", "--dry-run=server", f"--as={user}", "-f", "-"
        return run([*self.kubectl, *words], text=json.dumps(chaos), check=False)

    def patched(self, node, metadata, user):
        patch = json.dumps({"metadata": metadata})
        words = "patch", "node", node, "--type=merge", f"--patch={patch}", *user
        return run([*self.kubectl, *words], check=False).returncode == 0


if __name__ == "__main__":
    unittest.main()
