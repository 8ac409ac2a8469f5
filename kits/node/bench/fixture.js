// How long it takes to make and close a timeline, alternating with the two commands that do so.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Timeline } from "eigentime";

const ROUNDS = 100;
const taken = { "set-up": [], "tear-down": [], "ctl create and ctl rm": [] };
const command = (words) => promisify(execFile)(process.env.EIGENTIME || "eigentime", words);

async function timed(name, action) {
  const begin = performance.now();
  const result = await action();
  taken[name].push(performance.now() - begin);
  return result;
}

for (let round = 0; round < ROUNDS; round++) {
  const timeline = await timed("set-up", () => Timeline.create());
  await timed("tear-down", () => timeline.close());
  await timed("ctl create and ctl rm", async () => {
    for (const words of [["create"], ["rm", "--force"]]) await command(["ctl", ...words, `bench-${process.pid}`]);
  });
}
for (const [name, times] of Object.entries(taken)) {
  times.sort((one, other) => one - other);
  const [least, median] = [0, ROUNDS / 2].map((index) => times[index].toFixed(1));
  console.log(`${name}: median ${median} ms, minimum ${least} ms, of ${ROUNDS}`);
}
