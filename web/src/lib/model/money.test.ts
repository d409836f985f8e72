import { expect, test } from "vitest";

import { cents, decimal, difference, money, rate, sums } from "./money";

const eur = (micros: number) => ({ micros, currency: "EUR", text: money(micros, "EUR") });

test("amounts have two places, and more only where they are needed", () => {
  expect([0, 8_760_000, 21_608_000, 130, 6_000, -5_000_000].map(decimal)).toEqual([
    "0.00",
    "8.76",
    "21.608",
    "0.00013",
    "0.006",
    "-5.00",
  ]);
  expect(decimal(1_234_567_000_000)).toBe("1234567.00");
});

test("columns round half up to cents, and never to nothing", () => {
  expect([21_608_000, 4_999, 5_000, 995_000, 0].map(cents)).toEqual(["21.61", "<0.01", "0.01", "1.00", "0.00"]);
});

test("rates have four places at most and two at least", () => {
  expect([119_424, 6_000, 1_900_000, 130].map(rate)).toEqual(["0.1194", "0.006", "1.90", "0.0001"]);
});

test("a difference always has its sign", () => {
  expect(difference(eur(13_140_000), eur(21_900_000))).toBe("+8.76 EUR");
  expect(difference(eur(21_900_000), eur(13_140_000))).toBe("-8.76 EUR");
  expect(difference(eur(1), eur(1))).toBe("±0.00 EUR");
  expect(difference(null, eur(4_380_000))).toBe("+4.38 EUR");
});

test("currencies are never added to each other", () => {
  const usd = { micros: 1_000_000, currency: "USD", text: "" };
  expect(sums([eur(1_000_000), usd, null, eur(2_500_000)]).map((one) => one.text)).toEqual(["3.50 EUR", "1.00 USD"]);
});
