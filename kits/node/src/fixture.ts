import { types } from "node:util";
import { Timeline, type TimelineOptions } from "./timeline.js";

/** The virtual time, for reports of failures. */
export async function described(timeline: Timeline): Promise<string> {
  try {
    const { now, state, rate } = await timeline.show();
    return `virtual time: ${now.toISOString()} (${state}, rate ${rate})`;
  } catch (error) {
    return `virtual time: unknown (${(error as Error).message})`;
  }
}

/** Appends a line to an error's message, and to its copy in the stack. Leaves an error that allows no change. */
export function append(error: { message: string; stack?: string | undefined }, line: string): void {
  try {
    const { message, stack } = error;
    const value = `${message}\n\n${line}`;
    // Not assigned: a DOMException's message is computed.
    Object.defineProperty(error, "message", { value, configurable: true, writable: true });
    if (stack !== undefined) error.stack = stack.replace(message, () => value);
  } catch {
    // What the test has thrown is reported unchanged.
  }
}

/**
 * Returns the function of a test whose first argument is its own timeline, followed by the arguments of the
 * runner. The timeline ends with the test, and a failure shows the virtual time.
 */
export function withTimeline<Given extends unknown[]>(
  options: TimelineOptions,
  body: (timeline: Timeline, ...given: Given) => unknown,
): (...given: Given) => Promise<void> {
  // Without declared parameters: runners take those for callbacks.
  return async (...given) => {
    const timeline = await Timeline.create(options);
    try {
      await body(timeline, ...given);
    } catch (error) {
      // Of any realm: jest gives tests their own.
      if (types.isNativeError(error)) append(error, await described(timeline));
      // The earlier error is reported.
      await timeline.close().catch(() => {});
      throw error;
    }
    await timeline.close();
  };
}
