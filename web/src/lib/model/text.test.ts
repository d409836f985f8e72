import { expect, test } from "vitest";

import { age, clockTime, moment } from "./age";
import { clean, cores, memory, middle, valueText } from "./text";

test("ages have at most two units, as on the command line", () => {
  const now = Date.parse("2026-01-10T00:00:00Z");
  for (const [then, text] of [
    ["2026-01-10T00:00:05Z", "0s"],
    ["2026-01-09T23:59:18Z", "42s"],
    ["2026-01-09T23:58:30Z", "1m30s"],
    ["2026-01-09T23:30:30Z", "29m"],
    ["2026-01-09T22:48:00Z", "1h12m"],
    ["2026-01-09T04:10:00Z", "19h"],
    ["2026-01-02T00:00:00Z", "8d"],
  ] as const) {
    expect(age(now, Date.parse(then))).toBe(text);
  }
});

test("moments are in UTC and say so", () => {
  expect(moment("2026-11-18T19:44:42.839053Z")).toBe("2026-11-18 19:44:42Z");
  expect(clockTime("2026-11-18T19:44:42.839053Z")).toBe("19:44:42Z");
});

test("characters that mislead are replaced", () => {
  expect(clean("a\u001b[31m\nb")).toBe("a [31m b");
  expect(clean("a\u009bb\u202ec\u2066d\u200be")).toBe("a b c d e");
});

test("an absent value is said, and a string is not quoted", () => {
  expect(valueText(undefined)).toBe("(none)");
  expect(valueText("web:1.4")).toBe("web:1.4");
  expect(valueText({ a: 1 })).toBe('{"a":1}');
});

test("ids are cut in the middle, sizes have the unit that reads best", () => {
  expect(middle("svc_01m7r319h5fnb9csfev5arsd2j")).toBe("svc_01m7…arsd2j");
  expect(middle("short")).toBe("short");
  expect([memory(256), memory(2048), memory(1536)]).toEqual(["256 MiB", "2 GiB", "1.5 GiB"]);
  expect([cores(250), cores(12_250)]).toEqual(["0.25", "12.25"]);
});
