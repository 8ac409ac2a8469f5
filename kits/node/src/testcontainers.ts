import type { HostConfig } from "dockerode";
import type { GenericContainer } from "testcontainers";
import { EigentimeError } from "./protocol.js";
import type { Timeline } from "./timeline.js";

/** The name by which `eigentime setup` makes the runtime known to an engine. */
export const RUNTIME = "eigentime";

/** What is protected in a `GenericContainer`, for its subclasses. */
interface Hooks {
  hostConfig: HostConfig & { Annotations?: Record<string, string> };
  beforeContainerCreated?(): Promise<void>;
}

/**
 * Starts a container on a timeline that was made with `joinable`. What else the container is told stays. The
 * engine must know the runtime, and run as the user of the test, since a timeline belongs to a user.
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
    // For engines that pass no annotations, which is to say Docker before 24.
    container.withEnvironment(environment ?? {});
  };
  return container;
}
