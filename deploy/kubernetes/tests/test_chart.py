"""The chart: it renders to the manifests, is well-formed for a real API server, and grants no more than it
states. Needs helm; the API server's part needs kube-apiserver, etcd and kubectl.
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
    """Renders the chart."""
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
    """A separate API server, which has all schemas and compiles all expressions."""

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
                said = "yes" if is_allowed else "no"
                self.becomes(is_allowed, [*self.kubectl, *words], None, said)
        for name in "one", "two":
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            run([*self.kubectl, "apply", "-f", "-"], text=json.dumps(node))
        user = [
            f"--as={account}",
            "--as-user-extra=authentication.kubernetes.io/node-name=one",
        ]
        # The policies take a moment to take effect.
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
        self.make_kinds()
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
        # The policy takes a moment to take effect.
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

    def make_kinds(self):
        crds = CHART / "files/crds.yaml"
        run([*self.kubectl, "apply", "--server-side", "-f", crds])
        run([*self.kubectl, "wait", "--for=condition=Established", "crd", "--all"])

    def as_account(self, name, node="one"):
        """kubectl with the token of a pod with this account on a node."""
        extra = f"--as-user-extra=authentication.kubernetes.io/node-name={node}"
        account = f"--as=system:serviceaccount:eigentime:{name}"
        return [*self.kubectl, "-n", "eigentime", account, extra]

    def becomes(self, is_allowed, words, text, reason=""):
        """Rights and policies take a moment to take effect."""
        end = time.monotonic() + 60
        while True:
            ended = run(words, text=text, check=False)
            if (ended.returncode == 0) == is_allowed and reason in (
                ended.stdout + ended.stderr
            ):
                return
            self.assertLess(time.monotonic(), end, ended.stdout + ended.stderr)
            time.sleep(0.2)

    def test_the_installers_pods_verify_and_nothing_else(self):
        pull = "--set-json", 'image.pullSecrets=[{"name":"registry"}]'
        run([*self.kubectl, "apply", "-f", "-"], text=rendered(*pull, "--no-hooks"))
        account = "create", "serviceaccount", "eigentime-other", "-n", "eigentime"
        run([*self.kubectl, *account])
        create = [*self.as_account("eigentime-installer")]
        create += ["create", "--dry-run=server", "-f", "-"]
        secret = {"secretRef": {"name": "s"}}
        key = {"secretKeyRef": {"name": "s", "key": "k"}}
        volume = {"name": "v", "secret": {"secretName": "s"}}
        kept = {"args": ["verify"], "securityContext": verifying()["securityContext"]}
        for changes, of_container, reason in (
            ({"nodeName": "two"}, {}, "its own node"),
            ({"runtimeClassName": None}, {}, "its own node"),
            ({"hostPID": True}, {}, "nothing of the host"),
            ({"volumes": [volume]}, {}, "no volumes"),
            (
                {"initContainers": [{"name": "i", "image": "i", **kept}]},
                {},
                "one kind of container",
            ),
            ({"priorityClassName": "system-node-critical"}, {}, "no priority"),
            ({"serviceAccountName": "eigentime-other"}, {}, "its account"),
            ({"automountServiceAccountToken": None}, {}, "no token"),
            ({"imagePullSecrets": [{"name": "other"}]}, {}, "no secrets"),
            ({}, {"env": [{"name": "E", "valueFrom": key}]}, "no secrets"),
            ({}, {"envFrom": [secret]}, "no secrets"),
            ({}, {"command": ["sh"]}, "nothing else"),
            ({}, {"args": ["wait"]}, "nothing else"),
            ({}, {"securityContext": {"runAsNonRoot": True}}, "not privileged"),
        ):
            with self.subTest(f"{changes} {of_container}"):
                pod = json.dumps(verify_pod(changes, of_container))
                self.becomes(False, create, pod, reason)
        registry = {"imagePullSecrets": [{"name": "registry"}]}
        self.becomes(True, create, json.dumps(verify_pod(registry, {})))
        run(create, text=json.dumps(verify_pod({}, {})))

    def test_the_installer_deletes_its_own_pods_only(self):
        run([*self.kubectl, "apply", "-f", "-"], text=rendered())
        for name, changes in (
            ("mine", {}),
            ("elsewhere", {"nodeName": "two"}),
            ("other", {"runtimeClassName": None}),
        ):
            pod = verify_pod(changes, {})
            pod["metadata"] = {"name": name, "namespace": "eigentime"}
            run([*self.kubectl, "create", "-f", "-"], text=json.dumps(pod))
        delete = [*self.as_account("eigentime-installer")]
        delete += ["delete", "--dry-run=server", "pod"]
        for name in "elsewhere", "other":
            self.becomes(False, [*delete, name], None, "deletes pods that verify")
        run([*delete, "mine"])

    def test_an_agent_reports_of_its_own_node_only(self):
        parts = rendered(*TIMELINES).split("\n---")
        ours = [
            it
            for it in parts
            if "eigentime-agent" in it and "kind: DaemonSet" not in it
        ]
        self.assertEqual(len(ours), 5)
        self.make_kinds()
        run([*self.kubectl, "apply", "-f", "-"], text="\n---".join(ours))
        report = {
            "apiVersion": "eigentime.io/v1alpha1",
            "kind": "TimelineNode",
            "metadata": {"name": "one"},
            "spec": {"renewTime": "2026-01-01T00:00:00Z"},
        }
        agent = [*self.as_account("eigentime-agent")]
        agent += ["apply", "--server-side", "-f", "-"]
        other = {**report, "metadata": {"name": "two"}}
        # Neither exists at first, then both do.
        for _ in range(2):
            dry = [*agent, "--dry-run=server"]
            self.becomes(False, dry, json.dumps(other), "its own node only")
            run(agent, text=json.dumps(report))
            apply = "apply", "--server-side", "--field-manager=test", "-f", "-"
            run([*self.kubectl, *apply], text=json.dumps(other))

    def test_who_may_view_or_edit_a_namespace_may_do_so_with_its_timelines(self):
        self.make_kinds()
        parts = rendered(*TIMELINES, "--show-only", "templates/roles.yaml")
        run([*self.kubectl, "apply", "-f", "-"], text=parts)
        run([*self.kubectl, "create", "namespace", "team"])
        for role, into, may_edit in (
            ("view", ("view", "edit", "admin"), False),
            ("edit", ("edit", "admin"), True),
        ):
            get = "get", "clusterrole", f"eigentime-{role}", "-o=json"
            labels = json.loads(run([*self.kubectl, *get]))["metadata"]["labels"]
            for built_in in "view", "edit", "admin":
                get = "get", "clusterrole", built_in, "-o=json"
                rule = json.loads(run([*self.kubectl, *get]))["aggregationRule"]
                (selector,) = rule["clusterRoleSelectors"]
                takes = selector["matchLabels"].items() <= labels.items()
                self.assertEqual(takes, built_in in into, f"{role} into {built_in}")
            binding = "create", "rolebinding", role, f"--clusterrole=eigentime-{role}"
            run([*self.kubectl, *binding, f"--user={role}er", "-n", "team"])
            for verb, namespace, is_allowed in (
                ("watch", "team", not may_edit),
                ("patch", "team", may_edit),
                ("patch", "default", False),
            ):
                for kind in "timelines", "timechaos":
                    words = "auth", "can-i", verb, f"{kind}.eigentime.io"
                    user = f"--as={role}er", "-n", namespace
                    with self.subTest(f"{role} {verb} {kind} {namespace}"):
                        said = "yes" if is_allowed else "no"
                        asked = [*self.kubectl, *words, *user]
                        self.becomes(is_allowed, asked, None, said)


def verifying():
    """The container for verification, as the installer makes it."""
    return verify_pod({}, {})["spec"]["containers"][0]


def verify_pod(changes, of_container):
    """The pod that the installer makes, with some fields changed, or absent if they are None."""
    pod = json.loads((Path(__file__).parent / "verify.json").read_text())
    spec = pod["spec"]
    for part, changed in (spec, changes), (spec["containers"][0], of_container):
        part.update(changed)
        for key in [key for key, value in changed.items() if value is None]:
            del part[key]
    return pod


@unittest.skipUnless(tool("helm"), "needs helm")
class Folder(unittest.TestCase):
    def test_only_one_of_its_own_is_taken(self):
        for folder, is_right in (
            ("/opt/eigentime", True),
            ("/var/lib/eigentime-1.0", True),
            ("opt/eigentime", False),
            ("/", False),
            ("/opt", False),
            ("/opt/", False),
            ("/opt/..", False),
            ("/opt/../etc/kubernetes", False),
            ("/opt//eigentime", False),
            ("/opt/eigentime/", False),
            ("/opt/a b", False),
            ("/usr/local/bin", False),
            ("/run/eigentime", False),
        ):
            with self.subTest(folder):
                value = "--set", f"node.folder={folder}"
                words = "template", CHART, "--kube-version=1.36", *value
                ended = run([tool("helm"), *words], check=False)
                self.assertEqual(ended.returncode == 0, is_right, ended.stderr)
                if not is_right:
                    self.assertIn("folder", ended.stderr)


if __name__ == "__main__":
    unittest.main()
