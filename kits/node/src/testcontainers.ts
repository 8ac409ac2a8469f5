import type { HostConfig } from "dockerode";
import { type GenericContainer, getContainerRuntimeClient, type StartedTestContainer } from "testcontainers";
import { EigentimeError } from "./protocol.js";
import type { Timeline } from "./timeline.js";

/** The name under which `eigentime setup` registers the runtime with an engine. */
export const RUNTIME = "eigentime";

/** Protected members of `GenericContainer`, for its subclasses. */
interface Hooks {
  hostConfig: HostConfig & { Annotations?: Record<string, string> };
  beforeContainerCreated?(): Promise<void>;
  containerStarted?(container: StartedTestContainer, ...more: unknown[]): Promise<void>;
}

/**
 * Starts a container on a timeline that was made with `joinable`. Other settings of the container are kept. The
 * engine must know the runtime and run as the user of the test, since a timeline belongs to a user.
 */
export function onTimeline<Container extends GenericContainer>(container: Container, timeline: Timeline): Container {
  const hooks = container as unknown as Hooks;
  const before = hooks.beforeContainerCreated?.bind(container);
  hooks.beforeContainerCreated = async () => {
    await before?.();
    const { joinable } = await timeline.show();
    if (!joinable) {
      const message = `timeline '${timeline.name}': containers may not join it`;
      throw new EigentimeError("refused", message, "make it with { joinable: true }");
    }
    const { annotations, environment } = (await timeline.info()).join;
    hooks.hostConfig.Runtime = RUNTIME;
    hooks.hostConfig.Annotations = { ...hooks.hostConfig.Annotations, ...annotations };
    // For engines that pass no annotations: Docker before 24.
    container.withEnvironment(environment ?? {});
  };
  const after = hooks.containerStarted?.bind(container);
  hooks.containerStarted = async (started, ...more) => {
    await after?.(started, ...more);
    await checked(started, timeline);
  };
  return container;
}

/** Ends a container whose engine did not pass on the timeline: it would run on the host's clocks. */
async function checked(started: StartedTestContainer, timeline: Timeline): Promise<void> {
  const id = started.getId();
  if ((await timeline.show()).containers.some((joined) => joined.id === id)) return;
  const { container } = await getContainerRuntimeClient();
  // A container that has ended is no longer on any timeline.
  if (!(await container.inspect(container.getById(id))).State.Running) return;
  await started.stop();
  throw new EigentimeError(
    "refused",
    `container ${id.slice(0, 12)} was started, and is not on timeline '${timeline.name}'`,
    "use Docker 24 or later, or set the engine up with `eigentime setup docker --trust-environment`",
  );
}
