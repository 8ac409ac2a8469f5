// Runs the test runners on the suites in suites/.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

/** Runs a command of a package and returns its status and output. */
function run(words, environment = {}) {
  const env = { ...process.env, NO_COLOR: "1", CI: "true", ...environment };
  // Otherwise, a run of node:test inside another reports to the outer one.
  delete env.NODE_TEST_CONTEXT;
  const { status, stdout, stderr } = spawnSync(words[0], words.slice(1), { env, encoding: "utf8" });
  return { status, printed: stdout + stderr };
}

const vitest = ["node_modules/.bin/vitest", "run", "--root=test/suites", "vitest.test.js"];
const jest = ["node", "--experimental-vm-modules", "node_modules/jest/bin/jest.js", "--rootDir=test/suites", "--ci"];
const modules = [...jest, "--testMatch=**/jest.test.js", "--transform={}"];
const commonJs = ["node", "node_modules/jest/bin/jest.js", "--rootDir=test/suites", "--testMatch=**/jest.test.cjs"];

for (const [name, words, count] of [
  ["vitest", vitest, /Tests +7 passed \| 2 skipped/],
  ["jest", modules, /Tests: +5 passed, 5 total/],
  ["jest with CommonJS", commonJs, /Tests: +1 passed, 1 total/],
]) {
  test(`${name} has timelines`, () => {
    const { status, printed } = run(words);
    assert.equal(status, 0, printed);
    assert.match(printed, count);
  });
}

const frozen = /virtual time: 2039-05-06T00:00:00\.000Z \(frozen, rate 1\)/;
const running = /virtual time: 2040-07-08T00:0\d:\d\d\.\d\d\dZ \(running, rate 1\)/;

for (const [name, words, ...shown] of [
  ["vitest", vitest, frozen, running],
  ["jest", modules, frozen, running],
  ["node:test", ["node", "--test", "test/suites/node.test.js"], frozen],
]) {
  test(`${name} shows the virtual time of a failure`, () => {
    const { status, printed } = run(words, { FAIL: "yes" });
    assert.equal(status, 1, printed);
    for (const pattern of shown) assert.match(printed, pattern);
  });
}
