// Types of reads that other branches add to the OpenAPI document; they become generated ones with it.
import type { Amount, Cluster, CostReport, Schemas, Service } from "./types";

export type ServicePage = Schemas["ServiceList"] & { total?: number };

export interface Need {
  cause: "blocked" | "conflict" | "failing" | "proposal";
  id?: string;
  project: string;
  service?: string;
  service_id?: string;
  since: string;
  message: string;
  hourly?: Amount | null;
}

export interface Overview {
  as_of: string;
  services: {
    total: number;
    reconciliation: Partial<Record<Service["reconciliation"], number>>;
    health: Partial<Record<Service["status"]["health"], number>>;
    phase: Partial<Record<Service["status"]["phase"], number>>;
  };
  needs: { total: number; items: Need[] };
  drift: { open: number; proposals: number; conflicts: number; hourly: Amount[] };
  work: { queued: number; running: number; dead: number; oldest_due_at?: string | null };
  clusters: Cluster[];
  spend: Pick<CostReport, "period" | "currency" | "as_of" | "spent" | "hourly" | "forecast">;
  seal: { unsealed: number; oldest_at?: string | null };
}
