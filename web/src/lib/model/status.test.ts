import { expect, test } from "vitest";

import type { Service } from "../api/types";
import { compareRows, differences } from "./compare";
import { isFresh, truth, urgency } from "./status";

const service = (over: object, status: object = {}): Service =>
  ({
    generation: 4,
    desired: "active",
    reconciliation: "settled",
    parameters: { image: "web:1.4", replicas: 3 },
    replicas: 3,
    plan: "small",
    status: { phase: "running", health: "healthy", conditions: [], simulated: false, since: "2026-01-01T00:00:00Z", ...status },
    ...over,
  }) as unknown as Service;

test("accepted is not true before it was observed", () => {
  expect(truth(service({ reconciliation: "pending" }, { applied_generation: 3 }))).toBe(
    "Accepted: generation 4. The cluster carries 3.",
  );
  expect(truth(service({ reconciliation: "pending" }))).toBe("Accepted: generation 4. The cluster carries no generation yet.");
  expect(truth(service({}, { applied_generation: 4 }))).toBe("The cluster carries generation 4.");
  expect(truth(service({ reconciliation: "diverged" }, { applied_generation: 4 }))).toContain("differs");
  expect(truth(service({ desired: "deleted" }, { phase: "deleting" }))).toContain("not proved absent yet");
});

test("what needs a person is ranked, and what goes well is not in the list", () => {
  expect(urgency(service({}))).toBeUndefined();
  expect(urgency(service({ reconciliation: "pending" }))).toBeUndefined();
  expect(urgency(service({}, { phase: "blocked" }))).toBeLessThan(urgency(service({}, { health: "error" }))!);
  expect(urgency(service({ reconciliation: "diverged" }))).toBe(2);
  expect(urgency(service({}, { health: "unknown" }))).toBeUndefined();
  expect(urgency(service({}, { health: "unknown", last_known_health: "healthy" }))).toBe(4);
});

test("a status without evidence is never fresh", () => {
  const now = Date.parse("2026-01-01T00:01:00Z");
  expect(isFresh(service({}).status, now)).toBe(false);
  expect(isFresh(service({}, { stale_at: "2026-01-01T00:00:59Z" }).status, now)).toBe(false);
  expect(isFresh(service({}, { stale_at: "2026-01-01T00:01:01Z" }).status, now)).toBe(true);
});

test("differences come first and name their writer", () => {
  const difference = {
    object: "Deployment/web-1",
    field: "spec.replicas",
    class: "edited",
    wanted: 3,
    live: 5,
    by: "kubectl-edit",
    verdict: "enforce",
    state: "open",
  };
  const rows = compareRows(service({ reconciliation: "diverged", divergences: [difference] }, { applied_generation: 4 }), undefined);
  expect(rows[0]).toMatchObject({ field: "replicas", desired: "3", observed: { same: false, text: "5", by: "kubectl-edit" } });
  expect(rows[0]?.execution).toEqual({ same: false, text: "reverting" });
  expect(rows[1]).toMatchObject({ field: "image", observed: { same: true } });
});

test("nothing is claimed about execution before a generation is applied", () => {
  const rows = compareRows(service({ reconciliation: "pending" }), undefined);
  expect(rows.every((row) => row.execution === undefined && row.observed === undefined)).toBe(true);
});

test("values are compared field by field", () => {
  expect(differences({ a: { b: 1, c: 2 }, d: [1] }, { a: { b: 1, c: 3 }, d: [1], e: true })).toEqual([
    { path: "a.c", before: 2, after: 3 },
    { path: "e", before: undefined, after: true },
  ]);
});
