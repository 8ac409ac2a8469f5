import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Timeline } from "eigentime";

const read = (path) => JSON.parse(readFileSync(path, "utf8"));
const manifest = read("package.json");

// The example in README.md; a test checks that they match.
test("a token expires", async () => {
  const timeline = await Timeline.create({ date: "2038-01-19" });
  const valid = () =>
    timeline.execFile("sh", ["-c", 'test "$(date +%s)" -lt "$(date -d 2038-02-18 +%s)"']).then(
      () => true,
      () => false,
    );
  assert.equal(await valid(), true);
  await timeline.leap("30d");
  assert.equal(await valid(), false);
  await timeline.close();
});

test("the example of the readme", () => {
  const [, example] = readFileSync("README.md", "utf8").match(/```js\n(.*?)```/s);
  assert.ok(readFileSync("test/package.test.js", "utf8").includes(`\n${example}`));
});

test("what is published", () => {
  const packed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { encoding: "utf8" });
  const paths = JSON.parse(packed)[0].files.map(({ path }) => path);
  for (const path of ["README.md", "LICENSE-MIT", "LICENSE-APACHE"]) assert.ok(paths.includes(path), `no ${path}`);
  for (const path of paths) assert.match(path, /^(dist\/.*\.(js|d\.ts)|dist\/cjs\/package\.json|[^/]+)$/);
  for (const entry of Object.values(manifest.exports)) {
    for (const path of typeof entry === "string" ? [entry] : Object.values(entry)) {
      for (const published of [path, path.replace(/js$/, "d.ts")]) {
        assert.ok(paths.includes(published.slice(2)), `no ${published}`);
      }
    }
  }
});

test("the version is that of Eigentime", () => {
  const version = execFileSync(process.env.EIGENTIME || "eigentime", ["--version"], { encoding: "utf8" });
  assert.equal(version, `eigentime ${manifest.version}\n`);
});

test("types", () => {
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--lib", "es2023,esnext.disposable"];
  const words = ["node_modules/.bin/tsc", ...options, "--module", "node16", "test/types.ts"];
  execFileSync("node", words, { stdio: "inherit" });
});

// The licences that deny.toml allows, and others that require only a notice.
const PERMISSIVE = ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "ISC", "MIT", "Unlicense"];
// Packages used only by the kit's tests.
const TESTED_WITH = { "caniuse-lite": "CC-BY-4.0", "type-fest": "(MIT OR CC0-1.0)" };

test("licences", () => {
  assert.equal(manifest.dependencies, undefined, "the package is to need nothing");
  const { "": own, ...packages } = read("package-lock.json").packages;
  assert.equal(own.license, "MIT OR Apache-2.0");
  assert.ok(Object.keys(packages).length > 100);
  for (const [path, { license, optional }] of Object.entries(packages)) {
    if (optional && license === undefined && !existsSync(path)) continue;
    // Old packages have a list.
    const found =
      license ??
      read(`${path}/package.json`)
        .licenses?.map(({ type }) => type)
        .join(" OR ");
    const name = path.replace(/.*node_modules\//, "");
    assert.ok(PERMISSIVE.includes(found) || TESTED_WITH[name] === found, `${name} has the licence ${found}`);
  }
});
