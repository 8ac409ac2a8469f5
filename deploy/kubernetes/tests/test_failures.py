"""Failures on a real cluster while timelines change: processes are killed, and a node disappears. `make
test-kubernetes` runs it after test_operator.py. The tests run in this order, on one installation.
"""

import os
import shlex
import unittest
from concurrent.futures import ThreadPoolExecutor

from cluster import get, helm, on_node, run, until
from installation import UNINSTALL
from timelines import (
    IN_FORCE,
    MOST_NS,
    PAUSE,
    SHOW,
    Timelines,
    apart_ns,
    change,
    instant_ns,
    leaps,
    lines,
    now_ns,
    reason,
)

# How often each process is killed in the middle of a change.
KILLS = int(os.environ.get("EIGENTIME_KILLS", "2"))
# By how much nodes may differ if one has been late and says so: if its agent was killed before it received the
# change, until the kubelet has restarted it.
BACK_NS = 60_000_000_000
# What is killed, by the beginning of its command line; before the change on one node, or during it on all.
KILLED = (
    ("agent", "/eigentime-operator agent", False),
    ("agent before", "/eigentime-operator agent", True),
    ("controller", "/eigentime-operator .*controller", False),
    ("kubelet", "([^ ]*/)?kubelet ", False),
    ("containerd", "([^ ]*/)?containerd( |$)", False),
    ("API server", "([^ ]*/)?kube-apiserver ", False),
)
# Disconnects a node from the network or reconnects it.
LINK = os.environ.get("EIGENTIME_LINK")
# How soon its clocks are right after reconnecting: the bound that docs/kubernetes/timelines.md states.
BOUND_NS = 30_000_000_000


def kill(node, pattern):
    """Kills the processes of a node whose command line begins like this; returns which."""
    script = f"pids=$(pgrep -f '^{pattern}') && kill -9 $pids; echo $pids"
    return on_node(node, "sh", "-c", script).split()


def crash(node):
    """Kills all processes that make up Kubernetes, its pods and timelines on a node, at once."""
    services = "^([^ ]*/)?(kube[^ ]*|containerd[^ ]*|eigentime)( |$)"
    script = (
        "pids=$(grep -l kubepods /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3; "
        f"pgrep -f '{services}') && kill -9 $pids 2>/dev/null; echo $pids"
    )
    return on_node(node, "sh", "-c", script).split()


def link(node, state):
    """Disconnects a node from the network (down) or reconnects it (up)."""
    run([*shlex.split(LINK), node, state])


def of_node(timeline, node):
    """A node's entry in the status of a timeline."""
    found = {it["name"]: it for it in timeline["status"]["nodes"]}
    return found[node]


class Failures(Timelines):
    """Its nodes and processes recover by themselves, but not the network."""

    def test_01_install(self):
        self.install_all()

    def test_02_killed_in_the_middle_of_a_change(self):
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
        """Kills processes on several nodes at once."""
        with ThreadPoolExecutor() as at_once:
            ended = list(at_once.map(lambda node: kill(node, pattern), nodes))
        self.assertTrue(any(ended), pattern)

    def test_03_a_node_off_the_network(self):
        if not LINK:
            self.skipTest("needs EIGENTIME_LINK")
        pods = self.sampled("away", PAUSE)
        node, other = self.nodes[-1], self.nodes[0]
        self.addCleanup(link, node, "up")
        made, self.record["away"] = 0, []
        for is_before in True, False:
            with self.subTest(before=is_before):
                began = now_ns(other)
                if is_before:
                    link(node, "down")
                change("away", leaps=f"{made + 1}h")
                if not is_before:
                    link(node, "down")
                until(lambda: reason("away") == "NoAgent", f"{node} is missed")
                found = get("timeline", "away")
                missed = of_node(found, node)
                self.assertEqual(missed["state"], "NoAgent")
                self.assertIn(of_node(found, other)["state"], IN_FORCE)
                since = instant_ns(missed["lastReport"])
                self.assertTrue(began - BOUND_NS < since < now_ns(other), missed)
                told = [it["message"] for it in found["status"]["conditions"]]
                self.assertIn(f"{node} since {missed['lastReport']}", told[0])
                # The other continues.
                change("away", leaps=f"{made + 2}h")
                made += 2
                leaps(pods[0], made)
                self.assertEqual(reason("away"), "NoAgent")
                link(node, "up")
                back = now_ns(node)
                self.comes_back("away", pods, node, back)
                off = {"before": is_before, "off_s": (back - began) / 1e9}
                self.record["away"][-1] |= off

    def comes_back(self, name, pods, node, back_ns):
        """A node catches up soon after it is back, and its pods show what the others show."""
        until(lambda: reason(name) in IN_FORCE, f"{node} is caught up")
        found = get("timeline", name)
        late = get("timelinenodes", node)["spec"]["timelines"]
        late = next(it for it in late if it["uid"] == found["metadata"]["uid"])
        instant = instant_ns(found["status"]["map"]["hostTime"])
        after = instant + late.get("lateNs", 0) - back_ns
        told = {"reason": reason(name), "after_back_s": after / 1e9}
        told["late_s"] = late.get("lateNs", 0) / 1e9
        print(told)
        self.record[name].append(told)
        for each in pods:
            self.follows(each, name, *SHOW)
        self.assertLessEqual(after, BOUND_NS)

    def test_04_a_node_that_crashes(self):
        pods = self.sampled("crash", PAUSE)
        node, self.record["crash"] = self.nodes[-1], []

        def container_of(name):
            status = get("pod", name)["status"]["containerStatuses"][0]
            return status["ready"] and status["containerID"]

        before = container_of(pods[-1])
        change("crash", leaps="1h")
        self.assertTrue(crash(node))
        back = now_ns(node)
        until(
            lambda: container_of(pods[-1]) not in (False, before),
            f"{pods[-1]} is started again",
        )
        self.comes_back("crash", pods, node, back)
        # Restarted containers never had another time: they see the leap with the others, or not at all.
        seen = leaps(pods[0], 1)
        again = leaps(pods[-1], 1) if lines(pods[-1]) else seen
        self.assertLessEqual(apart_ns(again[0], seen[0])[0], MOST_NS)

    def test_05_nothing_is_left(self):
        helm(*UNINSTALL, timeout=420)
        self.nothing_is_left()


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast="EIGENTIME_ALL" not in os.environ)
