import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { EventStream, STALE_MS, type StreamState } from "./stream";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A server that answers each opening as it is told. */
function rig() {
  const opened: (string | undefined)[] = [];
  const events: string[] = [];
  const states: StreamState[] = [];
  let gaps = 0;
  let answer: () => Response = () => new Response(null, { status: 503 });
  let body: ReadableStreamDefaultController<Uint8Array> | undefined;
  const live = (): Response =>
    new Response(new ReadableStream<Uint8Array>({ start: (controller) => void (body = controller) }));
  const stream = new EventStream({
    open: (after, signal) => {
      opened.push(after);
      const response = answer();
      signal.addEventListener("abort", () => {
        try {
          body?.error(new Error("aborted"));
        } catch {
          // It was closed before.
        }
      });
      return Promise.resolve(response);
    },
    onEvent: (data) => events.push(data),
    onState: (state) => states.push(state),
    onGap: () => (gaps += 1),
    random: () => 1,
  });
  return {
    stream,
    opened,
    events,
    states,
    gaps: () => gaps,
    serve: (next: () => Response) => (answer = next),
    live,
    send: async (text: string) => {
      body?.enqueue(new TextEncoder().encode(text));
      await vi.advanceTimersByTimeAsync(0);
    },
    cut: async () => {
      body?.close();
      await vi.advanceTimersByTimeAsync(0);
    },
    last: () => states.at(-1)?.is,
  };
}

test("a stream that is cut resumes after the last position and misses nothing", async () => {
  const server = rig();
  server.serve(server.live);
  server.stream.start();
  await vi.advanceTimersByTimeAsync(0);
  await server.send("id: 7\nevent: x\ndata: one\n\n");
  await server.cut();
  expect(server.last()).toBe("cut");
  await vi.advanceTimersByTimeAsync(1000);
  expect(server.opened).toEqual([undefined, "7"]);
  expect(server.last()).toBe("live");
  // Everything was read when it began; after that the position is enough.
  expect([server.events, server.gaps()]).toEqual([["one"], 1]);
});

test("comment lines prove life; silence is stale, then cut", async () => {
  const server = rig();
  server.serve(server.live);
  server.stream.start();
  await vi.advanceTimersByTimeAsync(30_000);
  await server.send(": still here\n\n");
  await vi.advanceTimersByTimeAsync(STALE_MS - 1);
  expect(server.last()).toBe("live");
  await vi.advanceTimersByTimeAsync(1);
  expect(server.last()).toBe("stale");
  await vi.advanceTimersByTimeAsync(25_000);
  expect(server.last()).toBe("cut");
});

test("an ended session stops; nothing is tried again", async () => {
  const server = rig();
  server.serve(() => new Response("{}", { status: 401 }));
  server.stream.start();
  await vi.advanceTimersByTimeAsync(600_000);
  expect([server.opened.length, server.last()]).toEqual([1, "ended"]);
});

test("a position that no longer exists starts anew and reads everything again", async () => {
  const server = rig();
  server.serve(server.live);
  server.stream.start();
  await vi.advanceTimersByTimeAsync(0);
  await server.send("id: 9\ndata: x\n\n");
  server.serve(() => new Response('{"code":"TU1103","detail":"position 9 does not exist"}', { status: 400 }));
  await server.cut();
  await vi.advanceTimersByTimeAsync(1000);
  server.serve(server.live);
  await vi.advanceTimersByTimeAsync(30_000);
  expect(server.opened).toEqual([undefined, "9", undefined]);
  expect(server.gaps()).toBe(2);
});

test("the wait doubles up to half a minute, and a shown page does not wait", async () => {
  const server = rig();
  server.stream.start();
  await vi.advanceTimersByTimeAsync(0);
  const waits: number[] = [];
  for (let at = 0; at < 7; at += 1) {
    const state = server.states.at(-1);
    const wait = state?.is === "cut" ? state.retryAt - Date.now() : 0;
    waits.push(wait);
    await vi.advanceTimersByTimeAsync(wait);
  }
  expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  const before = server.opened.length;
  server.stream.hurry();
  await vi.advanceTimersByTimeAsync(0);
  expect(server.opened.length).toBe(before + 1);
  server.stream.close();
});
