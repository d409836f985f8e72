// Who is signed in, in which org, and what they may do. Actions without permission are shown disabled with
// the reason; the server decides in any case.
import { goto } from "$app/navigation";
import { page } from "$app/state";
import { onSignedOut, useOrg } from "./api/client";
import { readSession, signOut } from "./api/session";
import type { Permission, Session } from "./api/types";
import { live } from "./live/live.svelte";
import { forgetReads } from "./live/read.svelte";

const LEAST_ROLE: Record<Permission, string> = {
  read: "viewer",
  manage_billing: "billing",
  manage_services: "developer",
  manage_secrets: "developer",
  manage_projects: "owner",
  manage_tokens: "owner",
  manage_platform: "operator",
  read_content: "developer",
  read_billing: "billing",
  manage_members: "owner",
  read_platform: "auditor",
};

/** The platform's own org: events that belong to no tenant, visible to operators only. */
export const PLATFORM_ORG = "trueup";

class Current {
  session = $state.raw<Session>();
  org = $state("");

  get operator(): boolean {
    return this.session?.permissions.includes("manage_platform") ?? false;
  }

  /** The base of the org's addresses. */
  get base(): string {
    return `/orgs/${this.org}`;
  }

  /** The session, or the way to the sign-in page if there is none. */
  async require(from: string): Promise<Session | undefined> {
    this.session ??= await readSession();
    if (!this.session) {
      const next = from === "/" ? "" : `?next=${encodeURIComponent(from)}`;
      await goto(`/sign-in${next}`, { replaceState: true });
    }
    return this.session;
  }

  /** Makes an org the one that requests are about. The role may be another one there. */
  async enterOrg(org: string, from: string): Promise<boolean> {
    if (!(await this.require(from))) return false;
    if (this.org !== org) {
      forgetReads();
      useOrg(org);
      const session = await readSession();
      if (!session) return (await this.require(from)) !== undefined;
      this.session = session;
      this.org = org;
    }
    if (this.session) live.open(this.session.principal.id, org);
    return true;
  }

  enter(session: Session): void {
    this.session = session;
  }

  /** Why an action is not possible in the org, or in the project of the page; undefined if it is. */
  denied(permission: Permission): string | undefined {
    if (this.session?.permissions.includes(permission)) return undefined;
    const project = page.params.project;
    const here = this.session?.projects.find((one) => one.name === project || one.id === project);
    if (here?.permissions.includes(permission)) return undefined;
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
