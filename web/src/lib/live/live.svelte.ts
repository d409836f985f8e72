// What the page knows about its connection, and who wants to hear of events.
import { requestHeaders } from "../api/client";
import type { CloudEvent } from "../api/types";
import { clock } from "./clock.svelte";
import { shareStream } from "./share";
import type { StreamState } from "./stream";

type Listener = (event: CloudEvent) => void;

class Live {
  state = $state<StreamState>({ is: "connecting" });
  /** When something was last heard on the stream, by the server's clock. */
  heardAt = $state(0);
  #listeners = new Set<Listener>();
  #gaps = new Set<() => void>();
  #shared: { close(): void; hurry(): void } | undefined;
  #name = "";

  /** Whether what is on screen is kept up to date. */
  get current(): boolean {
    return this.state.is === "live";
  }

  /** Opens the stream of an org for a session; does nothing if it is open already. */
  open(session: string, org: string): void {
    const name = `trueup:${session}:${org}`;
    if (this.#name === name) return;
    this.close();
    this.#name = name;
    clock.start();
    this.#shared = shareStream(name, {
      open: (after, signal) => {
        const headers = requestHeaders("GET");
        headers.set("trueup-org", org);
        headers.set("accept", "text/event-stream");
        if (after !== undefined) headers.set("last-event-id", after);
        return fetch("/v1/events/watch", { headers, signal, cache: "no-store" });
      },
      now: () => clock.exact(),
      onEvent: (data) => {
        const event = JSON.parse(data) as CloudEvent;
        for (const listener of this.#listeners) listener(event);
      },
      onState: (state, heardAt) => {
        this.state = state;
        this.heardAt = heardAt;
      },
      onGap: () => {
        for (const gap of this.#gaps) gap();
      },
    });
    document.addEventListener("visibilitychange", this.#shown);
  }

  close(): void {
    this.#shared?.close();
    this.#shared = undefined;
    this.#name = "";
    this.state = { is: "connecting" };
    if (typeof document !== "undefined") {
      document.removeEventListener("visibilitychange", this.#shown);
    }
  }

  hurry(): void {
    this.#shared?.hurry();
  }

  /** Hears every event, and of times in which events may have been missed. */
  listen(listener: Listener, gap: () => void): () => void {
    this.#listeners.add(listener);
    this.#gaps.add(gap);
    return () => {
      this.#listeners.delete(listener);
      this.#gaps.delete(gap);
    };
  }

  #shown = (): void => {
    if (document.visibilityState === "visible") this.hurry();
  };
}

export const live = new Live();
