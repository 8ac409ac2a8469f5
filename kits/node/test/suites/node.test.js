import assert from "node:assert/strict";
import { test } from "node:test";
import { withTimeline } from "eigentime/node";
import { valid } from "./token.js";

test(
  "a failure",
  withTimeline({ date: "2039-05-06T00:00:00Z", freeze: true }, async (timeline, t) => {
    assert.equal(t.name, "a failure");
    assert.equal(await valid(timeline), true);
  }),
);
