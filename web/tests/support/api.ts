// The API and kubectl beside the browser: what a journey prepares, breaks and checks.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { BASE_URL, ORG, TOKEN } from "./browser.ts";

const run = promisify(execFile);
/** Another address only where a development server is in front of the dashboard. */
const API_URL = process.env["API_URL"] ?? BASE_URL;

export async function call<T>(method: string, path: string, body?: unknown, token = TOKEN, org = ORG): Promise<T> {
  const headers: Record<string, string> = { authorization: `Bearer ${token}`, "trueup-org": org };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(API_URL + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** Changes the cluster as another writer. */
export async function kubectl(...args: string[]): Promise<string> {
  return (await run("kubectl", ["--kubeconfig", process.env["TRUEUP_KUBECONFIG"] ?? "", ...args])).stdout;
}

/** Why a journey that changes the cluster cannot run; false if it can. */
export async function withoutKubectl(): Promise<string | false> {
  if (!process.env["TRUEUP_KUBECONFIG"]) return "TRUEUP_KUBECONFIG is not set";
  return run("kubectl", ["version", "--client"]).then(() => false as const, () => "kubectl is not installed");
}

/** A name that no earlier run has used. */
export function fresh(name: string): string {
  return `${name}-${Date.now().toString(36).slice(-6)}`;
}
