"""Timelines as objects on a real cluster: agents, controller and webhook, with pods on two nodes. `make
test-kubernetes` runs it after test_cluster.py. The tests run in this order, on one installation.
"""

import os
import statistics
import time
import unittest

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
    says,
    until,
)
from installation import UNINSTALL
from timelines import (
    API,
    IN_FORCE,
    MOST_NS,
    Timelines,
    apart_ns,
    applied,
    change,
    leaps,
    member,
    reason,
    template,
    timeline,
)

POSTGRES = "localhost/eigentime-test-postgres:1"

# How many changes are made to measure their spread.
CHANGES = int(os.environ.get("EIGENTIME_CHANGES", "20"))
# The share of changes that a node may receive too late, on a busy machine.
MOST_LATE = 0.1

VOLUME = "/tmp/eigentime-test-volume"
MONTH_S = 30 * 24 * HOUR_S


class Operator(Timelines):
    """Its pods are on both nodes."""

    def test_01_install(self):
        self.install_all()

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
        # Times when a sampler does not run are uncertain. A late node must say so.
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
        # Its end may be reported before the command's.
        kubectl("exec", pods[0], "--", "kill", "1", check=False)

        def restarted():
            status = get("pod", pods[0])["status"]["containerStatuses"][0]
            return status["restartCount"] == 1 and status["ready"]

        until(restarted, "restart")
        second = int(says(pods[0]))
        self.assertGreater(second, first)
        # Recreated, on another node.
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

    def test_07_languages(self):
        """A static program in Go, a Java virtual machine and Python."""
        for language in images.LANGUAGES:
            with self.subTest(language):
                self.speaks(language)

    def speaks(self, language):
        only = container("a", self.program(language))
        pods = self.members(language, {"containers": [only]}, date=DATE, rate="10")

        def slept(name):
            lines = kubectl("logs", name).splitlines()
            return [tuple(map(int, line.split())) for line in lines]

        show = [*images.LANGUAGES[language].run, "show"]
        for each in pods:
            self.follows(each, language, *show)
            # Two seconds of its own; at the nodes' rate, these would be twenty.
            until(
                lambda each=each: any(it < 10_000 for _, it in slept(each)),
                f"{each} sleeps by its clock",
            )
            self.assertTrue(all(it >= 2000 for _, it in slept(each)), slept(each))
            self.own_time(slept(each)[0][0])
        before = max(slept(each)[-1][0] for each in pods)
        change(language, leaps="30d")
        applied(language)
        for each in pods:
            self.follows(each, language, *show)
            until(
                lambda each=each: slept(each)[-1][0] >= before + MONTH_S,
                f"{each} has leapt",
            )
        self.record[language] = {each: slept(each)[0] for each in pods}

    def test_08_postgres(self):
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

    def attached(self, of):
        """A pod on each node that was running before its timeline existed."""
        script = "while :; do date +%s >/now.new; mv /now.new /now; usleep 100000; done"
        spec = {"containers": [container("a", SHELL, script)]}
        names = [f"{of}-{number}" for number in range(len(self.nodes))]
        for name, node in zip(names, self.nodes, strict=True):
            apply(member(name, of, {"nodeName": node, **spec}))
            self.ready(name)
        apply(timeline(of, date=DATE))

        def covered(name):
            events = get("events", f"--field-selector=involvedObject.name={name}")
            return any(one["reason"] == "ClocksAttached" for one in events["items"])

        for name in names:
            until(lambda name=name: covered(name), f"{name} is attached")
        applied(of)
        until(
            lambda: get("timeline", of)["status"].get("uncovered") == 0,
            "all processes are covered",
        )
        return names

    def test_09_pods_that_run_already(self):
        names = self.attached("late")
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

    def test_10_time_chaos(self):
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

    def test_11_uninstall(self):
        """Attached pods keep running, on the nodes' clocks."""
        names = self.attached("stays")
        ended = helm(*UNINSTALL, check=False)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn(
            "Timeline default/stays",
            kubectl("logs", "job/eigentime-uninstall", "-n", NAMESPACE),
        )
        kubectl("delete", "timeline", "stays", "--timeout=60s")
        helm(*UNINSTALL, timeout=420)
        self.files_are_as_before()
        for name in names:
            status = get("pod", name)["status"]["containerStatuses"][0]
            self.assertEqual((status["restartCount"], status["ready"]), (0, True))
            self.host_time(name)
            # What the attached program itself has written.
            now = int(on_node(get("pod", name)["spec"]["nodeName"], "date", "+%s"))
            until(
                lambda name=name, now=now: (
                    now <= int(says(name, script="cat /now")) < now + HOUR_S
                ),
                f"{name} runs on",
            )

    def test_12_nothing_is_left(self):
        self.nothing_is_left()


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast="EIGENTIME_ALL" not in os.environ)
