import { type TestAPI, test as base } from "vitest";
import { append, described } from "./fixture.js";
import { Timeline, type TimelineOptions } from "./timeline.js";

/** What tests can ask for. */
export interface Fixtures {
  /** How `timeline` is made; `test.extend({ timelineOptions: { date: "2038-01-19" } })` says it for all tests. */
  timelineOptions: TimelineOptions;
  /** A timeline of the test's own, which ends with it. A failure shows the virtual time. */
  timeline: Timeline;
}

/** The `test` of vitest, with the fixture `timeline`. */
export const test: TestAPI<Fixtures> = base.extend<Fixtures>({
  timelineOptions: {},
  timeline: async ({ timelineOptions, task }, use) => {
    const timeline = await Timeline.create(timelineOptions);
    const before = task.result?.errors?.length ?? 0; // those of other attempts
    try {
      await use(timeline);
      const errors = task.result?.errors?.slice(before) ?? [];
      if (errors.length > 0) {
        const line = await described(timeline);
        for (const error of errors) append(error, line);
      }
    } finally {
      await timeline.close();
    }
  },
});
