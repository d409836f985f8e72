// The only way to the server: typed by the OpenAPI document, four requests at a time, with the org,
// the proof of a same-site write and the idempotency key on each request that needs them.
import createClient from "openapi-fetch";

import { clock } from "../live/clock.svelte";
import { ApiError, isProblem, problemOf, unreachable } from "./problem";
import type { paths } from "./schema";
import { Slots } from "./slots";

/** An org runs twelve requests at once; one page must not take them all. */
const slots = new Slots(4);

/** The org that requests are about. */
let org: string | undefined;

export function useOrg(name: string | undefined): void {
  org = name;
}

export function currentOrg(): string | undefined {
  return org;
}

/** Requests that sign in: their 401 is about what was typed, not about a session. */
const SIGN_IN = /^\/v1\/(session|setup|invitations\/accept)/;

let signedOut: () => void = () => undefined;

/** Called when the server no longer knows the session. */
export function onSignedOut(handler: () => void): void {
  signedOut = handler;
}

/** The headers of a request that do not come from its body. */
export function requestHeaders(method: string): Headers {
  const headers = new Headers();
  if (org) headers.set("trueup-org", org);
  if (method !== "GET") {
    headers.set("x-trueup-csrf", "1");
    if (method === "POST") headers.set("idempotency-key", crypto.randomUUID());
  }
  return headers;
}

/** A fetch that waits for a slot, knows the server's clock and turns failures into problems. */
export async function send(request: Request): Promise<Response> {
  for (const [name, value] of requestHeaders(request.method)) {
    if (!request.headers.has(name)) request.headers.set(name, value);
  }
  const free = await slots.take(request.signal);
  try {
    const began = Date.now();
    const response = await fetch(request);
    clock.heard(response.headers.get("date"), began, Date.now());
    if (response.status === 401 && !SIGN_IN.test(new URL(request.url).pathname)) signedOut();
    return response;
  } catch (cause) {
    if (request.signal.aborted) throw cause;
    throw unreachable(cause);
  } finally {
    free();
  }
}

export const api = createClient<paths>({
  baseUrl: typeof location === "undefined" ? "" : location.origin,
  fetch: send,
});

/** The data of an answer, or an `ApiError`. */
export async function take<T>(
  answer: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<NonNullable<T>> {
  const { data, error, response } = await answer;
  if (response.ok) return (data ?? ({} as T)) as NonNullable<T>;
  throw isProblem(error) ? new ApiError(error, retryAfter(response)) : await problemOf(response);
}

function retryAfter(response: Response): number | undefined {
  return Number(response.headers.get("retry-after")) || undefined;
}

/** A write, or its preview with `dry_run`. The key makes a retry of the same write act once. */
export async function write<T>(
  method: "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  body?: unknown,
  options: { dryRun?: boolean; signal?: AbortSignal; key?: string; query?: Record<string, string> } = {},
): Promise<T> {
  const query = new URLSearchParams(options.query);
  if (options.dryRun) query.set("dry_run", "true");
  const text = query.toString();
  const headers = new Headers();
  if (body !== undefined) headers.set("content-type", "application/json");
  if (options.key) headers.set("idempotency-key", options.key);
  const request = new Request(path + (text ? `?${text}` : ""), {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(options.signal ? { signal: options.signal } : {}),
  });
  const response = await send(request);
  if (!response.ok) throw await problemOf(response);
  const answer = await response.text();
  return (answer === "" ? undefined : JSON.parse(answer)) as T;
}

/** A path with each value encoded: names come from addresses that anyone can write. */
export function path(parts: TemplateStringsArray, ...values: string[]): string {
  return parts.reduce((made, part, at) => made + encodeURIComponent(values[at - 1] ?? "") + part);
}

/** A read whose path or parameters the document of this branch does not have yet. */
export async function get<T>(at: string, query: Record<string, string | undefined>, signal?: AbortSignal): Promise<T> {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "");
  const text = new URLSearchParams(given).toString();
  const response = await send(new Request(at + (text ? `?${text}` : ""), signal ? { signal } : {}));
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as T;
}
