// How a status is shown: reconciliation as a sign, health as a shape, phase as a word.
import type { Health, Phase, Reconciliation, Service } from "../api/types";

/** What a colour says. */
export type Role = "good" | "moving" | "warn" | "bad" | "unknown" | "neutral";

export const SIGNS: Record<Reconciliation, { sign: string; word: string; role: Role }> = {
  settled: { sign: "=", word: "settled", role: "good" },
  pending: { sign: "→", word: "pending", role: "moving" },
  diverged: { sign: "≠", word: "diverged", role: "warn" },
};

export const HEALTHS: Record<Health, { shape: string; role: Role }> = {
  healthy: { shape: "●", role: "good" },
  progressing: { shape: "◐", role: "moving" },
  degraded: { shape: "▲", role: "warn" },
  error: { shape: "✖", role: "bad" },
  unknown: { shape: "◌", role: "unknown" },
};

const PHASES: Record<Phase, Role> = {
  accepted: "moving",
  creating: "moving",
  running: "neutral",
  updating: "moving",
  completed: "neutral",
  paused: "neutral",
  deleting: "moving",
  blocked: "bad",
  deleted: "neutral",
};

export function phaseRole(phase: Phase): Role {
  return PHASES[phase];
}

/** The part of a service that its status is shown from. */
export type Shown = Pick<Service, "status" | "reconciliation" | "generation" | "desired">;

/** The sentence under a service's name: what was accepted, and what is true of it. */
export function truth({ status, reconciliation, generation, desired }: Shown): string {
  const applied = status.applied_generation;
  if (status.phase === "deleted") return "Deleted; its absence is proved.";
  if (desired === "deleted") return `Deletion accepted as generation ${generation}. It is not proved absent yet.`;
  if (applied === generation) {
    if (reconciliation === "diverged") return `Generation ${generation} is applied, but the cluster differs from it.`;
    if (reconciliation === "pending") return `Generation ${generation} is applied; the service is not settled yet.`;
    return `The cluster carries generation ${generation}.`;
  }
  const now = applied == null ? "no generation yet" : String(applied);
  return `Accepted: generation ${generation}. The cluster carries ${now}.`;
}

/** How urgently a service needs a person, the most urgent first; undefined if it does not. */
export function urgency(service: Shown & Pick<Service, "frozen">): number | undefined {
  const { status, reconciliation } = service;
  if (status.phase === "blocked") return 0;
  if (status.health === "error") return 1;
  if (reconciliation === "diverged") return 2;
  if (status.health === "degraded") return 3;
  if (status.health === "unknown" && status.last_known_health) return 4;
  if (service.frozen) return 5;
  return undefined;
}

/** Whether a status is confirmed at a moment: its watches were heard of recently enough. */
export function isFresh(status: Service["status"], now: number): boolean {
  return status.stale_at != null && Date.parse(status.stale_at) > now;
}
