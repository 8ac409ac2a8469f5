"""Containers of Testcontainers for Python on a timeline.

    >>> from eigentime.testcontainers import on
    >>> with Timeline(date="2038-01-19", joinable=True) as timeline:
    ...     with on(timeline, PostgresContainer("postgres:18")) as database:
    ...         timeline.leap("30d")

The engine must know the runtime eigentime (`eigentime setup docker`) and run as the user of the test,
since a timeline belongs to a user.
"""

from __future__ import annotations

from typing import Any, TypeVar

from testcontainers.core.container import DockerContainer

from eigentime.timeline import Timeline, TimelineError

__all__ = ["RUNTIME", "on"]

RUNTIME = "eigentime"
"""The name under which `eigentime setup` registers the runtime with an engine."""

# The first version of Docker's API that passes annotations to the runtime: that of Docker 24.
_ANNOTATIONS = (1, 43)

Container = TypeVar("Container", bound=DockerContainer)


def on(timeline: Timeline, container: Container) -> Container:
    """The same container, set to start on the timeline, made with `joinable=True`.

    An older Docker passes no annotations. There, the container joins through an environment variable,
    if `eigentime setup docker --trust-environment` allows that.
    """
    if not timeline.show().fields["joinable"]:
        message = f"timeline '{timeline.name}': containers may not join it"
        raise TimelineError("refused", message, "make it with joinable=True")
    join = timeline.info()["join"]
    # Each container has its own client. docker-py supports the runtime, but not annotations.
    api = container.get_docker_client().client.api
    create = api.create_container_from_config

    def create_on_timeline(config: dict[str, Any], *args: Any, **options: Any) -> Any:
        host = config["HostConfig"]
        host["Runtime"] = RUNTIME
        host["Annotations"] = {**(host.get("Annotations") or {}), **join["annotations"]}
        if tuple(map(int, api.api_version.split("."))) < _ANNOTATIONS:
            variables = [f"{name}={value}" for name, value in join["environment"].items()]
            config["Env"] = [*(config["Env"] or []), *variables]
        return create(config, *args, **options)

    api.create_container_from_config = create_on_timeline
    return container
