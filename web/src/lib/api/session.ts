// Signing in and out. The cookie is HttpOnly: this page never sees a credential after sending it.
import { send } from "./client";
import { problemOf } from "./problem";
import type { Session } from "./types";

/** The session of this browser, with the role in the current org; undefined if nobody is signed in. */
export async function readSession(): Promise<Session | undefined> {
  const response = await send(new Request("/v1/session"));
  if (response.status === 401) return undefined;
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as Session;
}

export async function signIn(email: string, password: string): Promise<Session> {
  return post("/v1/session", { email, password });
}

export async function signInWithToken(token: string): Promise<Session> {
  return post("/v1/session/token", { token });
}

/** Creates the first account, with the code of the link that `trueup up` prints. */
export async function setUp(body: { code: string; email: string; name: string; password: string }): Promise<Session> {
  return post("/v1/setup", body);
}

/** Accepts an invitation: with the password of the account, or a name and a password for a new one. */
export async function acceptInvitation(body: { code: string; name?: string; password: string }): Promise<Session> {
  return post("/v1/invitations/accept", body);
}

/** Where to sign in with the provider of an address. The cookie that comes with it ties the sign-in to this browser. */
export async function startWithProvider(email: string): Promise<string> {
  return (await post<{ url: string }>("/v1/session/provider/start", { email })).url;
}

/** Ends a sign-in with what the provider gave this browser to bring back. */
export async function signInWithProvider(body: { state: string; code: string; iss?: string }): Promise<Session> {
  return post("/v1/session/provider", body);
}

export async function signOut(): Promise<void> {
  const response = await send(new Request("/v1/session", { method: "DELETE" }));
  if (!response.ok && response.status !== 401) throw await problemOf(response);
}

async function post<T = Session>(path: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json" };
  const request = new Request(path, { method: "POST", headers, body: JSON.stringify(body) });
  const response = await send(request);
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as T;
}
