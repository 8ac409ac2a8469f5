// What TypeScript makes of the package, in a module that uses it.
import { EigentimeError, Timeline, type TimelineEvent } from "eigentime";
import { withTimeline } from "eigentime/jest";
import { onTimeline } from "eigentime/testcontainers";
import { timeline as fixture } from "eigentime/vitest";
import { GenericContainer, type StartedTestContainer } from "testcontainers";
import { test as base } from "vitest";

async function use(): Promise<StartedTestContainer> {
  await using timeline = await Timeline.create({ date: new Date(), rate: "1/3", skipIdle: true });
  timeline.spawn("cat", [], { stdio: "pipe" }).stdin.end("text");
  timeline.spawn("cat", [], { stdio: "ignore" }).stdin?.end("text");
  const state: "running" | "frozen" | "wall frozen" = (await timeline.leap("30d")).state;
  const printed: string = (await timeline.execFile("date")).stdout;
  for await (const event of timeline.watch({ signal: AbortSignal.timeout(1000) })) {
    const told: TimelineEvent = event;
    console.log(told.now.getTime(), state, printed);
  }
  // @ts-expect-error: there is no such condition.
  await timeline.wait({ idel: true }).catch((error: EigentimeError) => error.code);
  return onTimeline(new GenericContainer("postgres").withReuse(), timeline).start();
}

const test = base.extend({ timeline: fixture({ date: "2038-01-19" }) });
test("fixture", async ({ timeline }) => {
  const now: Date = await timeline.now();
  // @ts-expect-error: milliseconds are a number.
  await timeline.leap(now);
});

const body: (row: number) => Promise<void> = withTimeline({}, async (timeline, row: number) => {
  await timeline.leap(row);
});

export { body, use };
