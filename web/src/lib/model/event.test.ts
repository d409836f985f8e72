import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import type { CloudEvent } from "../api/types";
import { sentence } from "./event";

const event = (data: Record<string, unknown>, type: string): CloudEvent =>
  ({ type: `dev.trueup.${type}.v1`, source: "/trueup/api", generation: 1, data: { type, ...data } }) as unknown as CloudEvent;

/** A fact that has every field; a moment is valid wherever text is. */
function fact(type: string): unknown {
  const known: Record<string, unknown> = { type, key: { kind: "Deployment", name: "web" }, price: null };
  return new Proxy(known, { get: (of, field: string) => (field in of ? of[field] : "2026-01-10T00:00:00Z") });
}

test("every fact of the API document is a sentence, not its JSON", () => {
  const document = JSON.parse(readFileSync("../openapi/trueup.json", "utf8")) as { components: { schemas: Record<string, unknown> } };
  const text = JSON.stringify(document.components.schemas["EventData"]);
  const names = [...text.matchAll(/"type":\{[^{}]*"enum":\["(\w+)"\]/g)].map((found) => found[1] ?? "");
  expect(names.length).toBeGreaterThan(50);
  const silent = names.filter((name) => {
    const of = { ...event({}, name), data: fact(name) } as CloudEvent;
    return sentence(of).what === name;
  });
  expect(silent).toEqual([]);
});

test("a fact that this page does not know is shown as it is", () => {
  expect(sentence(event({ from: "elsewhere" }, "Invented")).detail).toBe('{"type":"Invented","from":"elsewhere"}');
});
