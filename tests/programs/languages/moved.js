// Keeps running while it is moved between timelines: see moved.c.
"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const readline = require("node:readline");
const { Worker, isMainThread, workerData } = require("node:worker_threads");

const PAUSE_MS = 20;
const [BACK, FAILED, LOOPS] = [0, 1, 2];

// console.log() of a worker waits for the main thread.
const say = (line) => fs.writeSync(1, `${line}\n`);

const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

function live(seen) {
  for (let last = process.hrtime.bigint(); ; Atomics.add(seen, LOOPS, 1)) {
    const next = process.hrtime.bigint();
    if (next < last) Atomics.add(seen, BACK, 1);
    last = next;
    if (sleep(PAUSE_MS) !== "timed-out") Atomics.add(seen, FAILED, 1);
  }
}

function startThread(data) {
  return new Promise((resolve) => new Worker(__filename, { workerData: data }).on("exit", resolve));
}

function startChild(script, ms) {
  const child = spawn("sh", [script, String(ms / 1e3)], { stdio: ["ignore", "inherit", "inherit"] });
  return new Promise((resolve) => child.on("close", resolve));
}

async function main() {
  const seen = new Int32Array(new SharedArrayBuffer(12));
  for (let i = Number(process.argv[2]); i > 0; i--) startThread({ seen });
  say("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const ms = Number(line);
    say(`date=${Date.now() / 1e3}`);
    say(`back=${seen[BACK]}`);
    say(`failed=${seen[FAILED]}`);
    say(`loops=${seen[LOOPS]}`);
    say("old begin");
    await new Promise((resolve) => setTimeout(resolve, ms));
    say("old end");
    await startThread({ ms });
    if ((await startChild(process.argv[3], ms)) !== 0) throw new Error("the child failed");
    say("done");
  }
  process.exit(7);
}

if (isMainThread) {
  main();
} else if (workerData.seen) {
  live(workerData.seen);
} else {
  say("new begin");
  sleep(workerData.ms);
  say("new end");
}
