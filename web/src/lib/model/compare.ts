// Four states side by side: what is desired, what execution carries, what was observed, what is projected.
import type { Difference, Release, Service } from "../api/types";
import { shortObject, valueText } from "./text";

/** One line: a value in each state. An absent cell says nothing, which is not the same as agreeing. */
export interface CompareRow {
  field: string;
  desired: string;
  /** The generation in execution has this value, or another one. */
  execution: { same: boolean; text: string } | undefined;
  observed: { same: boolean; text: string; by?: string } | undefined;
  projected: string | undefined;
}

/** The rows for what the service asks for, then one for each difference that no parameter names. */
export function compareRows(service: Service, applied: Release | undefined): CompareRow[] {
  const differences = service.divergences ?? [];
  const named = new Set<Difference>();
  const carries = service.status.applied_generation != null;
  const wanted = new Map<string, unknown>(Object.entries(service.parameters));
  if (!wanted.has("replicas")) wanted.set("replicas", service.replicas);
  if (service.plan) wanted.set("plan", service.plan);
  const rows = [...wanted].map(([field, value]): CompareRow => {
    const difference = differences.find((one) => concerns(one, field));
    if (difference) named.add(difference);
    const before = appliedValue(applied, field, service);
    return {
      field,
      desired: valueText(value),
      execution: difference
        ? { same: false, text: acting(difference) }
        : carries
        ? { same: before === undefined || valueText(before) === valueText(value), text: valueText(before ?? value) }
        : undefined,
      observed: difference ? seen(difference) : carries ? { same: true, text: "" } : undefined,
      projected: undefined,
    };
  });
  for (const difference of differences.filter((one) => !named.has(one))) rows.push(rowOf(difference));
  return rows.sort((a, b) => rank(a) - rank(b));
}

function rowOf(difference: Difference): CompareRow {
  const field = difference.field === "" ? shortObject(difference.object) : difference.field;
  return {
    field: difference.field === "" ? field : `${difference.object.split("/")[0] ?? ""} ${field}`,
    desired: valueText(difference.wanted),
    execution: { same: false, text: acting(difference) },
    observed: seen(difference),
    projected: undefined,
  };
}

/** What the execution does about a difference. */
function acting(difference: Difference): string {
  if (difference.state === "open") return difference.verdict === "enforce" ? "reverting" : difference.verdict;
  return difference.state === "in_conflict" ? "in conflict, not enforced" : difference.state;
}

function seen(difference: Difference): { same: boolean; text: string; by?: string } {
  const text = difference.class === "deleted" ? "deleted" : valueText(difference.live);
  return { same: false, text, ...(difference.by ? { by: difference.by } : {}) };
}

function concerns(difference: Difference, field: string): boolean {
  const last = difference.field.split(".").at(-1);
  return last === field;
}

function appliedValue(applied: Release | undefined, field: string, service: Service): unknown {
  if (!applied || applied.generation === service.generation) return undefined;
  if (field === "plan") return applied.plan ?? "(none)";
  if (field === "replicas") return applied.spec.replicas;
  return applied.parameters[field] ?? null;
}

/** Differences first, then the fields people ask about. */
function rank(row: CompareRow): number {
  if (row.observed && !row.observed.same) return 0;
  if (row.execution && !row.execution.same) return 1;
  return { image: 2, replicas: 3, plan: 4 }[row.field] ?? 5;
}

/** Fields of two values that differ, for the comparison of releases. */
export function differences(before: unknown, after: unknown, path = ""): { path: string; before: unknown; after: unknown }[] {
  if (isRecord(before) && isRecord(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return keys.flatMap((key) => differences(before[key], after[key], path ? `${path}.${key}` : key));
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
