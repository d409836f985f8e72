// Every screen, by the name of its picture.
import { ORG } from "./browser.ts";

const org = `/orgs/${ORG}`;
const service = `${org}/projects/shop/services/storefront`;

export interface Screen {
  name: string;
  path: string;
  /** Whether it is a screen of operators. */
  operator?: boolean;
  /** Before signing in. */
  anonymous?: boolean;
}

export const SCREENS: Screen[] = [
  { name: "sign-in", path: "/sign-in", anonymous: true },
  { name: "sign-in-token", path: "/sign-in?with=key", anonymous: true },
  { name: "set-up", path: "/set-up#code", anonymous: true },
  { name: "accept", path: "/accept#code", anonymous: true },
  { name: "overview", path: org },
  { name: "services", path: `${org}/services` },
  { name: "services-none", path: `${org}/services?search=zzz` },
  { name: "service", path: service },
  { name: "service-why", path: `${service}/why` },
  { name: "service-objects", path: `${service}/objects` },
  { name: "service-releases", path: `${service}/releases` },
  { name: "service-events", path: `${service}/events` },
  { name: "service-history", path: `${service}/history` },
  { name: "service-logs", path: `${service}/logs` },
  { name: "service-settings", path: `${service}/settings` },
  { name: "service-cost", path: `${service}/cost` },
  { name: "service-edit", path: `${service}/edit` },
  { name: "service-scale", path: `${service}?do=scale` },
  { name: "service-delete", path: `${service}?do=delete` },
  { name: "service-missing", path: `${org}/projects/shop/services/no-such` },
  { name: "new-service", path: `${org}/services/new` },
  { name: "new-service-web", path: `${org}/services/new?template=web@1&project=shop` },
  { name: "projects", path: `${org}/projects` },
  { name: "project", path: `${org}/projects/shop` },
  { name: "drift", path: `${org}/drift?ended` },
  { name: "clusters", path: `${org}/clusters` },
  { name: "cluster", path: `${org}/clusters/local` },
  { name: "billing", path: `${org}/billing` },
  { name: "invoices", path: `${org}/billing/invoices` },
  { name: "subscription", path: `${org}/billing/subscription` },
  { name: "ledger", path: `${org}/billing/ledger` },
  { name: "billing-account", path: `${org}/billing/account` },
  { name: "plans", path: `${org}/plans` },
  { name: "events", path: `${org}/events` },
  { name: "event", path: `${org}/events?at=3` },
  { name: "members", path: `${org}/members` },
  { name: "tokens", path: `${org}/tokens` },
  { name: "token-new", path: `${org}/tokens?new` },
  { name: "platform-orgs", path: "/platform", operator: true },
  { name: "platform-work", path: "/platform/work", operator: true },
  { name: "platform-findings", path: "/platform/findings", operator: true },
  { name: "platform-freezes", path: "/platform/freezes", operator: true },
  { name: "platform-events", path: "/platform/events", operator: true },
];

/** The screens of an invoice, whose ids are known only when it is issued. */
export function invoiceScreens(invoice: string, line: string): Screen[] {
  const path = `${org}/billing/invoices/${invoice}`;
  return [
    { name: "invoice", path },
    { name: "invoice-line", path: `${path}/lines/${line}` },
  ];
}
