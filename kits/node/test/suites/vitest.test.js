import { timeline } from "eigentime/vitest";
import { test as base, describe, expect } from "vitest";
import { valid } from "./token.js";

const test = base.extend({
  timeline: timeline({ date: "2038-01-19T00:00:00Z" }),
  present: timeline(),
});

test("a token expires", async ({ timeline }) => {
  expect(await valid(timeline)).toBe(true);
  await timeline.leap("30d");
  expect(await valid(timeline)).toBe(false);
});

test("two timelines", async ({ timeline, present }) => {
  expect(Math.abs((await present.now()) - Date.now())).toBeLessThan(60_000);
  expect((await timeline.now()).getFullYear()).toBe(2038);
});

describe.concurrent("tests beside each other", () => {
  for (const days of [10, 20, 30, 40]) {
    test(`after ${days} days`, async ({ timeline, expect }) => {
      await timeline.leap(`${days}d`);
      expect(await valid(timeline)).toBe(days < 30);
    });
  }
});

test("no timeline, if none is asked for", ({ task }) => {
  expect(task.name).toMatch(/no timeline/);
});

test.runIf(process.env.FAIL)("a failure", async ({ timeline }) => {
  await timeline.freeze();
  await timeline.set({ date: "2039-05-06T00:00:00Z" });
  expect(await valid(timeline)).toBe(true);
});

test.runIf(process.env.FAIL)("a test that takes too long", { timeout: 500 }, async ({ timeline }) => {
  await timeline.set({ date: "2040-07-08T00:00:00Z" });
  await timeline.wait({ ended: true });
});
