// Events as sentences, with the words of the command line.
import type { CloudEvent, EventData, Schemas } from "../api/types";
import { moment } from "./age";
import { account } from "./event-account";
import { money } from "./money";
import { phaseRole, HEALTHS, type Role } from "./status";

export interface Sentence {
  role: Role | "strong";
  what: string;
  detail: string;
}

type Key = Schemas["ResourceKey"];

/** The event's type without prefix and version. */
export function shortType(event: Pick<CloudEvent, "type">): string {
  return event.type.replace(/^dev\.trueup\./, "").replace(/\.v\d+$/, "");
}

/** Who acted: a person or token by name, else the source of the event. */
export function actor(event: CloudEvent): string {
  if (event.principalname) return event.principalname;
  const source = event.source.replace("/trueup/", "");
  return source === "k8s_watch" ? "cluster" : source;
}

/** An unknown type is shown as it is, so an older page hides nothing. */
export function sentence(event: CloudEvent): Sentence {
  const data = event.data as EventData;
  const said = request(data, event) ?? loop(data, event) ?? change(data) ?? account(data);
  return said ?? { role: "neutral", what: shortType(event), detail: JSON.stringify(event.data) };
}

/** What people and tokens asked for. */
function request(data: EventData, event: CloudEvent): Sentence | undefined {
  const generation = `generation ${event.generation}`;
  const strong = (what: string, detail: string): Sentence => ({ role: "strong", what, detail });
  switch (data.type) {
    case "ProjectQueued":
      return strong("project accepted", generation);
    case "ServiceQueued": {
      const preview = data.preview ? `, from preview ${data.preview}` : "";
      const action = data.action && data.action !== "declare" ? `, ${data.action}` : "";
      return strong(data.deletes ? "deletion accepted" : "accepted", `${generation}${action}${preview}`);
    }
    case "ProjectDeleteQueued":
      return strong("project deletion", `accepted with ${count(data.services, "service")}`);
    case "ProjectForceQueued":
      return strong("force requested", data.reason);
    case "ReconcileRequested":
      return strong("reconcile requested", "");
    case "ServiceFrozen":
      return strong("frozen", data.reason);
    case "ServiceUnfrozen":
      return strong("unfrozen", "");
    case "ServiceScheduledOff":
      return { role: "neutral", what: "hours ended", detail: `paused by its active hours${data.until ? `; it resumes at ${data.until}` : ""}` };
    case "ServiceScheduledOn":
      return strong("hours began", `resumed by its active hours${data.until ? `; it pauses at ${data.until}` : ""}`);
    case "ServiceScheduleRefused":
      return { role: "bad", what: "not resumed", detail: `its active hours began, but ${data.why}` };
    case "PlatformFrozen":
      return strong("frozen", `${data.cluster ? `cluster ${data.cluster}, ` : ""}${data.reason}`);
    case "PlatformUnfrozen":
      return strong("unfrozen", data.cluster ? `cluster ${data.cluster}` : "");
    case "WakeRequeued":
      return strong("requeued", "");
    case "OrgCreated":
      return strong("org created", data.name);
    case "OrgDeleteQueued": {
      const what = `${count(data.projects, "project")} and ${count(data.services, "service")}`;
      return strong("org deletion", `accepted with ${what}`);
    }
    case "TokenCreated":
      return strong("token created", `${data.role} ${data.name ?? data.token}`);
    case "TokenRevoked":
      return strong("token revoked", data.name ?? data.token);
    case "EndpointOpened":
      return strong("endpoint opened", `${data.name}, port ${data.node_port}`);
    case "EndpointClosed":
      return strong("endpoint closed", `${data.name}, port ${data.node_port}`);
    case "DomainAdded":
      return strong("domain added", data.host);
    case "DomainRemoved":
      return strong("domain removed", data.host);
    case "VariableSet":
      return strong("variable set", `${data.name}, version ${data.version}`);
    case "VariableDeleted":
      return strong("variable deleted", `${data.name}, version ${data.version}`);
    case "SecretSet":
      return strong("secret set", `${data.name}, version ${data.version}`);
    case "SecretDeleted":
      return strong("secret deleted", `${data.name}, version ${data.version}`);
    case "FindingRemovalRequested":
    case "FindingRemovalAsked":
      return strong("removal requested", short(data.key));
    default:
      return undefined;
  }
}

