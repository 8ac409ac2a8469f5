// Waits by the usual means of Node; `clocks.js MS` makes every wait last MS
// milliseconds.
'use strict';

const { performance } = require('perf_hooks');
const timers = require('timers/promises');

// Prints when a wait starts and ends, and how long it took on three clocks.
async function measure(name, wanted, wait) {
  console.log(`${name} begin`);
  const start = performance.now();
  const high = process.hrtime.bigint();
  const wall = Date.now();
  await wait();
  const mono = performance.now() - start;
  const highResolution = Number(process.hrtime.bigint() - high) / 1e6;
  console.log(
    `${name} end wanted_ms=${wanted} mono_ms=${mono.toFixed(3)}` +
      ` hrtime_ms=${highResolution.toFixed(3)} wall_ms=${Date.now() - wall}`,
  );
}

function ticks(count, every) {
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      count -= 1;
      if (count === 0) {
        clearInterval(timer);
        resolve();
      }
    }, every);
  });
}

async function main(wanted) {
  console.log(`date=${Math.floor(Date.now() / 1000)}`);
  await measure('timeout', wanted, () => timers.setTimeout(wanted));
  await measure('interval', wanted, () => ticks(4, wanted / 4));
  await measure('atomics', wanted, () => {
    const shared = new Int32Array(new SharedArrayBuffer(4));
    Atomics.wait(shared, 0, 0, wanted);
  });
}

main(Number(process.argv[2]));
