import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Slots } from "../api/slots";
import { DueRead } from "./due";
import { SseParser } from "./sse";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a message may come in pieces; comments and empty blocks are none", () => {
  const parser = new SseParser();
  expect(parser.feed(": hello\n\nid: 4\nev")).toEqual([]);
  expect(parser.feed("ent: x\ndata: a\ndata:b\n")).toEqual([]);
  expect(parser.feed("\r\n\r\ndata: c\r\n\r\n")).toEqual([
    { id: "4", event: "x", data: "a\nb" },
    { id: "4", data: "c" },
  ]);
});

test("a burst of events is one read at once and one after the gap", async () => {
  let reads = 0;
  const due = new DueRead(async () => void (reads += 1));
  for (let at = 0; at < 100; at += 1) due.due();
  expect(reads).toBe(1);
  await vi.advanceTimersByTimeAsync(0);
  for (let at = 0; at < 100; at += 1) due.due();
  await vi.advanceTimersByTimeAsync(199);
  expect(reads).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(reads).toBe(2);
});

test("what becomes due during a read is read again after it", async () => {
  let reads = 0;
  const due = new DueRead(async () => {
    reads += 1;
    await new Promise((resolve) => setTimeout(resolve, 500));
  });
  due.due();
  await vi.advanceTimersByTimeAsync(100);
  due.due();
  await vi.advanceTimersByTimeAsync(400);
  expect(reads).toBe(2);
  due.stop();
  due.due();
  await vi.advanceTimersByTimeAsync(5000);
  expect(reads).toBe(2);
});

test("slots are given in turn, and an aborted wait takes none", async () => {
  const slots = new Slots(1);
  const first = await slots.take();
  const abort = new AbortController();
  const aborted = slots.take(abort.signal);
  const order: string[] = [];
  const third = slots.take().then((free) => {
    order.push("third");
    free();
  });
  abort.abort(new Error("gone"));
  await expect(aborted).rejects.toThrow("gone");
  first();
  first();
  await third;
  expect(order).toEqual(["third"]);
  (await slots.take())();
});
