// What somebody typed about a provider, as the API takes it.
import type { Role, Schemas } from "$lib/api/types";

export interface Draft {
  name: string;
  issuer: string;
  clientId: string;
  secret: string;
  domains: string;
  groups: string;
}

export const EMPTY: Draft = { name: "", issuer: "", clientId: "", secret: "", domains: "", groups: "" };

/** The body, as soon as every required field has something in it; the server checks the rest. */
export function declaration(draft: Draft): Schemas["ProviderRequest"] | undefined {
  const domains = draft.domains.split(/[\s,]+/).filter(Boolean);
  const lines = draft.groups.split("\n").map((line) => line.trim());
  const groups = lines.filter(Boolean).map((line) => {
    const at = line.lastIndexOf("=");
    return { group: line.slice(0, Math.max(at, 0)).trim(), role: line.slice(at + 1).trim() as Role };
  });
  const [issuer, clientId] = [draft.issuer.trim(), draft.clientId.trim()];
  if (!draft.name.trim() || !issuer || !clientId || !domains.length || !groups.length) return undefined;
  return { issuer, client_id: clientId, domains, groups, ...(draft.secret ? { client_secret: draft.secret } : {}) };
}
