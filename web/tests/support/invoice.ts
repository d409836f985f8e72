// An invoice to look at: one that exists, or one for what was used so far.
import { call } from "./api.ts";
import { ORG } from "./browser.ts";
import { asOperator } from "./operator.ts";

interface Invoice {
  id: string;
  number: string;
  due: { text: string };
  lines: { id: string; item: string; amount: { text: string; micros: number } }[];
}

export async function someInvoice(): Promise<Invoice> {
  const { items } = await call<{ items: Invoice[] }>("GET", "/v1/invoices?limit=10");
  const found = items.find((one) => one.lines.length > 0);
  if (found) return found;
  return asOperator<Invoice>(ORG, "POST", "/v1/invoices", { early: true });
}
