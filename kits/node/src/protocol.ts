// A client of the timeline protocol, docs/guide/control.md in the repository of Eigentime.

import { once } from "node:events";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { createConnection, type Socket } from "node:net";
import { basename, dirname } from "node:path";
import { addAbortSignal, type Readable } from "node:stream";

/** The version of the protocol that this package speaks. */
const PROTOCOL = 1;

/** How long a timeline may take to give an immediate answer, in milliseconds. */
const PATIENCE = 60_000;

/** A span of time: text such as "30d" or "1.5s", or a number of milliseconds. */
export type Span = string | number;
/** An instant: text such as "2038-01-19" (local time, unless it has a zone), a `Date`, or what `Date.now()` returns. */
export type Instant = string | number | Date;
/** Virtual seconds per host second: a number, or text such as "1/3". */
export type Rate = string | number;

/** The codes of an `EigentimeError`: those of the protocol, and of errors before anything is answered. */
export type Code =
  | "not_installed"
  | "not_made"
  | "not_found"
  | "invalid_request"
  | "unknown_method"
  | "invalid_params"
  | "unsupported_protocol"
  | "forbidden"
  | "refused"
  | "timeout"
  | "ended"
  | "silent"
  | "moved";

/** A timeline was not made, or has refused a request. The message ends with the help, if there is any. */
export class EigentimeError extends Error {
  override name = "EigentimeError";

  constructor(
    /** Later versions of Eigentime may have more. */
    readonly code: Code | (string & {}),
    message: string,
    /** How to fix it. */
    readonly help?: string,
  ) {
    super(help === undefined ? message : `${message}\nhelp: ${help}`);
  }
}

const INSTANTS = new Set(["date", "until"]);
const SPANS = new Set(["boottime", "for", "idleGrace", "monotonic", "offset", "span", "timeout"]);

/** The given values as the protocol and the command line write them; undefined is left out. */
export function written(given: object): [string, unknown][] {
  return Object.entries(given)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => {
      const isNumber = typeof value === "number" || value instanceof Date;
      if (isNumber && !Number.isFinite(Number(value))) throw new RangeError(`${name}: ${value} is no number`);
      if (INSTANTS.has(name) && typeof value !== "string") return [name, new Date(value).toISOString()];
      // Without a decimal point or an exponent.
      if (SPANS.has(name) && typeof value === "number") return [name, `${BigInt(Math.round(value * 1e6))}ns`];
      return [name, value];
    });
}

/** A `Date` from nanoseconds since 1970. */
export function dateOf(nanoseconds: number): Date {
  // A number of this size is off by up to 256 ns. A clock frozen at a whole millisecond shows that millisecond.
  return new Date(Math.floor((nanoseconds + 256) / 1e6));
}

/** A timeline, and where its socket is. */
export interface Place {
  name: string;
  socket: string;
}

/** Connects to a timeline; undefined if nothing listens. */
async function dial({ socket: path }: Place): Promise<Socket | undefined> {
  let socket: Socket | undefined;
  try {
    // Through a path that stays short however long the directory's is.
    const directory = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      socket = createConnection(`/proc/self/fd/${directory.fd}/${basename(path)}`);
      await once(socket, "connect");
      return socket;
    } finally {
      await directory.close();
    }
  } catch (error) {
    socket?.destroy();
    if (!["ENOENT", "ECONNREFUSED"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
  return undefined;
}

/** The lines of a stream, without an incomplete last one. */
export async function* lines(stream: Readable): AsyncGenerator<string, void> {
  let begun = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const whole = (begun + chunk).split("\n");
    begun = whole.pop() ?? "";
    yield* whole;
  }
}

/** A timeline's answer, and the lines that follow. */
export interface Answer {
  now: Date;
  /** Each method has its own. */
  result: any;
  told: AsyncGenerator<string, void>;
}

/** The error that a timeline has ended. */
export function ended({ name }: Place): EigentimeError {
  return new EigentimeError("ended", `timeline '${name}': it has ended`);
}

function silent({ name }: Place): EigentimeError {
  const message = `timeline '${name}': it has not answered within ${PATIENCE / 1000} s`;
  return new EigentimeError("silent", message, "if its supervisor is stopped, `kill -CONT` lets it go on");
}

/**
 * Makes a request on its own connection, so that a waiting one delays nothing else. The caller leaves `told`,
 * which closes the connection. If another supervisor has taken over the timeline, that one must answer.
 */
export async function ask(place: Place, method: string, params: object, signal?: AbortSignal): Promise<Answer> {
  const request = JSON.stringify({ method, params: Object.fromEntries(written(params)), protocol: PROTOCOL });
  for (;;) {
    signal?.throwIfAborted();
    const socket = await dial(place);
    if (!socket) throw ended(place);
    if (signal) addAbortSignal(signal, socket);
    socket.write(`${request}\n`);
    const told = lines(socket);
    const patience = method === "wait" ? undefined : setTimeout(() => socket.destroy(silent(place)), PATIENCE);
    const answered = told.next().finally(() => clearTimeout(patience));
    const line = await answered.catch((error) => {
      if (["ECONNRESET", "EPIPE"].includes(error.code)) throw ended(place);
      throw error;
    });
    if (line.done) throw ended(place);
    const { error, result, virtual_ns } = JSON.parse(line.value);
    if (error === undefined) return { now: dateOf(virtual_ns), result, told };
    await told.return();
    if (error.code === "moved") continue;
    throw new EigentimeError(error.code, `timeline '${place.name}': ${error.message}`, error.help);
  }
}
