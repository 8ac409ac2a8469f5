import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { EigentimeError, Timeline } from "eigentime";
import { withTimeline } from "eigentime/node";

const START = new Date("2038-01-19T00:00:00Z");
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Fails unless an instant lies within the hour after another. */
function within(now, earliest) {
  const passed = now - earliest;
  assert.ok(
    passed >= 0 && passed < HOUR,
    `${now.toISOString()} is not within the hour after ${earliest.toISOString()}`,
  );
}

const later = (span) => new Date(START.getTime() + span);
const sleeping = { blocked: { call: "clock_nanosleep" } };

const directories = [];
process.on("exit", () => directories.forEach((path) => rmSync(path, { recursive: true, force: true })));

/** A directory for the test, which is removed with this process. */
function directory(t) {
  const path = mkdtempSync(join(tmpdir(), "kit-"));
  // Functions registered with `t.after` run in order: this one would run before timelines in it are closed.
  directories.push(path);
  return path;
}

/** Sets a variable for the duration of a test. */
function set(t, name, value) {
  const before = process.env[name];
  process.env[name] = value;
  t.after(() => (before === undefined ? delete process.env[name] : (process.env[name] = before)));
}

const refuses = (promise, code, pattern) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof EigentimeError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    return true;
  });

describe("a timeline", { concurrency: 4 }, () => {
  it(
    "shows programs its date",
    withTimeline({ date: START }, async (timeline) => {
      assert.equal((await timeline.execFile("date", ["-u", "+%F"])).stdout, "2038-01-19\n");
      within(await timeline.now(), START);
    }),
  );

  for (const [name, options, earliest, state, rate] of [
    ["a date as text", { date: "2038-01-19T00:00:00Z" }, () => START, "running", 1],
    ["a date in milliseconds", { date: START.getTime() }, () => START, "running", 1],
    ["an offset as text", { offset: "-2d" }, () => new Date(Date.now() - 2 * DAY - HOUR / 2), "running", 1],
    ["an offset in milliseconds", { offset: 2 * DAY }, () => new Date(Date.now() + 2 * DAY - HOUR / 2), "running", 1],
    ["a rate", { date: START, rate: 2.5 }, () => START, "running", 2.5],
    ["a rate as text", { date: START, rate: "1/4" }, () => START, "running", 0.25],
    ["stopped clocks", { date: START, freeze: true }, () => START, "frozen", 1],
    ["running clocks", { date: START, freeze: false }, () => START, "running", 1],
    ["a stopped wall clock", { date: START, freeze: "wall" }, () => START, "wall frozen", 1],
    ["what nobody may set", { date: START, settableBy: "nobody" }, () => START, "running", 1],
  ]) {
    it(
      `is made with ${name}`,
      withTimeline(options, async (timeline) => {
        const shown = await timeline.show();
        within(shown.now, earliest());
        assert.equal(shown.state, state);
        assert.equal(shown.rate, rate);
        if (options.settableBy) assert.equal(shown.settable_by, options.settableBy);
      }),
    );
  }

  it(
    "ends a sleep by a leap",
    withTimeline({ date: START }, async (timeline) => {
      // Not longer: GNU sleep splits sleeps of more than 24 days into several waits.
      const child = timeline.spawn("sleep", ["20d"]);
      const { pid } = await timeline.wait({ blocked: { pid: child.pid, call: "clock_nanosleep" } });
      assert.equal(pid, child.pid);
      const { members } = await timeline.show();
      assert.deepEqual(
        members.map(({ command }) => command),
        ["sleep 20d"],
      );
      assert.equal(members[0].threads[0].call, "clock_nanosleep");
      const exit = once(child, "exit");
      within((await timeline.leap(20 * DAY)).now, later(20 * DAY));
      assert.deepEqual(await exit, [0, null]);
      await timeline.wait({ empty: true });
    }),
  );

  it(
    "sets, stops and starts the clocks",
    withTimeline({}, async (timeline) => {
      const leapDay = new Date("2040-02-29T12:00:00.123Z");
      await timeline.freeze();
      const { state, rate } = await timeline.set({ date: leapDay, rate: 0.25 });
      assert.deepEqual([state, rate], ["frozen", 0.25]);
      assert.deepEqual(await timeline.now(), leapDay);
      assert.equal((await timeline.thaw({ rate: 2 })).rate, 2);
      assert.equal((await timeline.freeze({ wall: true })).state, "wall frozen");
      assert.equal((await timeline.thaw()).state, "running");
      within((await timeline.set({ offset: -1500.5 })).now, new Date(Date.now() - HOUR / 2));
      await timeline.set({ settableBy: "anyone" });
      assert.equal((await timeline.show()).settable_by, "anyone");
    }),
  );

  it(
    "is saved and continued",
    withTimeline({ date: START, freeze: true }, async (timeline) => {
      await timeline.leap("1h");
      const saved = await timeline.save();
      const second = await Timeline.create({ continue: saved });
      try {
        assert.deepEqual(JSON.parse(await second.save()).clocks, JSON.parse(saved).clocks);
        assert.deepEqual(await second.now(), later(HOUR));
      } finally {
        await second.close();
      }
    }),
  );

  it(
    "waits until an instant",
    withTimeline({ date: START, rate: 1000 }, async (timeline) => {
      await timeline.wait({ until: later(60_000) });
      const before = await timeline.now();
      assert.ok(before >= later(60_000));
      await timeline.wait({ for: "1m" });
      assert.ok((await timeline.now()) - before >= 60_000);
    }),
  );

  it(
    "says why a wait takes too long",
    withTimeline({}, async (timeline) => {
      await refuses(timeline.wait({ blocked: { call: "accept4" }, timeout: 50 }), "timeout", /no such thread/);
    }),
  );

  it(
    "abandons a wait",
    withTimeline({}, async (timeline) => {
      const abandoned = new AbortController();
      const waits = timeline.wait({ ended: true }, { signal: abandoned.signal });
      await timeline.now();
      abandoned.abort();
      await assert.rejects(waits, { name: "AbortError" });
      await assert.rejects(timeline.wait({ ended: true }, { signal: abandoned.signal }), { name: "AbortError" });
      await assert.rejects(timeline.wait({ ended: true }, { signal: AbortSignal.timeout(20) }), { name: "AbortError" });
    }),
  );

  it(
    "skips idle time when told",
    withTimeline({ date: START, skipIdle: true, skips: 0 }, async (timeline) => {
      const child = timeline.spawn("sleep 1d; sleep 1d; sleep 1000d", [], { shell: true });
      const exit = once(child, "exit");
      await timeline.wait(sleeping);
      for (const [leaps, reached] of [
        [{ times: 2 }, 2 * DAY],
        [{ for: "1d" }, 3 * DAY],
        [{ until: later(100 * DAY) }, 100 * DAY],
      ]) {
        await timeline.skip(leaps);
        await timeline.wait({ skipped: true });
        within(await timeline.now(), later(reached));
      }
      await timeline.skip();
      assert.deepEqual(await exit, [0, null]);
    }),
  );

  it(
    "waits until programs are idle",
    withTimeline({}, async (timeline) => {
      const child = timeline.spawn("cat");
      await timeline.wait({ idle: true });
      const exit = once(child, "exit");
      child.stdin.end();
      assert.deepEqual(await exit, [0, null]);
    }),
  );

  it(
    "tells of events",
    withTimeline({ date: START }, async (timeline) => {
      const events = timeline.watch();
      await timeline.set({ rate: 2 });
      await timeline.execFile("true");
      const told = [];
      for await (const event of events) {
        within(event.now, START);
        told.push(event);
        if (event.event === "ended") break;
      }
      const [changed, joined, ended] = told;
      assert.deepEqual([changed.event, changed.state, changed.rate], ["changed", "running", 2]);
      assert.deepEqual([joined.event, joined.command], ["joined", "true"]);
      assert.equal(joined.pid, ended.pid);
    }),
  );

  it(
    "stops telling of events",
    withTimeline({}, async (timeline) => {
      const abandoned = new AbortController();
      const events = timeline.watch({ signal: abandoned.signal });
      await timeline.now();
      abandoned.abort();
      await assert.rejects(events.next(), { name: "AbortError" });
    }),
  );

  it(
    "tells of its end, and then of nothing",
    withTimeline({}, async (timeline) => {
      const events = timeline.watch();
      const waits = refuses(timeline.wait({ blocked: {} }), "ended", /ended/);
      await timeline.now();
      await timeline.close();
      await timeline.close();
      const told = [];
      for await (const { event } of events) told.push(event);
      assert.deepEqual(told, ["removed"]);
      await waits;
      await refuses(timeline.leap("1s"), "ended", /has ended/);
      assert.deepEqual(await timeline.wait({ ended: true }), {});
      assert.throws(() => timeline.spawn("true"), { code: "ended" });
      await refuses(timeline.execFile("true"), "ended", /has ended/);
      await refuses(timeline.save(), "ended", /has ended/);
      await assert.rejects(
        async () => {
          for await (const event of timeline.watch()) assert.fail(event.event);
        },
        { code: "ended" },
      );
    }),
  );

  it(
    "has errors with a code and help",
    withTimeline({}, async (timeline) => {
      await refuses(timeline.set({ date: "soon" }), "invalid_params", /soon.*\nhelp: /s);
      await refuses(timeline.skip(), "refused", /./);
      await refuses(Timeline.create({ rate: "soon" }), "not_made", /^invalid .*soon.*\nhelp: [^\n]*$/s);
      await refuses(Timeline.create({ name: "a/b" }), "not_made", /a\/b/);
      await refuses(Timeline.create({ continue: '{"cut": "short' }), "not_made", /^cannot continue/);
      await refuses(Timeline.connect("no-such-timeline"), "not_found", /'no-such-timeline' in \//);
      await refuses(Timeline.create({ skipidle: true }), "not_made", /'--skipidle'.*\nhelp: .*'--skip-idle'/);
      for (const make of [() => Timeline.create({ name: "--help" }), () => Timeline.connect("--help")])
        await assert.rejects(make, /^EigentimeError: invalid value '--help'/);
      await refuses(timeline.set({ rate: 0 }), "invalid_params", /'0': a rate cannot be zero\nhelp: .*freeze/);
      await refuses(timeline.set({ date: new Date("9999-12-31") }), "invalid_params", /cannot show.*\nhelp: .*2262/);
      for (const wrong of [{ rate: NaN }, { offset: Infinity }, { date: new Date(NaN) }])
        await assert.rejects(timeline.set(wrong), {
          name: "RangeError",
          message: /^(rate|offset|date): .* is no number/,
        });
      await timeline.freeze();
      await refuses(timeline.wait({ for: "1h", timeout: 1 }), "timeout", /are frozen\nhelp: .*thaw/);
    }),
  );

  it("tells what a test has thrown, even if the timeline cannot be closed", async () => {
    const name = `killed-${process.pid}`;
    const test = withTimeline({ name }, async () => {
      const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").trim().split(" ");
      const holder = children.find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(name));
      process.kill(Number(holder), "SIGKILL");
      throw new Error("my own");
    });
    await assert.rejects(test(), /my own/);
  });

  const unchangeable = Object.freeze(new Error("as it is"));
  class Computed extends Error {
    get message() {
      return "computed";
    }
  }
  class Unreadable extends Error {
    get message() {
      throw new Error("unreadable");
    }
  }
  for (const [what, thrown, shown] of [
    ["an error that cannot be changed", unchangeable, /^as it is$/],
    ["an error whose message is computed", new Computed(), /^computed\n\nvirtual time: 2038-/],
    ["an error whose message cannot be read", new Unreadable()],
    ["a DOMException", AbortSignal.abort().reason, /aborted/],
    ["text", "soon"],
    ["nothing", undefined],
  ]) {
    it(`is closed, and the test's failure told, if that is ${what}`, async () => {
      let timeline;
      const test = withTimeline({ date: START }, (given) => {
        timeline = given;
        throw thrown;
      });
      await test().then(
        () => assert.fail("the test has passed"),
        (told) => assert.equal(told, thrown),
      );
      if (shown) assert.match(thrown.message, shown);
      await refuses(timeline.now(), "ended", /has ended/);
    });
  }

  it("is closed by `await using`", async () => {
    const timeline = await Timeline.create();
    await timeline[Symbol.asyncDispose]();
    await refuses(timeline.now(), "ended", /has ended/);
  });

  it("takes its programs along", async () => {
    const timeline = await Timeline.create();
    const child = timeline.spawn("sleep", ["1000d"]);
    const exit = once(child, "exit");
    await timeline.wait({ blocked: {} });
    await timeline.close();
    const [status, signal] = await exit;
    assert.ok(signal === "SIGKILL" || status === 137, `${status} ${signal}`);
  });
});

