import assert from "node:assert/strict";
import { test } from "node:test";
import { PostgreSqlContainer } from "@testcontainers/postgresql";
import { withTimeline } from "eigentime/node";
import { onTimeline } from "eigentime/testcontainers";
import { GenericContainer, Network, Wait } from "testcontainers";

test(
  "a month passes",
  withTimeline({ date: "2038-01-19", joinable: true }, async (timeline, t) => {
    const shop = await startShop(t, timeline);
    const token = (await shop("/login")).text;
    assert.equal((await shop(`/account?token=${token}`)).status, 200);
    assert.equal((await shop("/jobs")).text, "");

    await timeline.leap("30d");
    await timeline.wait({ idle: true });

    assert.equal((await shop(`/account?token=${token}`)).status, 401);
    assert.equal((await shop("/jobs")).text, "2038-02-18\n");
  }),
);

/** Starts a shop and its database on a timeline; the shop is a function of the requested path. */
async function startShop(t, timeline) {
  const started = [];
  const start = async (container) => {
    started.unshift(await container.start());
    return started[0];
  };
  t.after(async () => {
    for (const container of started) await container.stop();
  });
  const network = await start(new Network());
  const database = new PostgreSqlContainer("postgres").withNetwork(network).withNetworkAliases("database");
  await start(onTimeline(database, timeline));
  const service = new GenericContainer("shop").withNetwork(network).withExposedPorts(8080);
  const shop = await start(onTimeline(service.withWaitStrategy(Wait.forLogMessage("ready")), timeline));
  const address = `http://${shop.getHost()}:${shop.getMappedPort(8080)}`;
  return async (path) => {
    const answer = await fetch(address + path);
    return { status: answer.status, text: await answer.text() };
  };
}
