// One stream per browser and org: a server speaks HTTP/1.1 with six connections to one browser, and a
// stream in each tab would use them up. The tab that holds the lock reads the stream and tells the others.
import { EventStream, type StreamParts, type StreamState } from "./stream";

type Told =
  | { is: "event"; data: string; position: string | undefined }
  | { is: "state"; state: StreamState; heardAt: number }
  | { is: "gap" }
  | { is: "hello" };

/** Opens the stream of a name in one tab; closing it passes it to the next tab. */
export function shareStream(name: string, parts: StreamParts): { close(): void; hurry(): void } {
  if (typeof navigator === "undefined" || !("locks" in navigator)) {
    const own = new EventStream(parts);
    own.start();
    return own;
  }
  const channel = new BroadcastChannel(name);
  const stopped = new AbortController();
  let stream: EventStream | undefined;
  let position: string | undefined;
  let last: { state: StreamState; heardAt: number } | undefined;

  channel.onmessage = ({ data }: MessageEvent<Told>) => {
    if (data.is === "hello") {
      if (stream && last) channel.postMessage({ is: "state", ...last } satisfies Told);
    } else if (!stream) {
      if (data.is === "event") {
        position = data.position ?? position;
        parts.onEvent(data.data, data.position);
      } else if (data.is === "state") {
        parts.onState(data.state, data.heardAt);
      } else {
        parts.onGap();
      }
    }
  };

  const tell = (told: Told): void => {
    if (!stopped.signal.aborted) channel.postMessage(told);
  };

  // What this tab read before it listened may be old already.
  tell({ is: "hello" });
  parts.onGap();

  void navigator.locks
    .request(name, { signal: stopped.signal }, async () => {
      stream = new EventStream({
        ...parts,
        onEvent: (data, at) => {
          position = at ?? position;
          parts.onEvent(data, at);
          tell({ is: "event", data, position: at });
        },
        onState: (state, heardAt) => {
          last = { state, heardAt };
          parts.onState(state, heardAt);
          tell({ is: "state", state, heardAt });
        },
        onGap: () => {
          parts.onGap();
          tell({ is: "gap" });
        },
      });
      stream.start(position);
      await new Promise<void>((resolve) => {
        stopped.signal.addEventListener("abort", () => resolve(), { once: true });
      });
      stream.close();
    })
    .catch(() => undefined);

  return {
    close: () => {
      stopped.abort();
      channel.close();
    },
    hurry: () => stream?.hurry(),
  };
}
