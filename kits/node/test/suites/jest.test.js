import { withTimeline } from "eigentime/jest";
import { valid } from "./token.js";

const date = "2038-01-19T00:00:00Z";

test(
  "a token expires",
  withTimeline({ date }, async (timeline) => {
    expect(await valid(timeline)).toBe(true);
    await timeline.leap("30d");
    expect(await valid(timeline)).toBe(false);
  }),
);

test.each([10, 20, 30, 40])(
  "after %i days",
  withTimeline({ date }, async (timeline, days) => {
    await timeline.leap(`${days}d`);
    expect(await valid(timeline)).toBe(days < 30);
  }),
);

if (process.env.FAIL) {
  test(
    "a failure",
    withTimeline({ date: "2039-05-06T00:00:00Z", freeze: true }, async (timeline) => {
      expect(await valid(timeline)).toBe(true);
    }),
  );
  test(
    "an error",
    withTimeline({ date: "2040-07-08T00:00:00Z" }, async (timeline) => {
      await timeline.leap("soon");
    }),
  );
}
