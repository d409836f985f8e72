// One event stream that stays open: it resumes where it was cut, says how old the last sign of life is,
// and reads everything again when it cannot resume.
import { SseParser } from "./sse";

export type StreamState =
  | { is: "connecting" }
  | { is: "live" }
  /** Nothing was heard for longer than the server ever pauses. */
  | { is: "stale" }
  | { is: "cut"; why: string; retryAt: number }
  /** The session ended: trying again is useless. */
  | { is: "ended" };

/** Longer than two of the comment lines that the server sends every 15 seconds. */
export const STALE_MS = 35_000;
const DEAD_MS = 60_000;
const MIN_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 30_000;

export interface StreamParts {
  /** Opens the stream after a position. */
  open: (after: string | undefined, signal: AbortSignal) => Promise<Response>;
  onEvent: (data: string, position: string | undefined) => void;
  onState: (state: StreamState, heardAt: number) => void;
  /** Events may have been missed: everything on screen is to be read again. */
  onGap: () => void;
  now?: () => number;
  random?: () => number;
}

export class EventStream {
  #parts: Required<StreamParts>;
  #position: string | undefined;
  #heardAt = 0;
  #attempt = 0;
  #abort: AbortController | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #opened = false;

  constructor(parts: StreamParts) {
    this.#parts = { now: Date.now, random: Math.random, ...parts };
  }

  start(after?: string): void {
    this.#position = after;
    void this.#connect();
  }

  /** Connects at once if it is waiting, such as when the page is shown again. */
  hurry(): void {
    if (this.#retry === undefined) return;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    void this.#connect();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#abort?.abort();
  }

  async #connect(): Promise<void> {
    this.#abort = new AbortController();
    this.#tell({ is: "connecting" });
    try {
      const response = await this.#parts.open(this.#position, this.#abort.signal);
      if (this.#closed) return;
      if (!response.ok || !response.body) {
        await this.#refused(response);
        return;
      }
      // Without a position nothing is known about the time before.
      if (this.#position === undefined || !this.#opened) this.#parts.onGap();
      this.#opened = true;
      this.#heard();
      await this.#read(response.body);
      this.#again("the server ended the stream");
    } catch (cause) {
      if (!this.#closed) this.#again(cause instanceof Error ? cause.message : String(cause));
    }
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const parser = new SseParser();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.#closed) return;
      this.#heard();
      for (const message of parser.feed(decoder.decode(value, { stream: true }))) {
        if (message.id !== undefined) this.#position = message.id;
        this.#parts.onEvent(message.data, message.id);
      }
    }
  }

  async #refused(response: Response): Promise<void> {
    if (response.status === 401) {
      this.#closed = true;
      this.#tell({ is: "ended" });
      return;
    }
    const text = await response.text().catch(() => "");
    if (response.status === 400 && text.includes("TU1103") && this.#position !== undefined) {
      // The position does not exist, as after a restore of the database: begin without one.
      this.#position = undefined;
    }
    const after = Number(response.headers.get("retry-after")) * 1000;
    this.#again(titleOf(text) ?? `HTTP ${response.status}`, after || undefined);
  }

  /** A sign of life: resets the backoff and the wait for silence. */
  #heard(): void {
    this.#heardAt = this.#parts.now();
    this.#attempt = 0;
    this.#tell({ is: "live" });
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => {
      this.#tell({ is: "stale" });
      this.#silence = setTimeout(() => this.#abort?.abort(), DEAD_MS - STALE_MS);
    }, STALE_MS);
  }

  #again(why: string, wait?: number): void {
    if (this.#closed) return;
    clearTimeout(this.#silence);
    this.#abort?.abort();
    const backoff = Math.min(MAX_BACKOFF_MS, MIN_BACKOFF_MS * 2 ** this.#attempt);
    this.#attempt += 1;
    const delay = Math.max(wait ?? 0, backoff * (0.5 + this.#parts.random() / 2));
    this.#tell({ is: "cut", why, retryAt: this.#parts.now() + delay });
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      void this.#connect();
    }, delay);
  }

  #tell(state: StreamState): void {
    this.#parts.onState(state, this.#heardAt);
  }
}

function titleOf(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { detail?: string }).detail;
  } catch {
    return undefined;
  }
}
