import {
  type ChildProcess,
  type ChildProcessWithoutNullStreams,
  execFile,
  type ExecFileOptions,
  spawn,
  type SpawnOptions,
  type SpawnOptionsWithoutStdio,
} from "node:child_process";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { command, Guard, place } from "./guard.js";
import {
  type Answer,
  ask,
  dateOf,
  ended,
  type Instant,
  type Place,
  type Rate,
  type Span,
  written,
} from "./protocol.js";

/** How a timeline is made: the options of `eigentime ctl create`. */
export interface TimelineOptions {
  /** A name under which `eigentime ctl`, other programs and containers find it. */
  name?: string;
  /** What the wall clock shows initially. */
  date?: Instant;
  /** How far the wall clock is initially ahead of the host's. */
  offset?: Span;
  rate?: Rate;
  /** Stops all clocks, or the wall clock alone. */
  freeze?: boolean | "all" | "wall";
  /** The clocks leap to the next deadline whenever all programs wait. */
  skipIdle?: boolean;
  /** With `skipIdle`: only this many times, until `skip` allows more. */
  skips?: number;
  /** Containers may join it. It then has a name. */
  joinable?: boolean;
  /** What `save` returned, to resume from. */
  continue?: string;
  policy?: "continue" | "catch-up";
  anchor?: string;
  monotonic?: Span;
  boottime?: Span;
  busyRate?: Rate;
  idleGrace?: Span;
  until?: Instant;
  for?: Span;
  atLimit?: "end" | "freeze";
  settableBy?: "nobody" | "privileged" | "anyone";
  keepRunning?: boolean;
  traced?: boolean;
  noRewrite?: boolean;
}

/** Settings that can be changed while programs run. */
export type Settings = Pick<TimelineOptions, "date" | "offset" | "rate" | "joinable" | "settableBy">;

/** Which leaps over idle time are allowed: at most one of these; all if none is given. */
export interface Leaps {
  times?: number;
  until?: Instant;
  for?: Span;
}

/** What to wait for: one condition, and for how long at most, in host time. */
export interface Condition {
  until?: Instant;
  for?: Span;
  idle?: true;
  blocked?: { pid?: number; call?: string };
  skipped?: true;
  empty?: true;
  ended?: true;
  timeout?: Span;
}

/** What a timeline is and how to join it. */
export interface Info {
  /** The time on its wall clock. */
  now: Date;
  name: string;
  protocol: number;
  version: string;
  supervisor: number;
  join: { command: string[]; annotations: Record<string, string>; environment?: Record<string, string> };
}

/** A timeline at one moment. */
export interface State {
  /** The time on its wall clock. */
  now: Date;
  name: string;
  state: "running" | "frozen" | "wall frozen";
  /** Virtual seconds per host second, even while frozen. */
  rate: number;
  supervisor: number;
  clocks: { clock: string; host_ns: number; virtual_ns: number }[];
}

/** A timeline with its members, as "JSON" in docs/guide/timelines.md describes it. */
export interface Shown extends State {
  joinable: boolean;
  settable_by: string;
  members: Member[];
  containers: { id: string; name?: string | null }[];
  [field: string]: unknown;
}

/** A process on a timeline. */
export interface Member {
  pid: number;
  command: string;
  /** `call` is the system call in which a thread waits; the thread runs if there is none. */
  threads: { tid: number; call?: string | null }[];
  [field: string]: unknown;
}

/** Something that has happened on a timeline: "Events" in docs/guide/control.md. Later versions have more. */
export interface TimelineEvent {
  event: "joined" | "ended" | "changed" | "skipped" | "notice" | "lost" | "removed" | "moved" | (string & {});
  /** What the wall clock of the timeline showed. */
  now: Date;
  /** Of "joined", "ended" and "notice". */
  pid?: number;
  /** Of "joined". */
  command?: string;
  /** Of "changed". */
  state?: State["state"];
  /** Of "changed". */
  rate?: number;
  /** Of "skipped". */
  span_ns?: number;
  /** Of "notice". */
  text?: string;
  /** Of "lost". */
  count?: number;
}

