const { EigentimeError, Timeline } = require("eigentime");
const { withTimeline } = require("eigentime/jest");

test(
  "packages that are CommonJS",
  withTimeline({ date: "2038-01-19T00:00:00Z" }, async (timeline) => {
    expect(timeline).toBeInstanceOf(Timeline);
    await expect(timeline.leap("soon")).rejects.toThrow(EigentimeError);
    expect((await timeline.execFile("date", ["-u", "+%F"])).stdout).toBe("2038-01-19\n");
  }),
);