describe("a program", { concurrency: 4 }, () => {
  it(
    "has pipes, an environment and a directory",
    withTimeline({ date: START }, async (timeline) => {
      const options = { env: { WHO: "me", PATH: process.env.PATH }, cwd: "/", stdio: ["pipe", "pipe", "ignore"] };
      const child = timeline.spawn("sh", ["-c", "date -u +%F; echo $WHO; pwd; cat"], options);
      child.stdin.end("end\n");
      let printed = "";
      for await (const chunk of child.stdout.setEncoding("utf8")) printed += chunk;
      assert.equal(printed, "2038-01-19\nme\n/\nend\n");
    }),
  );

  it(
    "has its whole shell command on the timeline",
    withTimeline({ date: START }, async (timeline) => {
      const { stdout } = await timeline.execFile("true && date -u", ["+%F"], { shell: true });
      assert.equal(stdout, "2038-01-19\n");
    }),
  );

  it(
    "speaks with its parent",
    withTimeline({ date: START }, async (timeline) => {
      const script = "process.on('message', () => process.send(Date.now(), () => process.disconnect()))";
      const child = timeline.spawn(process.execPath, ["-e", script], {
        stdio: ["ignore", "inherit", "inherit", "ipc"],
      });
      child.send("what time is it?");
      const [now] = await once(child, "message");
      within(new Date(now), START);
    }),
  );

  it(
    "may be missing",
    withTimeline({}, async (timeline) => {
      await assert.rejects(timeline.execFile("no-such-program"), { code: 127 });
      const exit = once(timeline.spawn("no-such-program", [], { stdio: "ignore" }), "exit");
      assert.deepEqual(await exit, [127, null]);
      await timeline.now();
    }),
  );

  it(
    "is killed by a signal",
    withTimeline({}, async (timeline) => {
      const abandoned = new AbortController();
      const child = timeline.spawn("sleep", ["1000d"], { signal: abandoned.signal });
      const error = once(child, "error");
      await timeline.wait(sleeping);
      abandoned.abort();
      assert.equal((await error)[0].name, "AbortError");
      await timeline.wait({ empty: true });
    }),
  );

  it(
    "cannot have another name",
    withTimeline({}, async (timeline) => {
      assert.throws(() => timeline.spawn("true", [], { argv0: "false" }), TypeError);
    }),
  );

  it(
    "is a member at once",
    withTimeline({}, async (timeline) => {
      for (let round = 0; round < 5; round++) {
        const child = timeline.spawn("sleep", ["1000d"]);
        const { members } = await timeline.show();
        assert.ok(members.some(({ pid }) => pid === child.pid));
      }
    }),
  );
});

