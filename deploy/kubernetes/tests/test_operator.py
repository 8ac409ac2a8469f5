"""Timelines as objects on a real cluster: agents, controller and webhook, with pods on two nodes. `make
test-kubernetes` runs it after test_cluster.py. The tests run in this order, on one installation.
"""

import json
import os
import statistics
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import images
from cluster import (
    DATE,
    DATE_S,
    HOUR_S,
    NAMESPACE,
    SHELL,
    apply,
    container,
    described,
    get,
    helm,
    kubectl,
    load_image,
    on_node,
    pod,
    says,
    tool,
    until,
)
from installation import UNINSTALL, Installation

SAMPLER = "localhost/eigentime-test-sampler:1"
POSTGRES = "localhost/eigentime-test-postgres:1"

# How many changes are made to measure their spread, and by how much nodes may be apart then.
CHANGES = int(os.environ.get("EIGENTIME_CHANGES", "20"))
MOST_NS = 1_000_000
# What share of the changes a node may hear of too late, on a busy machine.
MOST_LATE = 0.1
# How often each process is killed in the middle of a change.
KILLS = int(os.environ.get("EIGENTIME_KILLS", "2"))
# What a sampler sleeps between two looks meanwhile.
PAUSE = "1ms"
# By how much nodes may be apart if one has been late and says so: if its agent was killed before it has heard of the
# change, until the kubelet has started that again.
BACK_NS = 60_000_000_000
# What is killed, by the beginning of its command line; before the change on one node, or in its middle on all.
KILLED = (
    ("agent", "/eigentime-operator agent", False),
    ("agent before", "/eigentime-operator agent", True),
    ("controller", "/eigentime-operator .*controller", False),
    ("kubelet", "([^ ]*/)?kubelet ", False),
    ("containerd", "([^ ]*/)?containerd( |$)", False),
    ("API server", "([^ ]*/)?kube-apiserver ", False),
)
# The reasons of a change that is made.
IN_FORCE = "Applied", "CaughtUp"

API = "eigentime.io/v1alpha1"

LEAP_NS = HOUR_S * 1_000_000_000

# What the tests make: of the chart's kinds, and of others.
KINDS = "timelines", "timechaos"
MADE = (
    *("statefulsets", "cronjobs", "jobs", "pods"),
    *("persistentvolumeclaims", "persistentvolumes"),
)
VOLUME = "/tmp/eigentime-test-volume"


def timeline(name, **spec):
    """A timeline of the pods with its name."""
    spec = {"selector": {"matchLabels": {"timeline": name}}, **spec}
    return described(API, "Timeline", name, spec)


def member(name, of, spec, runtime=None):
    """A pod that a timeline selects."""
    made = pod(name, spec, runtime=runtime)
    made["metadata"]["labels"]["timeline"] = of
    return made


def template(of, spec):
    """What a controller of pods makes them from."""
    made = member("any", of, spec)
    labels = made["metadata"]["labels"]
    return {"metadata": {"labels": labels}, "spec": made["spec"]}


