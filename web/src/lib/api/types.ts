// Short names for the types of the OpenAPI document.
import type { components } from "./schema";

export type Schemas = components["schemas"];
export type Service = Schemas["Service"];
export type Project = Schemas["Project"];
export type Cluster = Schemas["Cluster"];
export type CloudEvent = Schemas["CloudEvent"];
/** One fact of the event log; narrow it by `type`. */
export type EventData = Schemas["EventData"];
export type Divergence = Schemas["Divergence"];
export type Difference = Schemas["Difference"];
export type Conflict = Schemas["Conflict"];
export type Preview = Schemas["Preview"];
export type Quota = Schemas["Quota"];
export type Amount = Schemas["Amount"];
export type Release = Schemas["Release"];
export type Template = Schemas["Template"];
export type Plan = Schemas["Plan"];
export type Receipt = Schemas["DeletionReceipt"];
export type Why = Schemas["Why"];
export type Freeze = Schemas["Freeze"];
export type Health = Schemas["Health"];
export type Phase = Schemas["Phase"];
export type Reconciliation = Schemas["Reconciliation"];
export type Permission = Schemas["Permission"];
export type Role = Schemas["Role"];
export type Session = Schemas["Session"];
export type Member = Schemas["Member"];
export type Invitation = Schemas["Invitation"];
export type NewInvitation = Schemas["NewInvitation"];
export type Provider = Schemas["Provider"];
export type Budget = Schemas["Budget"];
export type CostReport = Schemas["CostReport"];
export type Overview = Schemas["Overview"];
export type Need = Schemas["Need"];
export type Invoice = Schemas["Invoice"];
export type LineExplanation = Schemas["LineExplanation"];