describe("where timelines are", () => {
  for (const variable of ["EIGENTIME_RUNTIME_DIR", "XDG_RUNTIME_DIR"]) {
    it(`is ${variable} for those with a name`, async (t) => {
      set(t, "EIGENTIME_RUNTIME_DIR", "");
      set(t, variable, directory(t));
      const timeline = await Timeline.create({ name: "shop", date: START });
      t.after(() => timeline.close());
      const same = await Timeline.connect("shop");
      await same.leap("1d");
      await same.close();
      within(await timeline.now(), later(DAY));
      // Not another timeline of the same name when the environment differs.
      const { stdout } = await timeline.execFile("date", ["-u", "+%F"], { env: { PATH: process.env.PATH } });
      assert.equal(stdout, "2038-01-20\n");
      await refuses(Timeline.create({ name: "shop" }), "not_made", /shop/);
    });
  }

  it("has those that containers join under a name of their own", async (t) => {
    set(t, "EIGENTIME_RUNTIME_DIR", directory(t));
    const timelines = [await Timeline.create({ joinable: true }), await Timeline.create({ joinable: true })];
    t.after(() => Promise.all(timelines.map((timeline) => timeline.close())));
    assert.notEqual(timelines[0].name, timelines[1].name);
    const { join: by } = await timelines[0].info();
    assert.equal(by.annotations["io.eigentime.timeline"], timelines[0].name);
  });

  it("may have a long name", async (t) => {
    // A socket path has at most 107 bytes.
    const long = join(directory(t), "long".repeat(50));
    mkdirSync(long);
    set(t, "TMPDIR", long);
    const timeline = await Timeline.create({ date: START });
    t.after(() => timeline.close());
    assert.equal((await timeline.execFile("date", ["-u", "+%F"])).stdout, "2038-01-19\n");
  });

  it("is not where the command is missing", async (t) => {
    set(t, "EIGENTIME", "/nonexistent/eigentime");
    await refuses(Timeline.create(), "not_installed", /EIGENTIME/);
    process.env.EIGENTIME = "";
    set(t, "PATH", "");
    await refuses(Timeline.create(), "not_installed", /'eigentime'/);
  });

  it("is not where the command cannot be started", async (t) => {
    const command = join(directory(t), "command");
    writeFileSync(command, "#!/nonexistent/interpreter\n", { mode: 0o700 });
    set(t, "EIGENTIME", command);
    await refuses(Timeline.create(), "not_made", new RegExp(`'${command}'.*ENOENT`));
    await assert.rejects(Timeline.connect("x"), { code: "ENOENT" });
  });

  it("is not told by another command", async (t) => {
    set(t, "EIGENTIME", "/bin/true");
    const message = /^'\/bin\/true' tells of no timeline\nhelp: .*EIGENTIME/;
    await refuses(Timeline.create(), "not_made", message);
    await refuses(Timeline.connect("x"), "not_found", message);
  });

  it("is not in a directory that is missing", async (t) => {
    const missing = join(directory(t), "missing");
    set(t, "TMPDIR", missing);
    await refuses(Timeline.create(), "not_made", new RegExp(`${missing}/.*\nhelp: set TMPDIR`));
  });

  it("is given up where the supervisor does not answer", async (t) => {
    const place = directory(t);
    const [socket, command] = [join(place, "socket"), join(place, "command")];
    writeFileSync(command, `#!/bin/sh\necho '${JSON.stringify({ name: "stopped", socket })}'\n`, { mode: 0o700 });
    set(t, "EIGENTIME", command);
    const stopped = createServer().listen(socket);
    t.after(() => stopped.close());
    const timeline = await Timeline.connect("stopped");
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const asked = once(stopped, "connection").then(([connection]) => once(connection, "data"));
    const answer = refuses(timeline.now(), "silent", /within 60 s\nhelp: .*kill -CONT/);
    await asked;
    t.mock.timers.tick(60_000);
    await answer;
  });
});

