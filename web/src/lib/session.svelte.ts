// Who is signed in, in which org, and what they may do. Actions without permission are shown disabled with
// the reason; the server decides in any case.
import { goto } from "$app/navigation";
import { onSignedOut, useOrg } from "./api/client";
import { readSession, signOut, type Session } from "./api/session";
import type { Permission } from "./api/types";
import { live } from "./live/live.svelte";
import { forgetReads } from "./live/read.svelte";

const LEAST_ROLE: Record<Permission, string> = {
  read: "viewer",
  manage_services: "developer",
  manage_secrets: "developer",
  manage_projects: "owner",
  manage_tokens: "owner",
  manage_platform: "operator",
};

class Current {
  session = $state.raw<Session>();
  org = $state("");
  #asked = false;

  get operator(): boolean {
    return this.session?.permissions.includes("manage_platform") ?? false;
  }

  /** The base of the org's addresses. */
  get base(): string {
    return `/orgs/${this.org}`;
  }

  /** Reads the session once; goes to the sign-in page if there is none. */
  async require(from: string): Promise<Session | undefined> {
    if (!this.#asked || !this.session) {
      this.#asked = true;
      this.session = await readSession();
    }
    if (!this.session) {
      const next = from === "/" ? "" : `?next=${encodeURIComponent(from)}`;
      await goto(`/sign-in${next}`, { replaceState: true });
    }
    return this.session;
  }

  enter(session: Session): void {
    this.session = session;
    this.#asked = true;
  }

  /** Makes an org the one that requests are about. */
  use(org: string): void {
    if (this.org !== org) forgetReads();
    this.org = org;
    useOrg(org || undefined);
    if (this.session && org) live.open(this.session.principal.id, org);
    else live.close();
  }

  /** Why an action is not possible; undefined if it is. */
  denied(permission: Permission): string | undefined {
    if (this.session?.permissions.includes(permission)) return undefined;
    const role = this.session?.role ?? "none";
    return `needs the permission ${permission}, which the role ${LEAST_ROLE[permission]} has; yours is ${role}`;
  }

  async leave(): Promise<void> {
    await signOut();
    this.forget();
    await goto("/sign-in");
  }

  forget(): void {
    live.close();
    forgetReads();
    this.session = undefined;
    this.#asked = false;
    this.org = "";
    useOrg(undefined);
  }
}

export const current = new Current();

onSignedOut(() => {
  const from = location.pathname + location.search;
  current.forget();
  if (location.pathname !== "/sign-in") {
    void goto(`/sign-in?ended&next=${encodeURIComponent(from)}`, { replaceState: true });
  }
});
