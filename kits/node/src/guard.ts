import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, statSync } from "node:fs";
import type { Socket } from "node:net";
import { delimiter, join, resolve } from "node:path";
import { addAbortSignal } from "node:stream";
import { EigentimeError, lines } from "./protocol.js";

// What the script prints once the timeline is made; no message has a NUL.
const MADE = "\0";
// Makes a timeline, and removes it if standard input ends before a line says that this has been done: when the
// process that started this has ended, in whichever way. Nobody may read any longer what it prints then.
const SCRIPT = `
eigentime=$1 name=$2 directory=$3 saved=$4
shift 4
trap '' PIPE
trap '[ -z "$directory" ] || rm -rf -- "$directory"' EXIT
"$eigentime" ctl create "$name" "$@" 2>&1 >/dev/null <<SAVED || exit
$saved
SAVED
printf '\\0\\n' 2>/dev/null
read -r _ || "$eigentime" ctl rm --force "$name" 2>&1
`;

/** The path of the command `eigentime`: that in the environment variable EIGENTIME, or the one on PATH. */
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
      // The next one, then.
    }
  }
  throw new EigentimeError(
    "not_installed",
    `there is no command '${name}', which makes timelines`,
    "install Eigentime, and put the command on PATH or its path into the environment variable EIGENTIME",
  );
}

/** What is to be made. */
export interface Making {
  eigentime: string;
  name: string;
  /** Its runtime directory, if that is removed with it. */
  directory?: string;
  /** A saved timeline, which is given to the command as its standard input. */
  saved?: string;
  /** Options of `eigentime ctl create`. */
  flags: string[];
  environment: NodeJS.ProcessEnv;
}

/** The process that keeps a timeline from outliving this process. */
export class Guard {
  readonly #process: ChildProcess;
  readonly #said: AsyncGenerator<string, void>;
  readonly #exit: Promise<unknown[]>;

  private constructor({ eigentime, name, directory = "", saved = "", flags, environment }: Making) {
    const words = ["-c", SCRIPT, "eigentime-guard", eigentime, name, directory, saved, ...flags];
    // Ctrl-C is for the process that has started it.
    const options = {
      env: environment,
      detached: true,
      stdio: ["pipe", "pipe", "inherit"] as ["pipe", "pipe", "inherit"],
    };
    const started = spawn("/bin/sh", words, options);
    this.#process = started;
    this.#exit = once(started, "exit");
    this.#said = lines(started.stdout);
    // It may have ended before the pipe is closed.
    started.stdin.on("error", () => {});
  }

  /** Makes a timeline. */
  static async make(making: Making, signal?: AbortSignal): Promise<Guard> {
    const guard = new Guard(making);
    const { stdin, stdout } = guard.#process;
    if (signal && stdout) addAbortSignal(signal, stdout);
    const said: string[] = [];
    try {
      for (let line = await guard.#said.next(); !line.done; line = await guard.#said.next()) {
        if (line.value === MADE) {
          if (said.length > 0) process.stderr.write(`${said.join("\n")}\n`);
          // This process ends when it has nothing else to do.
          for (const end of [guard.#process, stdin as Socket, stdout as Socket]) end.unref();
          return guard;
        }
        said.push(line.value);
      }
    } catch (error) {
      stdin?.end();
      throw error;
    }
    await guard.#exit;
    // Lines of a message, then one of help.
    const [message = "", help] = (said.join("\n").split("\n\n")[0] ?? "").split("\nhelp: ");
    throw new EigentimeError(
      "not_made",
      `timeline '${making.name}': ${message.replace(/^(eigentime|error): /, "")}`,
      help,
    );
  }

  /** Ends it, and removes the runtime directory; the timeline has ended before. */
  async release(): Promise<void> {
    this.#process.ref();
    this.#process.stdin?.end("removed\n");
    await this.#exit;
  }
}
