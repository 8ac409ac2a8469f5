import type { TestContext } from "vitest";
import { append, described } from "./fixture.js";
import { Timeline, type TimelineOptions } from "./timeline.js";

/**
 * A fixture for `test.extend` of vitest: a timeline for each test, which ends with it. A failure shows the
 * virtual time.
 */
export function timeline(options: TimelineOptions = {}) {
  // Vitest reads the source text of the parameters.
  return async ({ task }: TestContext, use: (timeline: Timeline) => Promise<void>): Promise<void> => {
    const made = await Timeline.create(options);
    const before = task.result?.errors?.length ?? 0; // from earlier attempts
    try {
      await use(made);
      const errors = task.result?.errors?.slice(before) ?? [];
      if (errors.length > 0) {
        const line = await described(made);
        for (const error of errors) append(error, line);
      }
    } finally {
      await made.close();
    }
  };
}
