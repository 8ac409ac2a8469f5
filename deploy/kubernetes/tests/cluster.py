"""A cluster, by kubectl and helm, and by the two commands that a test is told of."""

import json
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parents[3]
CHART = WORKSPACE / "deploy/kubernetes/chart"
TOOLS = WORKSPACE / "build/kubernetes"

NAMESPACE = "eigentime"

# How long something may take on a busy machine.
PATIENCE_S = 180


def tool(name):
    """Where a program is, if it is installed."""
    return shutil.which(name, path=f"{TOOLS}:{os.environ['PATH']}")


def run(command, text=None, check=True, timeout=PATIENCE_S):
    """Runs a command; what it prints."""
    command = [str(word) for word in command]
    ended = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=timeout
    )
    if check and ended.returncode != 0:
        raise AssertionError(
            f"{shlex.join(command)}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
        )
    return ended.stdout if check else ended


def kubectl(*words, **options):
    return run(["kubectl", *words], **options)


def helm(*words, **options):
    return run([tool("helm"), "--namespace", NAMESPACE, *words], **options)


def get(*words):
    return json.loads(kubectl("get", *words, "-o", "json"))


def apply(*objects):
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    kubectl("apply", "-f", "-", text=json.dumps(listed))


def nodes():
    return [node["metadata"]["name"] for node in get("nodes")["items"]]


def on_node(node, *command):
    """Runs a command on a node."""
    return run([*shlex.split(os.environ["EIGENTIME_NODE"]), node, *command])


def load_image(archive):
    """Lets all nodes have an image."""
    run([*shlex.split(os.environ["EIGENTIME_LOAD_IMAGE"]), archive])


def until(condition, what):
    """Waits until a condition holds, and returns what it returns."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not after {PATIENCE_S} s: {what}")
        time.sleep(0.2)


def pod(name, spec, annotations=None, runtime="eigentime"):
    """A pod with its own time, or one without."""
    spec = {"terminationGracePeriodSeconds": 0, **spec}
    if runtime:
        spec["runtimeClassName"] = runtime
    metadata = {
        "name": name,
        "labels": {"test": "eigentime"},
        "annotations": annotations or {},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(name, image, script=None, **more):
    command = {"command": ["sh", "-c", script]} if script else {}
    return {"name": name, "image": image, "imagePullPolicy": "Never", **command, **more}


def phase(name):
    return get("pod", name)["status"].get("phase")
