import { expect, test } from "vitest";

import type { Schemas, Service } from "../api/types";
import { compareRows, differences, readyPods } from "./compare";
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

type Field = Schemas["ComparedField"];

test("differences come first and name their writer, and what is done about them", () => {
  const rows = compareRows([
    { field: "image", desired: "web:1.4", applied: "web:1.4", observed: "web:1.4", state: "same" },
    { field: "workload", desired: "deployment", applied: "deployment", observed: "deployment", state: "same" },
    {
      field: "replicas",
      desired: 3,
      applied: 3,
      observed: 5,
      state: "differs",
      divergence: { id: "dvg_1", by: "kubectl-edit", since: "2026-01-01T00:00:00Z", verdict: "enforce", state: "open" },
    },
  ] as unknown as Field[]);
  expect(rows.map((row) => row.field)).toEqual(["replicas", "image"]);
  expect(rows[0]).toMatchObject({ desired: "3", execution: { sign: "≠", text: "reverting" }, observed: { sign: "≠", text: "5" }, by: "kubectl-edit" });
  expect(rows[1]).toMatchObject({ execution: { sign: "=" }, observed: { sign: "=" } });
});

test("nothing is claimed before it was applied and observed, and old evidence is unknown", () => {
  const accepted = { field: "replicas", desired: 3, state: "pending" } as Field;
  expect(compareRows([accepted])[0]).toMatchObject({ execution: undefined, observed: undefined, differs: false });
  const carried = { field: "replicas", desired: 3, applied: 2, observed: 2, state: "pending" } as unknown as Field;
  expect(compareRows([carried])[0]).toMatchObject({ execution: { sign: "→", text: "still 2" }, observed: { sign: "→", text: "2" } });
  const stale = { field: "replicas", desired: 3, applied: 3, observed: 3, state: "unknown" } as unknown as Field;
  expect(compareRows([stale])[0]).toMatchObject({ observed: { sign: "◌", text: "unknown, was 3" } });
  expect(readyPods([{ field: "ready_pods", desired: 2, observed: 1, state: "pending" } as unknown as Field])).toMatchObject({ ready: 1, of: 2 });
});

test("values are compared field by field", () => {
  expect(differences({ a: { b: 1, c: 2 }, d: [1] }, { a: { b: 1, c: 3 }, d: [1], e: true })).toEqual([
    { path: "a.c", before: 2, after: 3 },
    { path: "e", before: undefined, after: true },
  ]);
});
