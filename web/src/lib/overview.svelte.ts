// The overview, read once for the page and the strip.
import { api, take } from "./api/client";
import type { Amount, Health, Reconciliation, Service } from "./api/types";
import { read, type Read } from "./live/read.svelte";
import { sums } from "./model/money";
import { urgency } from "./model/status";
import { current } from "./session.svelte";

export interface Overview {
  counts: Record<Reconciliation, number> & { total: number };
  health: Record<Health, number>;
  /** What needs a person, the most urgent first. */
  attention: Service[];
  attentionTotal: number;
  /** The names behind the ids of services, for events. */
  names: { id: string; project: string; name: string }[];
  monthly: Amount[];
}

export function overviewRead(): Read<Overview> {
  return read(
    () => (current.org ? `${current.org}/overview` : undefined),
    readOverview,
    { due: (event) => /Service|Drift|Conflict|Absence|Reconcile/.test(event.type) },
  );
}

async function readOverview(signal: AbortSignal): Promise<Overview> {
  const services: Service[] = [];
  let cursor: string | undefined;
  do {
    const query = { limit: 1000, ...(cursor ? { cursor } : {}) };
    const page = await take(api.GET("/v1/services", { params: { query }, signal }));
    services.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor);
  return overviewOf(services);
}

export function overviewOf(services: Service[]): Overview {
  const counts = { total: services.length, settled: 0, pending: 0, diverged: 0 };
  const health = { healthy: 0, progressing: 0, degraded: 0, error: 0, unknown: 0 };
  for (const service of services) {
    counts[service.reconciliation] += 1;
    health[service.status.health] += 1;
  }
  const ranked = services.flatMap((service) => {
    const rank = urgency(service);
    return rank === undefined ? [] : [{ service, rank }];
  });
  ranked.sort((a, b) => a.rank - b.rank || a.service.status.since.localeCompare(b.service.status.since));
  return {
    counts,
    health,
    attention: ranked.slice(0, 10).map((one) => one.service),
    attentionTotal: ranked.length,
    names: services.map(({ id, project, name }) => ({ id, project, name })),
    monthly: sums(services.map((service) => service.monthly)),
  };
}
