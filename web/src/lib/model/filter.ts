// The filters of the services list, in the address so that a link shows the same rows.
import type { Health, Phase, Reconciliation, Schemas } from "../api/types";

export interface Filter {
  search?: string;
  project?: string;
  template?: string;
  plan?: string;
  phase?: Phase;
  health?: Health;
  reconciliation?: Reconciliation;
  desired?: Schemas["DesiredState"];
}

const KEYS = ["search", "project", "template", "plan", "phase", "health", "reconciliation", "desired"] as const;

export function filterOf(query: URLSearchParams): Filter {
  const filter: Record<string, string> = {};
  for (const key of KEYS) {
    const value = query.get(key);
    if (value) filter[key] = value;
  }
  return filter;
}

/** The address of a filter: keys in one order, so that the same rows have one address. */
export function queryOf(filter: Filter): string {
  const query = new URLSearchParams();
  for (const key of KEYS) {
    const value = filter[key];
    if (value) query.set(key, value);
  }
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

export function isFiltered(filter: Filter): boolean {
  return KEYS.some((key) => filter[key]);
}