/** What the loops did, and what they saw. */
function loop(data: EventData, event: CloudEvent): Sentence | undefined {
  const say = (role: Role | "strong", what: string, detail: string): Sentence => ({ role, what, detail });
  switch (data.type) {
    case "ReconcileStarted":
      return say("neutral", "started", `generation ${event.generation}`);
    case "ReconcileSucceeded":
      return say("good", "applied", `generation ${event.generation}`);
    case "ReconcileFailed":
      return say("bad", "failed, will retry", data.why);
    case "ReconcileDeferred":
      return say("moving", "deferred", data.why);
    case "ReconcileChecked":
      return say("good", "reconciled", data.outcome);
    case "ResourceCreated":
      return say("neutral", "created", short(data.key));
    case "ResourceUpdated":
      return say("neutral", "updated", short(data.key));
    case "ResourceRemoved":
      return say("neutral", "removed", short(data.key));
    case "ResourceDeletedExternally":
      return say("warn", "deleted by others", `${short(data.key)}; recreating it`);
    case "ResourceModifiedExternally":
      return say("warn", "edited by others", `${place(data.key, data.field)}${data.by ? `, by ${data.by}` : ""}`);
    case "ServicePhaseChanged": {
      const ends = data.phase === "running" || data.phase === "completed";
      const role = ends ? HEALTHS[data.health].role : phaseRole(data.phase);
      return say(role, data.phase, data.message ? `${data.health}: ${data.message}` : data.health);
    }
    case "AbsenceVerified":
      return say("good", "absence verified", `${count(data.keys, "object")} verified absent`);
    case "ServiceDeleteForced":
    case "ProjectDeleteForced":
      return say("bad", "deletion forced", `${count(data.unproven, "object")} not proven absent: ${data.reason}`);
    case "ClusterUnreachable":
      return say("unknown", "cluster unreachable", `last heard at ${moment(data.since)}: ${data.why}`);
    case "ClusterReachable":
      return say("good", "cluster reachable", `after ${data.after_s} seconds`);
    case "ClusterReplaced":
      return say("moving", "cluster replaced", `cluster ${data.cluster} has a new identity`);
    case "FindingOpened":
      return say("warn", "found", `${short(data.key)}, ${data.class}: no record of it`);
    case "FindingClosed":
      return say("good", "finding closed", `${short(data.key)}: ${data.why}`);
    case "FindingKept":
      return say("bad", "not removed", `${short(data.key)}: ${data.why}`);
    default:
      return drift(data);
  }
}

function drift(data: EventData): Sentence | undefined {
  const say = (role: Role | "strong", what: string, detail: string): Sentence => ({ role, what, detail });
  switch (data.type) {
    case "DriftDetected":
      return say("warn", "drift detected", place(data.key, data.field));
    case "DriftReverted":
      return say("moving", "drift reverted", place(data.key, data.field));
    case "DriftIgnored":
      return say("neutral", "drift ignored", place(data.key, data.field));
    case "DriftProposed":
      return say("warn", "adoption proposed", `${place(data.key, data.field)}; decide by ${moment(data.expires_at)}`);
    case "DriftAdopted":
      return say("strong", "drift adopted", `${place(data.key, data.field)} as ${data.parameter}`);
    case "DriftRejected":
      return say("strong", "adoption rejected", place(data.key, data.field));
    case "DriftEnded":
      return say("good", "drift ended", `${place(data.key, data.field)}, ${data.class}`);
    case "ConflictRaised":
      return say("bad", "conflict raised", `${place(data.key, data.field)}${data.by ? `, with ${data.by}` : ""}`);
    case "ConflictSettled": {
      const until = data.until ? ` until ${moment(data.until)}` : "";
      return say("strong", "conflict settled", `${place(data.key, data.field)}, ${data.decision}${until}`);
    }
    default:
      return undefined;
  }
}

/** Changes to the catalogue and the account. */
function change(data: EventData): Sentence | undefined {
  const say = (what: string, detail: string): Sentence => ({ role: "strong", what, detail });
  switch (data.type) {
    case "PlanChanged": {
      const price = data.price
        ? `, ${money(data.price.hourly_micros, data.price.currency)} an hour from ${moment(data.price.from)}`
        : "";
      return say(data.retired ? "plan retired" : "plan changed", `${data.plan}${price}`);
    }
    case "TemplatePublished":
      return say("template published", data.template);
    case "TemplateDeprecated":
      return say("template deprecated", data.template);
    case "RoutingChanged":
      return say("routing changed", `cluster ${data.cluster}`);
    case "QuotaChanged":
      return say("quota changed", "");
    case "DomainVerified":
      return say(data.verified ? "domain verified" : "domain no longer verified", data.host);
    case "DomainCheckRequested":
    case "DomainLookAsked":
      return say("DNS check requested", data.host);
    case "DomainContested":
      return { role: "bad", what: "domain contested", detail: `${data.host} belongs to another org` };
    default:
      return undefined;
  }
}

export function short(key: Pick<Key, "kind" | "name">): string {
  return `${key.kind}/${key.name}`;
}

function place(key: Key, field: string): string {
  return field === "" ? short(key) : `${short(key)}: ${field}`;
}

/** `1 object`, `3 objects`. */
export function count(number: number, thing: string): string {
  return `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
}
