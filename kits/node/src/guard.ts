import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { addAbortSignal } from "node:stream";
import { type Code, EigentimeError, lines, type Place } from "./protocol.js";

/** The path of the command `eigentime`: from the environment variable EIGENTIME, or else from PATH. */
export function command(): string {
  const name = process.env.EIGENTIME || "eigentime";
  const candidates = name.includes("/")
    ? [resolve(name)]
    : (process.env.PATH ?? "").split(delimiter).map((directory) => join(directory, name));
  for (const path of candidates) {
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // Try the next one.
    }
  }
  throw new EigentimeError("not_installed", `there is no command '${name}', which makes timelines`, INSTALLING);
}

const INSTALLING = "install Eigentime, and put the command on PATH or its path into the environment variable EIGENTIME";

/** A message of the command with its help or a tip; the usage text is left out. */
export function refused(code: Code, said: string): EigentimeError {
  const told = said.trim().replace("\n\n  tip: ", "\nhelp: ");
  const [message = "", help] = (told.split("\n\n")[0] ?? "").split("\nhelp: ");
  return new EigentimeError(code, message.replace(/^(eigentime|error): /, ""), help);
}

/** Where the timeline is, as a command printed on its standard output, or why it did not. */
export function place(eigentime: string, told: string, code: Code, complaints: string): Place {
  if (told.startsWith("{")) return JSON.parse(told);
  throw refused(code, complaints || `'${eigentime}' tells of no timeline\nhelp: ${INSTALLING}`);
}

/** The command that keeps a timeline from outliving this process: it removes it when its standard input closes. */
export class Guard {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #exit: Promise<unknown[]>;
  #complaints = "";

  private constructor(started: ChildProcessWithoutNullStreams, exit: Promise<unknown[]>) {
    this.#process = started;
    this.#exit = exit;
    started.stderr.setEncoding("utf8").on("data", (text) => (this.#complaints += text));
    // It may have ended before the pipe is closed.
    started.stdin.on("error", () => {});
  }

  /** Makes a timeline, resuming a saved one if given; also returns where it is. */
  static async make(
    eigentime: string,
    flags: string[],
    saved: string,
    signal?: AbortSignal,
  ): Promise<Place & { guard: Guard }> {
    // Ctrl-C is meant for the process that started it.
    const started = spawn(eigentime, ["ctl", "create", "--hold", "--json", ...flags], { detached: true });
    await once(started, "spawn").catch(({ message }) => {
      throw refused("not_made", `'${eigentime}' does not start: ${message}`);
    });
    const guard = new Guard(started, once(started, "close"));
    const { stdin, stdout, stderr } = started;
    if (signal) addAbortSignal(signal, stdout);
    // An empty line terminates a truncated document.
    stdin.write(`${saved}\n\n`);
    try {
      const { value, done } = await lines(stdout).next();
      if (done) await guard.#end();
      const { name, socket } = place(eigentime, value ?? "", "not_made", guard.#complaints);
      // They do not keep this process alive.
      for (const end of [started, stdin, stdout, stderr] as Unreferenced[]) end.unref();
      return { name, socket, guard };
    } catch (error) {
      stdin.end();
      throw error;
    }
  }

  /** Removes the timeline. */
  async release(): Promise<void> {
    this.#process.ref();
    await this.#end();
    const { exitCode, signalCode } = this.#process;
    const ended = `eigentime ctl create ended with ${signalCode ?? `status ${exitCode}`}`;
    if (exitCode !== 0) throw refused("refused", this.#complaints || ended);
  }

  async #end(): Promise<void> {
    this.#process.stdin.end();
    await this.#exit;
  }
}

interface Unreferenced {
  unref(): void;
}