describe("the end of a process", () => {
  const code = (body) => `import { Timeline } from "eigentime"; ${body}`;
  const timelines =
    'const timeline = await Timeline.create(); timeline.spawn("sleep", ["1000d"], { stdio: "ignore" }).unref();';

  /** Runs a module with its own directory for temporary files, and returns that directory. */
  async function left(t, body, interact = async () => {}) {
    const temporary = directory(t);
    const options = { env: { ...process.env, TMPDIR: temporary }, stdio: ["ignore", "pipe", "inherit"] };
    const child = spawn(process.execPath, ["--input-type=module", "-e", code(body)], options);
    const exit = once(child, "exit");
    await interact(child);
    return { temporary, exit: await exit };
  }

  /** Waits until a directory is empty; otherwise the test's own limit ends the wait. */
  async function empty(path) {
    while (readdirSync(path).length > 0) await sleep(10);
  }

  test("nothing is left of a timeline that was closed", async (t) => {
    const { temporary, exit } = await left(t, `${timelines} const events = timeline.watch(); await timeline.close();`);
    assert.deepEqual(exit, [0, null]);
    assert.deepEqual(readdirSync(temporary), []);
  });

  test("what was not closed ends with the process", { timeout: 120_000 }, async (t) => {
    const { temporary, exit } = await left(t, "await Timeline.create();");
    assert.deepEqual(exit, [0, null]);
    await empty(temporary);
  });

  test("what was not closed ends when the process is killed", { timeout: 120_000 }, async (t) => {
    const body = `${timelines} await timeline.wait({ blocked: {} }); console.log("made"); setInterval(() => {}, 1e6);`;
    const { temporary, exit } = await left(t, body, async (child) => {
      await once(child.stdout, "data");
      child.kill("SIGKILL");
    });
    assert.deepEqual(exit, [null, "SIGKILL"]);
    await empty(temporary);
  });

  test("what is being made ends when the process is killed", { timeout: 120_000 }, async (t) => {
    const { temporary } = await left(t, 'Timeline.create(); process.kill(process.pid, "SIGKILL");');
    await empty(temporary);
  });

  test("what is being made is abandoned", { timeout: 120_000 }, async (t) => {
    set(t, "TMPDIR", directory(t));
    const abandoned = new AbortController();
    const making = Timeline.create({}, { signal: abandoned.signal });
    abandoned.abort();
    await assert.rejects(making, { name: "AbortError" });
    await assert.rejects(Timeline.create({}, { signal: abandoned.signal }), { name: "AbortError" });
    await empty(process.env.TMPDIR);
    assert.ok(existsSync(process.env.TMPDIR));
  });
});
