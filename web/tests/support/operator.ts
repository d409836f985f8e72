// What a test does as an operator of the server under test.
import { call } from "./api.ts";

export const OPERATOR = process.env["TRUEUP_OPERATOR_TOKEN"];

/** A request of an operator about an org. */
export async function asOperator<T>(org: string, method: string, path: string, body?: unknown): Promise<T> {
  if (!OPERATOR) throw new Error("TRUEUP_OPERATOR_TOKEN is not set: see docs/guides/dashboard.md");
  return call<T>(method, path, body, OPERATOR, org);
}
