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
  { name: "Tokens", icon: "tokens", path: "/tokens", key: "t" },
];

/** The place of an address. */
export function placeOf(base: string, path: string): Place | undefined {
  const rest = path.slice(base.length);
  if (rest === "" || rest === "/") return PLACES[0];
  if (/^\/projects\/[^/]+\/services\//.test(rest)) return PLACES[1];
  return PLACES.find((place) => place.path !== "" && (rest === place.path || rest.startsWith(`${place.path}/`)));
}