/** A means to abandon a call, which then fails with an `AbortError`. */
export interface Abortable {
  signal?: AbortSignal;
}

const run = promisify(execFile);

/** A timeline of Eigentime: separate clocks for programs and containers. */
export class Timeline {
  readonly #place: Place;
  readonly #eigentime: string;
  // EIGENTIME_RUNTIME_DIR of its programs. An empty variable counts as unset.
  readonly #runtime: string;
  readonly #guard: Guard | undefined;
  // What must happen before any request.
  readonly #pending = new Set<Promise<unknown>>();

  private constructor(place: Place, eigentime: string, runtime: string, guard?: Guard) {
    this.#place = place;
    this.#eigentime = eigentime;
    this.#runtime = runtime;
    this.#guard = guard;
  }

  /**
   * Makes a timeline, which ends when it is closed, and at the latest with this process. Without `name` and
   * `joinable`, it has its own runtime directory, where no other program finds it.
   */
  static async create(options: TimelineOptions = {}, { signal }: Abortable = {}): Promise<Timeline> {
    signal?.throwIfAborted();
    const { name, continue: saved, ...others } = options;
    const flags = written({ ...others, continue: saved && "-" })
      .filter(([, value]) => value !== false)
      .map(([option, value]) => {
        const flag = `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
        return value === true ? flag : `${flag}=${value}`;
      });
    const eigentime = command();
    const words = name ? [...flags, "--", name] : flags;
    const { guard, ...made } = await Guard.make(eigentime, words, saved ?? "", signal);
    const isPrivate = !name && !options.joinable;
    const runtime = isPrivate ? dirname(dirname(made.socket)) : (process.env.EIGENTIME_RUNTIME_DIR ?? "");
    return new Timeline(made, eigentime, runtime, guard);
  }

  /** Connects to an existing timeline. Closing it leaves it as it is. */
  static async connect(name: string, { signal }: Abortable = {}): Promise<Timeline> {
    signal?.throwIfAborted();
    const eigentime = command();
    const asked = run(eigentime, ["ctl", "show", "--json", "--", name], { signal });
    const { stdout, stderr } = await asked.catch((error) => {
      if (error.stderr) return error;
      throw error;
    });
    const found = place(eigentime, stdout, "not_found", stderr);
    return new Timeline(found, eigentime, process.env.EIGENTIME_RUNTIME_DIR ?? "");
  }

  /** The name under which `eigentime ctl` and containers find it, unless it is in its own directory. */
  get name(): string {
    return this.#place.name;
  }

  /** `env`, or this process's environment, with the variables by which `eigentime` finds the timeline. */
  environment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
    // The directory is also known from this variable.
    const session = process.env.XDG_RUNTIME_DIR;
    return { ...(session && { XDG_RUNTIME_DIR: session }), ...env, EIGENTIME_RUNTIME_DIR: this.#runtime };
  }

  /**
   * Starts a program on the timeline, as `spawn` of node:child_process does. The process is the program itself,
   * and joins the timeline before any other request from this object. If the program cannot be started,
   * the process exits with 125 to 127.
   */
  spawn(file: string, args?: readonly string[], options?: SpawnOptionsWithoutStdio): ChildProcessWithoutNullStreams;
  spawn(file: string, args: readonly string[], options: SpawnOptions): ChildProcess;
  spawn(file: string, args: readonly string[] = [], options: SpawnOptions = {}): ChildProcess {
    const child = spawn(this.#eigentime, this.#words(file, args, options), this.#options(options));
    const over = new AbortController();
    child.once("exit", () => over.abort());
    this.#expect(ask(this.#place, "wait", { joined: child.pid }, over.signal).then(({ told }) => told.return()));
    return child;
  }

  /** Runs a program on the timeline to its end, as the promisified `execFile` of node:child_process does. */
  async execFile(
    file: string,
    args: readonly string[] = [],
    options: ExecFileOptions = {},
  ): Promise<{ stdout: string; stderr: string }> {
    const words = this.#words(file, args, options);
    return run(this.#eigentime, words, { ...this.#options(options), encoding: "utf8" });
  }

  // Throws if the timeline has ended. The shell must also be on the timeline, not between this process and the command.
  #words(file: string, args: readonly string[], { shell }: SpawnOptions): string[] {
    if (!existsSync(this.#place.socket)) throw ended(this.#place);
    const program = shell ? [shell === true ? "/bin/sh" : shell, "-c", [file, ...args].join(" ")] : [file, ...args];
    return ["run", "--timeline", this.name, "--existing", "--", ...program];
  }

  #options<Options extends SpawnOptions>(options: Options): Options {
    if (options.argv0 !== undefined)
      throw new TypeError("argv0: a program on a timeline has the name by which it is found");
    return { ...options, shell: false, env: this.environment(options.env) };
  }

  #expect(happens: Promise<unknown>): void {
    const happened: Promise<unknown> = happens.catch(() => {}).then(() => this.#pending.delete(happened));
    this.#pending.add(happened);
  }

  async #ask(method: string, params: object = {}, signal?: AbortSignal): Promise<Answer> {
    await Promise.all(this.#pending);
    const answer = await ask(this.#place, method, params, signal);
    await answer.told.return();
    return answer;
  }

  async #result(method: string, params?: object): Promise<any> {
    const { now, result } = await this.#ask(method, params);
    return { now, ...result };
  }

  /** The time on its wall clock. */
  async now(): Promise<Date> {
    return (await this.#ask("info")).now;
  }

  /** What it is, and how programs and containers join it. */
  async info(): Promise<Info> {
    return this.#result("info");
  }

  /** Its clocks, its members, and what they wait for. */
  async show(): Promise<Shown> {
    return this.#result("show");
  }

  /** Sets its rate, its wall clock, or what others may do. */
  async set({ settableBy, ...settings }: Settings): Promise<State> {
    return this.#result("set", { ...settings, settable_by: settableBy });
  }

  /** Moves all clocks forward. Waits that expire by then end. */
  async leap(span: Span): Promise<State> {
    return this.#result("leap", { span });
  }

  /** Stops all clocks, or the wall clock alone. */
  async freeze(options: { wall?: boolean } = {}): Promise<State> {
    return this.#result("freeze", options);
  }

  /** Restarts its clocks. */
  async thaw(options: { rate?: Rate } = {}): Promise<State> {
    return this.#result("thaw", options);
  }

  /** A JSON document from which a timeline can `continue`. */
  async save(): Promise<string> {
    await Promise.all(this.#pending);
    // Not from an answer: a number cannot hold its nanoseconds exactly.
    const saved = run(this.#eigentime, ["ctl", "save", this.name], { env: this.environment() });
    // If that fails, the answer to the same request says why.
    return (await saved.catch((error) => this.#ask("save").then(() => Promise.reject(error)))).stdout;
  }

  /** With `skipIdle`: allows leaps over idle time. It does not wait for them: `wait({ skipped: true })` does. */
  async skip(leaps: Leaps = {}): Promise<State> {
    return this.#result("skip", leaps);
  }

  /** Waits for a condition; after its `timeout`, fails with the code "timeout" and says why it does not hold. */
  async wait(
    condition: Condition,
    { signal }: Abortable = {},
  ): Promise<{ pid?: number; thread?: Member["threads"][number] }> {
    return this.#ask("wait", condition, signal).then(
      ({ result }) => result,
      (error) => {
        if (condition.ended && error.code === "ended") return {};
        throw error;
      },
    );
  }

  /**
   * The events from now on, until the timeline ends. To stop watching, leave the loop or abort: until then, or
   * the end of the timeline, this process does not exit.
   */
  watch({ signal }: Abortable = {}): AsyncIterableIterator<TimelineEvent> {
    const subscribed = ask(this.#place, "watch", {}, signal);
    this.#expect(subscribed);
    return (async function* () {
      const { told } = await subscribed;
      for await (const line of told) {
        const { host_ns, virtual_ns, ...fields } = JSON.parse(line);
        yield { ...fields, now: dateOf(virtual_ns) };
      }
    })();
  }

  /** Removes the timeline and kills its members with SIGKILL. Calling it once is enough. */
  async close(): Promise<void> {
    await this.#guard?.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
