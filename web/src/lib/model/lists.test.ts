import { expect, test } from "vitest";

import type { CloudEvent } from "../api/types";
import { sentence, shortType } from "./event";
import { filterOf, queryOf } from "./filter";
import { best } from "./match";
import { rowsInView } from "./window";

const event = (type: string, data: object, source = "/trueup/reconciler"): CloudEvent =>
  ({ type: `dev.trueup.${type}.v1`, generation: 2, source, data: { type, ...data } }) as unknown as CloudEvent;

test("events have the words of the command line", () => {
  const key = { kind: "Deployment", namespace: "shop", name: "web-1" };
  for (const [one, what, detail] of [
    [event("ServiceQueued", { deletes: false, principal: "tok_1" }), "accepted", "generation 2"],
    [event("ServiceQueued", { deletes: true, principal: "tok_1" }), "deletion accepted", "generation 2"],
    [event("ServicePhaseChanged", { phase: "running", health: "healthy" }), "running", "healthy"],
    [event("ResourceModifiedExternally", { key, field: "spec.replicas", by: "kubectl" }), "edited by others", "Deployment/web-1: spec.replicas, by kubectl"],
    [event("DriftReverted", { key, field: "spec.replicas" }), "drift reverted", "Deployment/web-1: spec.replicas"],
    [event("AbsenceVerified", { keys: 7 }), "absence verified", "7 objects verified absent"],
    [event("SomethingNew", { a: 1 }), "SomethingNew", '{"type":"SomethingNew","a":1}'],
  ] as const) {
    expect(sentence(one)).toMatchObject({ what, detail });
    expect(shortType(one)).not.toContain("dev.trueup");
  }
});

test("a filter survives its address", () => {
  const filter = { search: "a b&c", health: "unknown" as const, project: "shop" };
  expect(filterOf(new URLSearchParams(queryOf(filter)))).toEqual(filter);
  expect(queryOf({})).toBe("");
  expect(filterOf(new URLSearchParams("health=&other=1"))).toEqual({});
});

test("the best match is first, and letters must occur in order", () => {
  const names = ["shop/storefront", "shop/store", "games/survival", "restore"];
  expect(best(names, "store", (name) => name, 3)).toEqual(["shop/store", "shop/storefront", "restore"]);
  expect(best(names, "gsur", (name) => name, 3)).toEqual(["games/survival"]);
  expect(best(names, "xyz", (name) => name, 3)).toEqual([]);
});

test("only rows in view and a few more are drawn", () => {
  expect(rowsInView(0, 400, 40, 10_000)).toEqual({ first: 0, end: 20 });
  expect(rowsInView(399_600, 400, 40, 10_000)).toEqual({ first: 9980, end: 10_000 });
  expect(rowsInView(0, 400, 40, 0)).toEqual({ first: 0, end: 0 });
});