def change(name, **spec):
    kubectl("patch", "timeline", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def applied(name, timeout="120s"):
    words = "--for=condition=Applied", f"timeline/{name}", f"--timeout={timeout}"
    kubectl("wait", *words)


def reason(name):
    """Why the condition holds or not, for the present spec."""
    # The API server may be away.
    text = kubectl("get", "timeline", name, "-o", "json", check=False).stdout
    found = json.loads(text or "{}")
    for one in found.get("status", {}).get("conditions", []):
        is_now = one["observedGeneration"] == found["metadata"]["generation"]
        if one["type"] == "Applied" and is_now:
            return one["reason"]
    return None


def leaps(name, count):
    """The leaps that a sampler has seen: between which instants of its clock, without the leap itself."""

    def told():
        # The kubelet or the container engine may be away, and say so here.
        lines = kubectl("logs", name, check=False).stdout.splitlines()
        return len(lines) == count and all(it[0].isdigit() for it in lines) and lines

    lines = until(told, f"{name} sees {count} leaps")
    seen = [tuple(map(int, line.split())) for line in lines]
    return [(last, first - LEAP_NS) for last, first in seen]


def apart_ns(one, other):
    """By how much two instants differ at least and at most, each of which is between two others."""
    at_least = max(one[0], other[0]) - min(one[1], other[1])
    return max(0, at_least), max(one[1], other[1]) - min(one[0], other[0])


def kill(node, pattern):
    """Kills the processes of a node whose command line begins so; which."""
    script = f"pids=$(pgrep -f '^{pattern}') && kill -9 $pids; echo $pids"
    return on_node(node, "sh", "-c", script).split()


class Operator(Installation):
    """With timelines as objects."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.values += ["--set", "timelines.enabled=true"]

    @classmethod
    def clear(cls):
        # The definitions are gone once it is uninstalled.
        there = kubectl("get", "crd", "-o", "name")
        own = KINDS if "timelines.eigentime.io" in there else ()
        kubectl("delete", ",".join([*own, *MADE]), "-l", "test=eigentime", "--now")

    def members(self, name, spec, **settings):
        """A timeline with a pod on each node."""
        apply(timeline(name, **settings))
        # The webhook may hear of it later than the controller: pods that it misses would be attached.
        applied(name)
        pods = [f"{name}-{number}" for number in range(len(self.nodes))]
        for each, node in zip(pods, self.nodes, strict=True):
            apply(member(each, name, {"nodeName": node, **spec}))
        for each in pods:
            self.ready(each)
        applied(name)
        return pods

    def sampled(self, name, pause):
        """A timeline with a sampler on each node."""
        if not tool("go"):
            self.skipTest("needs go")
        scratch = self.scratch / name
        scratch.mkdir()
        images.go(scratch / "image.tar", SAMPLER, scratch, images.SAMPLER)
        load_image(scratch / "image.tar")
        pauses = [{"name": "PAUSE", "value": pause}]
        # Enough of the processors to be running when it is woken.
        shares = {"requests": {"cpu": "300m"}}
        only = container("a", SAMPLER, env=pauses, resources=shares)
        spec = {"containers": [only]}
        return self.members(name, spec, date=DATE)

    def test_01_install(self):
        self.install()
        for part in (
            "daemonset/eigentime-agent",
            "deployment/eigentime-controller",
            "deployment/eigentime-webhook",
        ):
            kubectl("rollout", "status", part, "-n", NAMESPACE)

        def reporting():
            return {it["metadata"]["name"] for it in get("timelinenodes")["items"]}

        until(lambda: reporting() == set(self.nodes), "the agents report")

    def test_02_pods_of_two_nodes_share_a_timeline(self):
        spec = {"containers": [container("a", SHELL, "sleep 1000000000")]}
        pods = self.members("shop", spec, date=DATE, rate="10")
        for each in pods:
            self.assertEqual(get("pod", each)["spec"]["runtimeClassName"], "eigentime")
            self.own_time(says(each))
        first, second = pods[0], pods[-1]
        now = [int(says(each)) for each in (first, second, first, second)]
        self.assertEqual(sorted(now), now)
        status = get("timeline", "shop")["status"]
        nodes = len(self.nodes)
        self.assertEqual(
            (status["members"], status["appliedNodes"]), (nodes, f"{nodes}/{nodes}")
        )
        change("shop", frozen=True)
        applied("shop")
        stands = {says(each) for each in pods * 2}
        self.assertEqual(len(stands), 1, stands)
        change("shop", frozen=False, leaps="30d")
        applied("shop")
        for each in pods:
            self.assertGreaterEqual(int(says(each)), int(*stands) + 30 * 24 * HOUR_S)

    def test_03_changes_reach_all_nodes_at_once(self):
        pods = self.sampled("changes", "100us")
        took_s, late = [], set()
        for number in range(CHANGES):
            began = time.monotonic()
            change("changes", leaps=f"{number + 1}h")
            applied("changes")
            took_s.append(time.monotonic() - began)
            if reason("changes") != IN_FORCE[0]:
                late.add(number)
        seen = [leaps(each, CHANGES) for each in (pods[0], pods[-1])]
        # What a sampler is not running for is uncertain. A node that is late has to say so.
        apart = [
            apart_ns(*both)
            for number, both in enumerate(zip(*seen, strict=True))
            if number not in late
        ]
        most = sorted(at_most for _, at_most in apart)
        self.record["spread"] = {
            "changes": CHANGES,
            "late": len(late),
            "at_least_max_us": max(at_least for at_least, _ in apart) / 1000,
            "at_most_median_us": statistics.median(most) / 1000,
            "at_most_p90_us": most[len(most) * 9 // 10] / 1000,
            "at_most_max_us": most[-1] / 1000,
            "change_median_s": statistics.median(took_s),
            "load": os.getloadavg()[0],
        }
        print(self.record["spread"])
        self.assertLessEqual(max(at_least for at_least, _ in apart), MOST_NS)
        self.assertLessEqual(len(late), CHANGES * MOST_LATE)

    def test_04_who_comes_later_goes_on(self):
        script = "date +%s; trap 'exit 1' TERM; sleep 1000000000 & wait"
        spec = {"containers": [container("a", SHELL, script)]}
        pods = self.members("again", spec, date=DATE, rate="100")
        first = int(says(pods[0]))
        # Its end may be told before that of the command.
        kubectl("exec", pods[0], "--", "kill", "1", check=False)

        def restarted():
            status = get("pod", pods[0])["status"]["containerStatuses"][0]
            return status["restartCount"] == 1 and status["ready"]

        until(restarted, "restart")
        second = int(says(pods[0]))
        self.assertGreater(second, first)
        # Made anew, on another node.
        kubectl("delete", "pod", *pods, "--now")
        apply(member("anew", "again", {"nodeName": self.nodes[-1], **spec}))
        self.ready("anew")
        self.assertGreater(int(says("anew")), second)

    def test_05_stateful_set_with_a_volume(self):
        node = self.nodes[-1]
        self.addCleanup(on_node, node, "rm", "-r", VOLUME)
        labels = {"test": "eigentime"}
        here = {
            "key": "kubernetes.io/hostname",
            "operator": "In",
            "values": [
                get("node", node)["metadata"]["labels"]["kubernetes.io/hostname"]
            ],
        }
        claimed = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        volume = {
            **claimed,
            "capacity": {"storage": "1Mi"},
            "hostPath": {"path": VOLUME, "type": "DirectoryOrCreate"},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
            },
        }
        mounts = [{"name": "data", "mountPath": "/data"}]
        script = "date +%s >>/data/log; sleep 1000000000"
        spec = {"containers": [container("a", SHELL, script, volumeMounts=mounts)]}
        claim = {
            "metadata": {"name": "data", "labels": labels},
            "spec": {**claimed, "resources": {"requests": {"storage": "1Mi"}}},
        }
        made = template("db", spec)
        stateful = {
            "serviceName": "db",
            "selector": {"matchLabels": made["metadata"]["labels"]},
            "template": made,
            "volumeClaimTemplates": [claim],
        }
        apply(timeline("db", date=DATE, rate="10"))
        applied("db")
        apply(
            described("v1", "PersistentVolume", "eigentime-test", volume),
            described("apps/v1", "StatefulSet", "db", stateful),
        )
        until(lambda: get("pods", "-l", "timeline=db")["items"], "db-0 is made")
        self.ready("db-0")
        before = get("pod", "db-0")["metadata"]["uid"]
        kubectl("delete", "pod", "db-0", "--now")

        def anew():
            found = get("pods", "-l", "timeline=db")["items"]
            return found and found[0]["metadata"]["uid"] != before

        until(anew, "db-0 is made anew")
        self.ready("db-0")
        noted = says("db-0", script="cat /data/log").split()
        self.assertEqual(len(noted), 2, noted)
        self.assertGreater(int(noted[1]), int(noted[0]))
        for each in noted:
            self.own_time(each)

    def test_06_cron_job(self):
        labels = {"test": "eigentime"}
        made = template(
            "cron",
            {
                "restartPolicy": "Never",
                "containers": [container("a", SHELL, "date +%s")],
            },
        )
        cron = {
            "schedule": "* * * * *",
            "jobTemplate": {
                "metadata": {"labels": labels},
                "spec": {"template": made},
            },
        }
        apply(timeline("cron", date=DATE, rate="10"))
        applied("cron")
        apply(described("batch/v1", "CronJob", "cron", cron))

        def done():
            found = get("pods", "-l", "timeline=cron")["items"]
            ended = [it for it in found if it["status"]["phase"] == "Succeeded"]
            return ended and ended[0]["metadata"]["name"]

        self.own_time(kubectl("logs", until(done, "a job of the CronJob")).strip())

    def test_07_postgres(self):
        if not images.postgres_programs():
            self.skipTest("needs PostgreSQL")
        archive = self.scratch / "postgres.tar"
        images.postgres(archive, POSTGRES)
        load_image(archive)
        script = (
            "initdb -D /data/db -U postgres --no-locale -E UTF8 >/tmp/initdb && "
            "exec postgres -D /data/db -k /tmp"
        )
        mounts = [
            {"name": name, "mountPath": f"/{name}", "subPath": name}
            for name in ("data", "tmp")
        ]
        only = container("a", POSTGRES, script, volumeMounts=mounts)
        spec = {
            "containers": [only],
            "securityContext": {"runAsUser": 65532, "fsGroup": 65532},
            "volumes": [{"name": name, "emptyDir": {}} for name in ("data", "tmp")],
        }
        pods = self.members("bank", spec, date=DATE, rate="10")

        def query(text):
            words = "exec", pods[0], "--", "psql", "-h/tmp", "-Upostgres", "-Atqc"
            return kubectl(*words, text, check=False).stdout.strip()

        now = "select extract(epoch from now())::bigint"
        self.own_time(until(lambda: query(now), "an answer"))
        slept = query(
            "select pg_sleep(5), extract(epoch from clock_timestamp() - now())"
        )
        self.assertGreaterEqual(float(slept.rpartition("|")[2]), 5)
        before = int(query(now))
        change("bank", leaps="30d")
        applied("bank")
        self.assertGreaterEqual(int(query(now)), before + 30 * 24 * HOUR_S)

    def test_08_pods_that_run_already(self):
        script = "while :; do date +%s >/now.new; mv /now.new /now; usleep 100000; done"
        spec = {"containers": [container("a", SHELL, script)]}
        names = [f"late-{number}" for number in range(len(self.nodes))]
        for name, node in zip(names, self.nodes, strict=True):
            apply(member(name, "late", {"nodeName": node, **spec}))
            self.ready(name)
        apply(timeline("late", date=DATE))

        def covered(name):
            events = get("events", f"--field-selector=involvedObject.name={name}")
            return any(one["reason"] == "ClocksAttached" for one in events["items"])

        for name in names:
            until(lambda name=name: covered(name), f"{name} is attached")
        applied("late")
        for name in names:
            self.assertNotIn("runtimeClassName", get("pod", name)["spec"])
            self.own_time(says(name))
            self.own_time(says(name, script="cat /now"))
        change("late", leaps="30d")
        applied("late")
        for name in names:
            self.assertGreater(int(says(name)), DATE_S + 30 * 24 * HOUR_S)
        kubectl("delete", "timeline", "late", "--timeout=60s")
        for name in names:
            self.host_time(name)

    def host_time(self, name, offset_s=0):
        """The clock of a pod is its node's, or so far from it."""
        node = get("pod", name)["spec"]["nodeName"]
        before = int(on_node(node, "date", "+%s"))
        now = int(says(name)) - offset_s
        self.assertTrue(
            before <= now <= int(on_node(node, "date", "+%s")), now - before
        )

    def test_09_time_chaos(self):
        spec = {"containers": [container("a", SHELL, "sleep 1000000000")]}
        self.start("skewed", spec, runtime=None)
        self.ready("skewed")
        chaos = {
            "mode": "all",
            "selector": {"labelSelectors": {"test": "eigentime"}},
            "timeOffset": "1h",
        }
        apply(described(API, "TimeChaos", "skew", chaos))
        words = "--for=condition=AllInjected", "timechaos/skew", "--timeout=60s"
        kubectl("wait", *words)
        self.host_time("skewed", HOUR_S)
        kubectl("delete", "timechaos", "skew", "--timeout=60s")
        self.host_time("skewed")

    def test_10_killed_in_the_middle_of_a_change(self):
        pods = self.sampled("killed", PAUSE)
        made, self.record["killed"] = 0, []
        for name, pattern, is_before in KILLED * KILLS:
            with self.subTest(name):
                made += 1
                if is_before:
                    self.kill(pattern, self.nodes[-1:])
                change("killed", leaps=f"{made}h")
                if not is_before:
                    self.kill(pattern, self.nodes)
                found = until(
                    lambda: reason("killed") in IN_FORCE and reason("killed"),
                    f"the change is made although {name} was killed",
                )
                seen = [leaps(each, made)[-1] for each in (pods[0], pods[-1])]
                at_least, at_most = apart_ns(*seen)
                told = {"killed": name, "reason": found}
                told |= {"at_least_ms": at_least / 1e6, "at_most_ms": at_most / 1e6}
                self.record["killed"].append(told)
                print(told)
                self.assertLessEqual(
                    at_least, MOST_NS if found == "Applied" else BACK_NS
                )
        for each in pods:
            status = get("pod", each)["status"]["containerStatuses"][0]
            self.assertEqual((status["restartCount"], status["ready"]), (0, True))

    def kill(self, pattern, nodes):
        """Kills processes on nodes at once."""
        with ThreadPoolExecutor() as at_once:
            ended = list(at_once.map(lambda node: kill(node, pattern), nodes))
        self.assertTrue(any(ended), pattern)

    def test_11_uninstall(self):
        apply(timeline("stays", date=DATE))
        ended = helm(*UNINSTALL, check=False)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn(
            "Timeline default/stays",
            kubectl("logs", "job/eigentime-uninstall", "-n", NAMESPACE),
        )
        kubectl("delete", "timeline", "stays", "--timeout=60s")
        helm(*UNINSTALL, timeout=420)

    def test_12_nothing_is_left(self):
        self.nothing_is_left()


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast="EIGENTIME_ALL" not in os.environ)
