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

export async function signOut(): Promise<void> {
  const response = await send(new Request("/v1/session", { method: "DELETE" }));
  if (!response.ok && response.status !== 401) throw await problemOf(response);
}

async function post(path: string, body: unknown): Promise<Session> {
  const headers = { "content-type": "application/json" };
  const request = new Request(path, { method: "POST", headers, body: JSON.stringify(body) });
  const response = await send(request);
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as Session;
}
