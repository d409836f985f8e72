import { expect, test } from "vitest";

import { hoursOf, lines, sentence, windows } from "./hours";

test("windows are read and written the same", () => {
  const text = "mon-fri 15:00-23:00\nsat,sun 10:00-02:00\n08:00-09:00";
  const { hours } = hoursOf(text, " Europe/Berlin ");
  expect(hours?.zone).toBe("Europe/Berlin");
  expect(hours?.windows[0]?.days).toEqual(["mon", "tue", "wed", "thu", "fri"]);
  expect(hours?.windows[2]).toEqual({ from: "08:00", to: "09:00" });
  expect(lines(hours)).toBe(text);
  expect(hours && sentence(hours)).toBe("mon-fri 15:00-23:00; sat,sun 10:00-02:00; 08:00-09:00, Europe/Berlin");
});

test("days pass the end of the week, and full names are understood", () => {
  expect(windows("Friday-Monday 18:00-23:00")).toEqual({ windows: [{ days: ["fri", "sat", "sun", "mon"], from: "18:00", to: "23:00" }] });
});

test("no window is no hours, and a bad one says how to write it", () => {
  expect(hoursOf(" \n", "UTC")).toEqual({});
  expect(hoursOf("mon-fri", "UTC").wrong).toContain("mon-fri 15:00-23:00");
  expect(hoursOf("someday 15:00-23:00", "UTC").wrong).toContain("mon, tue");
});
