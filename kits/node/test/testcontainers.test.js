import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Timeline } from "eigentime";
import { withTimeline } from "eigentime/node";
import { onTimeline } from "eigentime/testcontainers";
import { GenericContainer } from "testcontainers";

/** A container that exposes what its engine would be told. */
class Told extends GenericContainer {
  async told() {
    await this.beforeContainerCreated();
    return { host: this.hostConfig, environment: this.createOpts.Env };
  }
}

/** Like modules of testcontainers: the hook completes the settings. */
class Database extends Told {
  async beforeContainerCreated() {
    this.hostConfig.Annotations = { before: "yes" };
    this.withEnvironment({ POSTGRES_USER: "test" });
  }
}

test("an engine is told of the timeline, and of everything else", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "kit-"));
  process.env.EIGENTIME_RUNTIME_DIR = directory;
  const timeline = await Timeline.create({ joinable: true });
  t.after(async () => {
    await timeline.close();
    delete process.env.EIGENTIME_RUNTIME_DIR;
    rmSync(directory, { recursive: true });
  });
  const { host, environment } = await onTimeline(new Database("postgres"), timeline)
    .withSharedMemorySize(1 << 20)
    .told();
  assert.equal(host.Runtime, "eigentime");
  const { join: by } = await timeline.info();
  assert.deepEqual(host.Annotations, { before: "yes", ...by.annotations });
  assert.equal(host.Annotations["io.eigentime.timeline"], timeline.name);
  for (const [name, value] of Object.entries(by.environment ?? {})) assert.ok(environment.includes(`${name}=${value}`));
  assert.equal(host.ShmSize, 1 << 20);
  assert.ok(environment.includes("POSTGRES_USER=test"));
  assert.equal((await onTimeline(new Told("postgres"), timeline).told()).host.Runtime, "eigentime");
});

test(
  "a timeline that containers may not join",
  withTimeline({}, async (timeline) => {
    const told = onTimeline(new Told("postgres"), timeline).told();
    await assert.rejects(told, { code: "refused", help: "make it with { joinable: true }" });
  }),
);
