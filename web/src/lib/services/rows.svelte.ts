// The rows of the services list: read in pages as they are scrolled to, read again in place when an event
// concerns them. Rows never move: what is new waits behind a button.
import { api, take } from "../api/client";
import type { paths } from "../api/schema";
import { ApiError, unreachable } from "../api/problem";
import type { CloudEvent, Schemas, Service } from "../api/types";
import { clock } from "../live/clock.svelte";
import { DueRead } from "../live/due";
import { live } from "../live/live.svelte";
import type { Filter } from "../model/filter";
import type { Window } from "../model/window";

type Query = NonNullable<paths["/v1/services"]["get"]["parameters"]["query"]>;

const FIRST = 100;
const NEXT = 500;

export class ServiceRows {
  rows = $state.raw<Service[]>([]);
  /** Nothing follows the last row. */
  complete = $state(false);
  error = $state.raw<ApiError>();
  at = $state(0);
  busy = $state(false);
  /** How many services match; undefined before the first answer. */
  total = $state<number>();
  /** Services that were created since the list was read. */
  fresh = $state(0);
  #filter: Filter;
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
      () => this.#gap(),
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
      const first = this.total === undefined;
      const page = await this.#read({
        ...this.#filter,
        ...(this.#next ? { cursor: this.#next } : {}),
        limit: first ? FIRST : NEXT,
        ...(first ? { count: true } : {}),
      });
      if (page.total != null) this.total = page.total;
      const rows = [...this.rows];
      for (const service of page.items) {
        if (this.#places.has(service.id)) continue;
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
  };

  /** The rows that are on screen now: the next page is read before its rows come into view. */
  show(window: Window): void {
    this.#window = window;
    if (window.end > this.rows.length - 40) void this.more();
    if (this.#due.size > 0) this.#again.due();
  }

  #read(query: Query): Promise<Schemas["ServiceList"]> {
    return take(api.GET("/v1/services", { params: { query }, signal: this.#abort.signal }));
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

  /** Events may have been missed: every row is due, and new services are counted. */
  #gap(): void {
    if (this.total === undefined) return;
    for (const id of this.#places.keys()) this.#due.add(id);
    if (this.#due.size > 0) this.#again.due();
    void this.#count().catch(() => undefined);
  }

  async #count(): Promise<void> {
    const before = this.total ?? 0;
    const { total } = await this.#read({ ...this.#filter, limit: 1, count: true });
    if (total != null && total > before + this.fresh) this.fresh = total - before;
  }

  /** Reads the rows again that are due and in view; the others when they come into view. */
  async #readDue(): Promise<void> {
    const inView = this.rows.slice(this.#window.first, this.#window.end).map((one) => one.id);
    const wanted = inView.filter((id) => this.#due.has(id));
    if (wanted.length === 0) return;
    for (const id of wanted) this.#due.delete(id);
    try {
      const page = await this.#read({ ids: wanted.join(","), limit: 1000 });
      this.#replace(page.items);
      this.error = undefined;
    } catch (cause) {
      if (!this.#abort.signal.aborted) this.error = cause instanceof ApiError ? cause : unreachable(cause);
    }
  }

  /** A row that left the list stays in its place, as what it was: gone rows would move the others. */
  #replace(items: Service[]): void {
    const rows = [...this.rows];
    for (const service of items) {
      const place = this.#places.get(service.id);
      if (place !== undefined) rows[place] = service;
    }
    this.rows = rows;
    this.at = clock.exact();
  }
}
