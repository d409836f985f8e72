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

export interface Party {
  name: string;
  address: string;
  reference: string;
}

export interface InvoiceLine {
  id: string;
  item: string;
  unit: string;
  quantity: string;
  from: string;
  until: string;
  price: string;
  hourly?: Amount | null;
  amount: Amount;
  correction: boolean;
  entries: number[];
  evidence: string;
}

export interface Invoice {
  id: string;
  number: string;
  state: "issued" | "paid" | "void";
  period: CostReport["period"];
  seller: Party;
  customer: Party;
  currency: string;
  lines: InvoiceLine[];
  subtotal: Amount;
  tax_percent: string;
  tax: Amount;
  total: Amount;
  credit: Amount;
  due: Amount;
  issued_at: string;
  due_at: string;
  paid_at?: string | null;
  voided_at?: string | null;
  reason?: string | null;
  ledger_seq: number;
  hash: string;
}

export interface InvoiceList {
  items: Invoice[];
  next?: string | null;
}

export interface CreditList {
  items: {
    id: string;
    granted: Amount;
    used: Amount;
    expired: Amount;
    left: Amount;
    reason: string;
    granted_by: string;
    granted_at: string;
    expires_at?: string | null;
  }[];
  left: Amount;
}

interface LineEvidence {
  observer: string;
  epoch: number;
  seen_at: string;
  transition?: string | null;
}

export interface LineExplanation {
  invoice: string;
  line: InvoiceLine;
  entries: Schemas["LedgerEntry"][];
  intervals: {
    object: string;
    service?: string | null;
    from: string;
    until: string;
    quantity: string;
    value: Amount;
    basis: "observed" | "last_known" | "estimated";
    simulated: boolean;
    first: LineEvidence;
    last: LineEvidence;
    hash: string;
  }[];
  transitions: Schemas["Transition"][];
  rounding: Amount;
  unchanged: boolean;
}

export type RoleName = Schemas["Role"] | "billing" | "admin" | "auditor";
export type PermissionName = Schemas["Permission"] | "read_content" | "read_billing" | "manage_members" | "read_platform";

export interface Member {
  id: string;
  name: string;
  email: string;
  role: RoleName;
  joined_at: string;
}

export interface Invitation {
  id: string;
  email: string;
  role: RoleName;
  created_at: string;
  expires_at: string;
}

export interface NewInvitation extends Invitation {
  code?: string;
}
