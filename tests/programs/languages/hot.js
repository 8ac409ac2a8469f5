// The same waits repeatedly, in many threads, while code is compiled and discarded.
//
//   hot.js THREADS MS
//
// THREADS workers make waits that end by themselves, and functions from new source texts, which run until
// they are compiled. Meanwhile processes are started, and waiting workers are terminated. After MS
// milliseconds it prints the same as hot.c, and how often code was made (generated).
'use strict';
const { isMainThread, parentPort, workerData, Worker } = require('worker_threads');
const { spawn } = require('child_process');

const WAIT_MS = 3;
const CALLS = 20000;
const KEYS = ['rounds', 'children', 'generated', 'cancelled', 'wrong', 'early', 'back'];

const counts = Object.fromEntries(KEYS.map((key) => [key, 0]));
const now = () => Number(process.hrtime.bigint()) / 1e6;
const check = (right) => {
    counts.wrong += right ? 0 : 1;
};
// Timers count from the millisecond in which the loop began.
const waited = (begin, slack) => {
    counts.early += now() - begin < WAIT_MS - slack ? 1 : 0;
};

const known = (seed) => {
    let sum = seed;
    for (let i = 0; i < 16; i++) {
        sum = (Math.imul(sum, 31) + (sum >>> 7) + i) | 0;
    }
    return sum;
};

const generate = (which) => {
    const text = `let sum = seed; for (let i = 0; i < 16; i++) {
        sum = (Math.imul(sum, 31) + (sum >>> 7) + i) | 0; } return sum; // ${which}`;
    const anew = new Function('seed', text);
    let sum = which;
    let expected = which;
    for (let i = 0; i < CALLS; i++) {
        sum = anew(sum);
        expected = known(expected);
    }
    check(sum === expected);
    counts.generated++;
};

const round = async (shared) => {
    let begin = now();
    check(Atomics.wait(shared, 0, 0, WAIT_MS) === 'timed-out');
    waited(begin, 0);
    begin = now();
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    waited(begin, 1);
    const before = Date.now();
    counts.back += Date.now() < before ? 1 : 0;
    counts.rounds++;
    if (counts.rounds % 10 === 0) {
        generate(counts.rounds);
    }
};

const work = async () => {
    const { ms, begin } = workerData;
    const shared = new Int32Array(new SharedArrayBuffer(4));
    while (now() - begin < ms) {
        await round(shared);
    }
    parentPort.postMessage(counts);
};

const ended = (worker) => new Promise((resolve) => worker.once('exit', resolve));
const add = (more) => KEYS.forEach((key) => (counts[key] += more[key]));

const makeProcesses = async (goesOn) => {
    while (goesOn()) {
        check((await ended(spawn('true'))) === 0);
        counts.children++;
    }
};

const cancel = async (goesOn) => {
    const wait = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1e6)';
    while (goesOn()) {
        const worker = new Worker(wait, { eval: true });
        await new Promise((resolve) => worker.once('online', resolve));
        check((await worker.terminate()) === 1);
        counts.cancelled++;
    }
};

const main = async () => {
    const [workers, ms] = process.argv.slice(2).map(Number);
    const begin = now();
    const goesOn = () => now() - begin < ms;
    const all = Array.from({ length: workers }, () => {
        const worker = new Worker(__filename, { workerData: { ms, begin } });
        worker.on('message', add);
        return ended(worker).then((status) => check(status === 0));
    });
    await Promise.all([...all, makeProcesses(goesOn), cancel(goesOn)]);
    KEYS.forEach((key) => console.log(`${key}=${counts[key]}`));
    console.log(`ms=${now() - begin}`);
    console.log('done');
};

if (isMainThread) {
    main();
} else {
    work();
}
