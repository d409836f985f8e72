// The places of the rail, in one order for the rail, the bottom bar, the palette and the shortcuts.
import type { IconName } from "../ui/Icon.svelte";

export interface Place {
  name: string;
  icon: IconName;
  /** After the base of the org. */
  path: string;
  /** The second key after `g`. */
  key: string;
}

export const PLACES: Place[] = [
  { name: "Overview", icon: "overview", path: "", key: "o" },
  { name: "Services", icon: "services", path: "/services", key: "s" },
  { name: "Projects", icon: "projects", path: "/projects", key: "p" },
  { name: "Drift", icon: "drift", path: "/drift", key: "d" },
  { name: "Clusters", icon: "clusters", path: "/clusters", key: "c" },
  { name: "Billing", icon: "billing", path: "/billing", key: "b" },
  { name: "Plans", icon: "plans", path: "/plans", key: "l" },
  { name: "Events", icon: "events", path: "/events", key: "e" },
  { name: "Members", icon: "members", path: "/members", key: "m" },
  { name: "Tokens", icon: "tokens", path: "/tokens", key: "t" },
];

/** The places of operators, after /platform. */
export const PLATFORM: Place[] = [
  { name: "Orgs", icon: "members", path: "", key: "o" },
  { name: "Work queue", icon: "events", path: "/work", key: "w" },
  { name: "Findings", icon: "drift", path: "/findings", key: "f" },
  { name: "Freezes", icon: "clusters", path: "/freezes", key: "z" },
  { name: "Platform log", icon: "billing", path: "/events", key: "e" },
];

/** The places for an address, and their base. */
export function placesOf(org: string, path: string): { base: string; places: Place[] } {
  const platform = path === "/platform" || path.startsWith("/platform/");
  return platform ? { base: "/platform", places: PLATFORM } : { base: `/orgs/${org}`, places: PLACES };
}

/** The place of an address. */
export function placeOf({ base, places }: { base: string; places: Place[] }, path: string): Place | undefined {
  const rest = path.slice(base.length);
  if (rest === "" || rest === "/") return places[0];
  if (/^\/projects\/[^/]+\/services\//.test(rest)) return places[1];
  return places.find((place) => place.path !== "" && (rest === place.path || rest.startsWith(`${place.path}/`)));
}
