// The rows of the services list: read in pages as they are scrolled to, read again in place when an event
// concerns them. Rows never move: what is new waits behind a button.
import { api, take } from "../api/client";
import { ApiError, unreachable } from "../api/problem";
import type { CloudEvent, Service } from "../api/types";
import { clock } from "../live/clock.svelte";
import { DueRead } from "../live/due";
import { live } from "../live/live.svelte";
import type { Filter } from "../model/filter";
import type { Window } from "../model/window";

const FIRST = 100;
const NEXT = 500;

interface Page {
  cursor: string | undefined;
  limit: number;
  /** The ids of its rows: a page that is read again fills the same places. */
  ids: string[];
}

export class ServiceRows {
  rows = $state.raw<Service[]>([]);
  /** Nothing follows the last row. */
  complete = $state(false);
  error = $state.raw<ApiError>();
  at = $state(0);
  busy = $state(false);
  /** Services that were created since the list was read. */
  fresh = $state(0);
  #filter: Filter;
  #pages: Page[] = [];
  #next: string | undefined;
  #places = new Map<string, number>();
  #due = new Set<string>();
  #window: Window = { first: 0, end: 0 };
  #abort = new AbortController();
  #again = new DueRead(() => this.#readDue());
  #quiet: () => void;

  constructor(filter: Filter) {
    this.#filter = filter;
    this.#quiet = live.listen(
      (event) => this.#event(event),
      () => this.#markAll(),
    );
    void this.more();
  }

  stop(): void {
    this.#abort.abort();
    this.#again.stop();
    this.#quiet();
  }

  /** Reads the next page, if there is one. */
  more = async (): Promise<void> => {
    if (this.busy || this.complete) return;
    this.busy = true;
    this.error = undefined;
    try {
      const limit = this.#pages.length === 0 ? FIRST : NEXT;
      const cursor = this.#next;
      const page = await this.#read(cursor, limit);
      this.#pages.push({ cursor, limit, ids: page.items.map((one) => one.id) });
      const rows = [...this.rows];
      for (const service of page.items) {
        if (!this.#matches(service) || this.#places.has(service.id)) continue;
        this.#places.set(service.id, rows.length);
        rows.push(service);
      }
      this.rows = rows;
      this.at = clock.exact();
      this.#next = page.next ?? undefined;
      this.complete = !page.next;
    } catch (cause) {
      if (!this.#abort.signal.aborted) this.error = cause instanceof ApiError ? cause : unreachable(cause);
    } finally {
      this.busy = false;
    }
    // A filter of this page may leave a read page empty: go on until there is something to show.
    if (!this.error && !this.complete && this.rows.length < FIRST && !this.#abort.signal.aborted) await this.more();
  };

  /** The rows that are on screen now: the next page is read before its rows come into view. */
  show(window: Window): void {
    this.#window = window;
    if (window.end > this.rows.length - 40) void this.more();
    if (this.#due.size > 0) this.#again.due();
  }

  #read(cursor: string | undefined, limit: number) {
    const { reconciliation: _here, ...server } = this.#filter;
    const query = { ...server, limit, ...(cursor ? { cursor } : {}) };
    return take(api.GET("/v1/services", { params: { query }, signal: this.#abort.signal }));
  }

  #matches(service: Service): boolean {
    return !this.#filter.reconciliation || service.reconciliation === this.#filter.reconciliation;
  }

  #event(event: CloudEvent): void {
    const id = event.subject;
    if (this.#places.has(id)) {
      this.#due.add(id);
      this.#again.due();
    } else if (event.data.type === "ServiceQueued" && event.generation === 1) {
      this.fresh += 1;
    }
  }

  #markAll(): void {
    for (const id of this.#places.keys()) this.#due.add(id);
    if (this.#due.size > 0) this.#again.due();
  }

  /** Reads the pages again that hold rows which are due and in view. */
  async #readDue(): Promise<void> {
    const inView = new Set(this.rows.slice(this.#window.first, this.#window.end).map((one) => one.id));
    const pages = this.#pages.filter((page) => page.ids.some((id) => this.#due.has(id) && inView.has(id)));
    for (const page of pages) {
      const visible = page.ids.filter((id) => inView.has(id) && this.#due.has(id));
      for (const id of visible) this.#due.delete(id);
      try {
        const read = await this.#read(page.cursor, page.limit);
        this.#replace(read.items, visible);
      } catch (cause) {
        if (!this.#abort.signal.aborted) this.error = cause instanceof ApiError ? cause : unreachable(cause);
      }
    }
  }

  #replace(items: Service[], wanted: string[]): void {
    const rows = [...this.rows];
    const read = new Map(items.map((one) => [one.id, one]));
    for (const id of wanted) {
      const place = this.#places.get(id);
      const service = read.get(id);
      // A row that left the list stays in its place, as what it was: gone rows would move the others.
      if (place !== undefined && service) rows[place] = service;
    }
    this.rows = rows;
    this.at = clock.exact();
  }
}

