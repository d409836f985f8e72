// Checked by the compiler only: the generated types know every enum, and each case must be handled.
import { connect, type EventData, type Problem, type Service } from "./client.js";

type Health = Service["status"]["health"];

/** A new health fails to compile here. */
export function colour(health: Health): "green" | "amber" | "red" | "grey" {
  switch (health) {
    case "healthy":
      return "green";
    case "progressing":
    case "degraded":
      return "amber";
    case "error":
      return "red";
    case "unknown":
      return "grey";
  }
}

/** The data of an event is a union, told apart by its type. */
export function sentence(data: EventData): string {
  switch (data.type) {
    case "ServicePhaseChanged":
      return `${data.phase}, ${data.health}`;
    case "DriftReverted":
      return `${data.key.kind}/${data.key.name}: ${data.field}`;
    default:
      return data.type;
  }
}

/** A problem has a code of the list, and each operation says which ones it answers. */
export function isGone(problem: Problem): boolean {
  // @ts-expect-error no such code
  const wrong: boolean = problem.code === "TU0000";
  return problem.code === "TU1003" || wrong;
}

/** A receipt and a release's spec are typed as well. */
export async function proofOf(url: string, token: string): Promise<string | undefined> {
  const client = connect(url, token);
  const path = { project: "shop", service: "web" };
  const { data, error } = await client.GET("/v1/projects/{project}/services/{service}", {
    params: { path },
  });
  if (error !== undefined) {
    return error.detail;
  }
  const releases = await client.GET("/v1/projects/{project}/services/{service}/releases", {
    params: { path },
  });
  const image: string | undefined = releases.data?.items[0]?.spec.image;
  return data.receipt?.level ?? image;
}
