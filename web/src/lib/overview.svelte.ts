// The overview of the org in one read, shared by the page and the strip.
import { api, take } from "./api/client";
import type { Overview } from "./api/types";
import { read, type Read } from "./live/read.svelte";
import { current } from "./session.svelte";

/** Nothing announces that a cluster went silent, so it is also read every ten seconds. */
export function overviewRead(): Read<Overview> {
  return read(
    () => (current.org ? `${current.org}/overview` : undefined),
    (signal) => take(api.GET("/v1/overview", { signal })),
    { due: (event) => /Service|Drift|Conflict|Absence|Reconcile|Cluster|Frozen/.test(event.type), every: 10_000 },
  );
}
