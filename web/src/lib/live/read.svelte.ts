// A value on screen: where it came from, how old it is, and when it is read again.
import { untrack } from "svelte";

import { ApiError, unreachable } from "../api/problem";
import type { CloudEvent } from "../api/types";
import { clock } from "./clock.svelte";
import { DueRead } from "./due";
import { live } from "./live.svelte";

export interface ReadOptions<T> {
  /** Whether an event makes this value due; by default none does. */
  due?: (event: CloudEvent) => boolean;
  /** Reads again after so many milliseconds, for what no event announces. */
  every?: number;
  /** The moment at which the value changes without an event, such as when a status becomes Unknown. */
  expires?: (value: T) => string | null | undefined;
}

interface Kept {
  value: unknown;
  at: number;
}

/** The last answers, so that going back shows the page at once, with its age. */
const kept = new Map<string, Kept>();
const KEPT = 60;

export function forgetReads(): void {
  kept.clear();
}

export class Read<T> {
  value = $state.raw<T>();
  error = $state.raw<ApiError>();
  /** When the value was read, by the server's clock; zero before. */
  at = $state(0);
  busy = $state(false);
  #due: DueRead | undefined;

  /** Nothing to show yet, and nothing went wrong. */
  get empty(): boolean {
    return this.value === undefined && this.error === undefined;
  }

  /** Whether the value may be out of date: the last read failed, or the stream is cut. */
  get stale(): boolean {
    return this.value !== undefined && (this.error !== undefined || live.state.is === "cut");
  }

  refresh = (): void => this.#due?.due();

  attach(due: DueRead | undefined): void {
    this.#due = due;
  }
}

/** Reads a value for as long as the component lives, anew whenever its key changes. */
export function read<T>(
  key: () => string | undefined,
  load: (signal: AbortSignal) => Promise<T>,
  options: ReadOptions<T> = {},
): Read<T> {
  const read = new Read<T>();
  $effect(() => {
    const name = key();
    return untrack(() => (name === undefined ? undefined : begin(read, name, load, options)));
  });
  return read;
}

function begin<T>(
  read: Read<T>,
  name: string,
  load: (signal: AbortSignal) => Promise<T>,
  options: ReadOptions<T>,
): () => void {
  const before = kept.get(name);
  read.value = before?.value as T | undefined;
  read.at = before?.at ?? 0;
  read.error = undefined;
  const abort = new AbortController();
  let expiry: ReturnType<typeof setTimeout> | undefined;

  const due = new DueRead(async () => {
    read.busy = true;
    try {
      const value = await load(abort.signal);
      if (abort.signal.aborted) return;
      const at = clock.exact();
      keep(name, { value, at });
      // Text compares a value with its former one, so that nothing is drawn again for no reason.
      if (JSON.stringify(value) !== JSON.stringify(read.value)) read.value = value;
      read.at = at;
      read.error = undefined;
      clearTimeout(expiry);
      const end = options.expires?.(value);
      if (end) expiry = setTimeout(() => due.due(), Math.max(1000, Date.parse(end) - at + 500));
    } catch (cause) {
      if (!abort.signal.aborted) read.error = cause instanceof ApiError ? cause : unreachable(cause);
    } finally {
      read.busy = false;
    }
  });
  read.attach(due);
  due.due();
  const poll = options.every === undefined ? undefined : setInterval(() => due.due(), options.every);
  const quiet = live.listen(
    (event) => options.due?.(event) && due.due(),
    () => due.due(),
  );
  return () => {
    abort.abort();
    due.stop();
    quiet();
    clearTimeout(expiry);
    clearInterval(poll);
    read.attach(undefined);
  };
}

function keep(name: string, one: Kept): void {
  kept.delete(name);
  kept.set(name, one);
  const oldest = kept.keys().next();
  if (kept.size > KEPT && !oldest.done) kept.delete(oldest.value);
}
