// The tabs of a service, in order.

export const TABS = ["overview", "why", "objects", "releases", "events", "history", "logs", "settings", "cost"] as const;
export type Tab = (typeof TABS)[number];

export function tabOf(name: string | undefined): Tab | undefined {
  return name === undefined ? "overview" : TABS.find((tab) => tab === name);
}
