// Words and colours of invoices.
import type { Invoice, LineExplanation } from "../api/types";
import type { Role } from "../model/status";

export const INVOICE_ROLES: Record<Invoice["state"], Role> = { issued: "moving", paid: "good", void: "neutral" };

/** What an interval of usage is based on. */
export const BASES: Record<LineExplanation["intervals"][number]["basis"], string> = {
  observed: "observed",
  last_known: "last known: not observed, charged as it was last seen",
  estimated: "estimated: not observed",
};
