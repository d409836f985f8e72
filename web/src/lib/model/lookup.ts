// Where in the dashboard the thing is that an id refers to.
import type { Schemas } from "../api/types";

/** The address of a found id; of an event the list that begins with it is not known, so it is the log. */
export function placeOfLookup(base: string, of: Schemas["Lookup"]): string {
  const project = of.project ? `${base}/projects/${of.project}` : base;
  const service = of.service ? `${project}/services/${of.service}` : project;
  switch (of.kind) {
    case "project":
      return `${base}/projects/${of.name}`;
    case "service":
      return `${project}/services/${of.service_id ?? of.id}`;
    case "cluster":
      return `${base}/clusters/${of.name}`;
    case "release":
      return `${service}/releases`;
    case "endpoint":
    case "domain":
      return `${service}/settings`;
    case "divergence":
    case "conflict":
      return `${base}/drift`;
    case "event":
      return of.service ? `${service}/events` : `${base}/events`;
  }
}
