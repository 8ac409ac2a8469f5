"""A cluster, controlled by kubectl and helm, and by the two commands that a test is given."""

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
LABEL = "eigentime.io/runtime"

# 19 January 2038, 03:14:07, the date of all pods in the tests.
DATE, DATE_S = "2038-01-19T03:14:07Z", 2147483647
HOUR_S = 3600

SHELL = "localhost/eigentime-test-shell:1"

# Files of a node that are not part of the installation: left by containers, pods and logs.
ELSEWHERE = [
    *("/proc", "/sys", "/dev", "/tmp", "/usr", "/var/log"),
    *(f"/var/lib/{name}" for name in ("containerd", "kubelet", "cni", "etcd")),
    *(
        f"/run/{name}"
        for name in ("containerd", "netns", "utsns", "ipcns", "cni", "flannel", "udev")
    ),
    *os.environ.get("EIGENTIME_ELSEWHERE", "").split(),
]

# How long an operation may take on a busy machine.
PATIENCE_S = 180


def tool(name):
    """The path of a program, if it is installed."""
    return shutil.which(name, path=f"{TOOLS}:{os.environ['PATH']}")


def run(command, text=None, check=True, timeout=PATIENCE_S):
    """Runs a command and returns what it prints."""
    command = [str(word) for word in command]
    ended = subprocess.run(
        command,
        check=False,
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
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


def processes(node, pattern):
    """The processes of a node whose command line begins like this."""
    script = f"pgrep -f '^{pattern}' || test $? = 1"
    return on_node(node, "sh", "-c", script).split()


def load_image(archive):
    """Loads an image onto all nodes."""
    run([*shlex.split(os.environ["EIGENTIME_LOAD_IMAGE"]), archive])


def until(condition, what):
    """Waits until a condition holds, and returns its value."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not after {PATIENCE_S} s: {what}")
        time.sleep(0.2)


def described(version, kind, name, spec):
    """An object of the tests."""
    metadata = {"name": name, "labels": {"test": "eigentime"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def pod(name, spec, annotations=None, runtime="eigentime"):
    """A pod with its own time, or one without."""
    spec = {"terminationGracePeriodSeconds": 0, **spec}
    if runtime:
        spec["runtimeClassName"] = runtime
    made = described("v1", "Pod", name, spec)
    made["metadata"]["annotations"] = annotations or {}
    return made


def container(name, image, script=None, **more):
    command = {"command": ["sh", "-c", script]} if script else {}
    return {"name": name, "image": image, "imagePullPolicy": "Never", **command, **more}


def phase(name):
    return get("pod", name)["status"].get("phase")


def built_image():
    """The archive that `make image` has written, which keeps no other version."""
    archives = list((WORKSPACE / "build/packages").glob("eigentime-cluster-*-oci.tar"))
    if len(archives) != 1:
        raise FileNotFoundError(
            f"{len(archives)} images for clusters in build/packages: run 'make image'"
        )
    return archives[0]


def files_of(node):
    """All files of a node, with a checksum of their contents."""
    # find fails if a file vanishes while it runs.
    pruned = " -o ".join(f"-path {path}" for path in ELSEWHERE)
    script = (
        f"find / /etc /run /usr/local -xdev \\( {pruned} \\) -prune -o "
        "\\( -type f -exec cksum {} + , ! -type f -printf '%p %y %l\\n' \\) 2>/dev/null || test $? = 1"
    )
    return set(on_node(node, "sh", "-c", script).splitlines())


def objects():
    """All objects of the cluster except short-lived ones."""
    fleeting = {"events", "leases", "endpointslices", "componentstatuses"}
    found = set()
    for namespaced in "true", "false":
        words = (
            "api-resources",
            "--verbs=list",
            f"--namespaced={namespaced}",
            "-o",
            "name",
        )
        kinds = [
            kind
            for kind in kubectl(*words).split()
            if kind.split(".")[0] not in fleeting
        ]
        found |= set(kubectl("get", ",".join(kinds), "-A", "-o", "name").split())
    return found


def says(name, container_name=None, script="date +%s"):
    """The output of a command in a pod."""
    chosen = ["-c", container_name] if container_name else []
    return kubectl("exec", name, *chosen, "--", "sh", "-c", script).strip()


def rollout(what):
    """Restarts the installer on all nodes, or waits until it has succeeded on all of them."""
    kubectl(
        "rollout", what, "daemonset/eigentime-installer", "-n", NAMESPACE, timeout=400
    )
