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

/** Appends a line to the message of an error, also where its stack repeats it. An error that allows no change stays. */
export function append(error: { message: string; stack?: string | undefined }, line: string): void {
  try {
    const { message, stack } = error;
    const value = `${message}\n\n${line}`;
    // Not assigned: that of a DOMException is computed.
    Object.defineProperty(error, "message", { value, configurable: true, writable: true });
    if (stack !== undefined) error.stack = stack.replace(message, () => value);
  } catch {
    // What the test has thrown is told as it is.
  }
}

/**
 * The function of a test that has a timeline of its own, as its first argument; the others are those that the
 * runner gives. The timeline ends with the test, and a failure shows the virtual time.
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
      // Of any realm: jest gives tests one of their own.
      if (types.isNativeError(error)) append(error, await described(timeline));
      // What went wrong before is told.
      await timeline.close().catch(() => {});
      throw error;
    }
    await timeline.close();
  };
}
