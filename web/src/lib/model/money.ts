// Money is an integer of millionths; nothing here rounds an amount before it is shown.
import type { Amount } from "../api/types";

/** `13.14 EUR`; more places only where they are needed, so that nothing shown is wrong. */
export function money(micros: number, currency: string): string {
  return `${decimal(micros)} ${currency}`;
}

/** `13.14`, with at least two places. */
export function decimal(micros: number): string {
  const sign = micros < 0 ? "-" : "";
  const whole = Math.abs(micros);
  const units = Math.floor(whole / 1_000_000);
  const places = String(whole % 1_000_000).padStart(6, "0").replace(/0{1,4}$/, "");
  return `${sign}${units}.${places}`;
}

/** Rounded to two places, for columns; the exact amount belongs into the title. Something is never shown as nothing. */
export function cents(micros: number): string {
  if (micros > 0 && micros < 5_000) return "<0.01";
  const rounded = Math.round(micros / 10_000);
  const sign = rounded < 0 ? "-" : "";
  const whole = Math.abs(rounded);
  return `${sign}${Math.floor(whole / 100)}.${String(whole % 100).padStart(2, "0")}`;
}

/** A value of an axis, with enough places to tell its ticks apart. */
export function axisText(value: number, largest: number): string {
  const places = largest > 0 ? Math.max(2, Math.ceil(-Math.log10(largest)) + 2) : 2;
  return value.toFixed(Math.min(places, 6));
}

/** A rate, rounded to four places: `0.1194`. */
export function rate(micros: number): string {
  return (Math.round(micros / 100) / 10_000).toFixed(4).replace(/0{1,2}$/, "");
}

/** A difference, always with its sign: `+8.76 EUR`, `-8.76 EUR`, `±0.00 EUR`. */
export function difference(before: Amount | null | undefined, after: Amount): string {
  const micros = after.micros - (before?.micros ?? 0);
  const sign = micros > 0 ? "+" : micros < 0 ? "-" : "±";
  return `${sign}${money(Math.abs(micros), after.currency)}`;
}

/** The sum of amounts, by currency: amounts of two currencies are never added. */
export function sums(amounts: (Amount | null | undefined)[]): Amount[] {
  const byCurrency = new Map<string, number>();
  for (const amount of amounts) {
    if (amount) byCurrency.set(amount.currency, (byCurrency.get(amount.currency) ?? 0) + amount.micros);
  }
  return [...byCurrency].map(([currency, micros]) => ({ micros, currency, text: money(micros, currency) }));
}
