"""Timelines as objects: helpers for their tests."""

import json
import time
from calendar import timegm
from fractions import Fraction

import images
from cluster import (
    DATE,
    HOUR_S,
    NAMESPACE,
    apply,
    container,
    described,
    get,
    kubectl,
    load_image,
    on_node,
    pod,
    says,
    tool,
    until,
)
from installation import Installation

SAMPLER = "localhost/eigentime-test-sampler:1"

# How much nodes may differ.
MOST_NS = 1_000_000
# How long a sampler sleeps between two readings, where that need not be precise.
PAUSE = "1ms"
# Makes a sampler print what its clock shows.
SHOW = "/program", "show"
# The reasons for a change that is in effect.
IN_FORCE = "Applied", "CaughtUp"

API = "eigentime.io/v1alpha1"

HOUR_NS = HOUR_S * 1_000_000_000

# What the tests create: of the chart's kinds, and of others.
KINDS = "timelines", "timechaos"
MADE = (
    *("statefulsets", "cronjobs", "jobs", "pods"),
    *("persistentvolumeclaims", "persistentvolumes"),
)


def timeline(name, **spec):
    """A timeline for the pods labelled with its name."""
    spec = {"selector": {"matchLabels": {"timeline": name}}, **spec}
    return described(API, "Timeline", name, spec)


def member(name, of, spec, runtime=None):
    """A pod that a timeline selects."""
    made = pod(name, spec, runtime=runtime)
    made["metadata"]["labels"]["timeline"] = of
    return made


def template(of, spec):
    """The template from which a controller creates pods."""
    made = member("any", of, spec)
    labels = made["metadata"]["labels"]
    return {"metadata": {"labels": labels}, "spec": made["spec"]}


def change(name, **spec):
    kubectl("patch", "timeline", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def applied(name, timeout="120s"):
    words = "--for=condition=Applied", f"timeline/{name}", f"--timeout={timeout}"
    kubectl("wait", *words)


def reason(name):
    """Why the condition holds or not, for the current spec."""
    # The API server may be away.
    text = kubectl("get", "timeline", name, "-o", "json", check=False).stdout
    found = json.loads(text or "{}")
    for one in found.get("status", {}).get("conditions", []):
        is_now = one["observedGeneration"] == found["metadata"]["generation"]
        if one["type"] == "Applied" and is_now:
            return one["reason"]
    return None


def lines(name):
    """The leaps that a sampler has seen: between which readings of its clock, and of how many hours."""
    # The kubelet or the container engine may be unavailable, and says so here.
    told = kubectl("logs", name, check=False).stdout.splitlines()
    seen = [tuple(map(int, line.split())) for line in told if line[0].isdigit()]
    return [(last, first, round((first - last) / HOUR_NS)) for last, first in seen]


def leaps(name, hours):
    """The leaps that a sampler has seen, less the leap itself, once they add up to this many hours."""

    def told():
        seen = lines(name)
        return sum(it for _, _, it in seen) == hours and seen

    seen = until(told, f"{name} leaps by {hours} h")
    return [(last, first - length * HOUR_NS) for last, first, length in seen]


def apart_ns(one, other):
    """The least and the greatest difference of two instants, each of which is between two others."""
    at_least = max(one[0], other[0]) - min(one[1], other[1])
    return max(0, at_least), max(one[1], other[1]) - min(one[0], other[0])


def instant_ns(text):
    """Parses an instant as objects write it, into nanoseconds since 1970."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    parsed = time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")
    return timegm(parsed) * 1_000_000_000 + int(fraction.ljust(9, "0"))


def now_ns(node):
    """What the clock of a node shows."""
    return int(on_node(node, "date", "+%s%N"))


def expected_ns(agreed, host_ns):
    """What a timeline shows at an instant of its node, according to a map."""
    since = host_ns - instant_ns(agreed["hostTime"])
    rate = 0 if agreed["frozen"] else Fraction(agreed["rate"])
    return instant_ns(agreed["virtualTime"]) + int(since * rate)


class Timelines(Installation):
    """An installation with timelines as objects."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.values += ["--set", "timelines.enabled=true"]

    @classmethod
    def clear(cls):
        # The definitions are gone after uninstalling.
        there = kubectl("get", "crd", "-o", "name")
        own = KINDS if "timelines.eigentime.io" in there else ()
        kubectl("delete", ",".join([*own, *MADE]), "-l", "test=eigentime", "--now")

    def members(self, name, spec, **settings):
        """A timeline with a pod on each node."""
        apply(timeline(name, **settings))
        # The webhook may receive it later than the controller: pods that it misses would be attached.
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

    def install_all(self):
        """Installs, and waits until all parts are there."""
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

    def host_time(self, name, offset_s=0):
        """The clock of a pod is its node's, or differs from it by this much."""
        node = get("pod", name)["spec"]["nodeName"]
        before = int(on_node(node, "date", "+%s"))
        now = int(says(name)) - offset_s
        self.assertTrue(
            before <= now <= int(on_node(node, "date", "+%s")), now - before
        )

    def follows(self, name, of, *command):
        """The clock of a pod shows what its timeline's map says; a command prints it in nanoseconds."""
        node = get("pod", name)["spec"]["nodeName"]
        agreed = get("timeline", of)["status"]["map"]
        before = now_ns(node)
        shown = int(kubectl("exec", name, "--", *command))
        bounds = expected_ns(agreed, before), expected_ns(agreed, now_ns(node))
        self.assertTrue(bounds[0] <= shown <= bounds[1], (name, shown, bounds))
