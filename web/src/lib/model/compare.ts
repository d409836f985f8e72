// Four states side by side: what is desired, what execution carries, what was observed, what is projected.
import type { Schemas } from "../api/types";
import { shortObject, valueText, words } from "./text";

type Field = Schemas["ComparedField"];

/** A value in one state: how it relates to the desired one, and its text where that differs. */
export interface CompareCell {
  sign: "=" | "→" | "≠" | "◌";
  text: string;
}

/** One line. An absent cell says nothing, which is not the same as agreeing. */
export interface CompareRow {
  field: string;
  desired: string;
  execution: CompareCell | undefined;
  observed: CompareCell | undefined;
  /** Who wrote what was observed. */
  by: string | undefined;
  since: string | undefined;
  differs: boolean;
}

/** What follows from the template and the plan, and is shown only where it differs. */
const QUIET = ["generated_secrets", "nodes", "workload", "probe", "ports", "resources.cpu_millis", "resources.memory_mib", "command", "restart", "retries"];

/** The lines of a comparison: differences first, then what people ask about. */
export function compareRows(fields: Field[]): CompareRow[] {
  const shown = fields.filter((one) => one.field !== "ready_pods" && (one.state !== "same" || !QUIET.includes(one.field)));
  return shown.map(rowOf).sort((a, b) => rank(a) - rank(b));
}

/** How many pods are ready, of how many. */
export function readyPods(fields: Field[]): { ready: unknown; of: unknown; state: Field["state"] } | undefined {
  const field = fields.find((one) => one.field === "ready_pods");
  return field && field.observed !== undefined ? { ready: field.observed, of: field.desired, state: field.state } : undefined;
}

function rowOf(field: Field): CompareRow {
  const { divergence } = field;
  return {
    field: field.object ? `${shortObject(field.object)} ${field.field}`.trim() : field.field,
    desired: valueText(field.desired),
    execution: divergence ? { sign: "≠", text: acting(divergence) } : executed(field),
    observed: observed(field),
    by: divergence?.by ?? undefined,
    since: divergence?.since,
    differs: field.state === "differs" || divergence != null,
  };
}

function executed(field: Field): CompareCell | undefined {
  if (field.applied === undefined) return undefined;
  return equal(field.applied, field.desired) ? { sign: "=", text: "" } : { sign: "→", text: `still ${valueText(field.applied)}` };
}

function observed(field: Field): CompareCell | undefined {
  if (field.observed === undefined) return field.state === "unknown" ? { sign: "◌", text: "unknown" } : undefined;
  const same = equal(field.observed, field.desired);
  const text = same ? "" : valueText(field.observed);
  // Without fresh evidence a value is unknown, whatever was observed before.
  if (field.state === "unknown") return { sign: "◌", text: `unknown, was ${valueText(field.observed)}` };
  return { sign: same ? "=" : field.state === "pending" ? "→" : "≠", text };
}

/** What the execution does about a divergence. */
function acting({ state, verdict }: Schemas["FieldDivergence"]): string {
  if (state === "open") return verdict === "enforce" ? "reverting" : verdict;
  return state === "in_conflict" ? "in conflict, not enforced" : words(state);
}

function rank(row: CompareRow): number {
  if (row.differs) return 0;
  if (row.execution?.sign === "→" || row.observed?.sign === "→") return 1;
  return { image: 2, replicas: 3, plan: 4 }[row.field] ?? 5;
}

function equal(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Fields of two values that differ, for the comparison of releases. */
export function differences(before: unknown, after: unknown, path = ""): { path: string; before: unknown; after: unknown }[] {
  if (isRecord(before) && isRecord(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return keys.flatMap((key) => differences(before[key], after[key], path ? `${path}.${key}` : key));
  }
  return equal(before, after) ? [] : [{ path, before, after }];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
