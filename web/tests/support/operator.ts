// What a test does as an operator of the server under test.
import { readFileSync } from "node:fs";

import { call } from "./api.ts";

/** The operator's token, given or found where the server on this machine keeps it. */
export const OPERATOR = process.env["TRUEUP_OPERATOR_TOKEN"] ?? kept();

function kept(): string | undefined {
  const folder = process.env["TRUEUP_DATA_DIR"];
  try {
    return folder ? readFileSync(`${folder}/operator.token`, "utf8").trim() : undefined;
  } catch {
    return undefined;
  }
}

/** A request of an operator about an org. */
export async function asOperator<T>(org: string, method: string, path: string, body?: unknown): Promise<T> {
  if (!OPERATOR) throw new Error("TRUEUP_OPERATOR_TOKEN is not set: see docs/guides/dashboard.md");
  return call<T>(method, path, body, OPERATOR, org);
}
