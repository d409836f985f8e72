// What each role is for, in one sentence.
import type { Role } from "../api/types";

/** The roles that can be given in a single project. */
export const OF_PROJECT: Role[] = ["viewer", "developer", "admin"];

export const ROLE_WORDS: Record<Role, string> = {
  member: "Belongs to the org and does what roles in projects allow.",
  viewer: "Reads services, events and statuses.",
  billing: "Reads what the org pays.",
  developer: "Reads and changes services, variables and secrets.",
  admin: "Runs services and projects without seeing their content.",
  owner: "May do everything in this org.",
  auditor: "Reads every org and the platform, without the content of services.",
  operator: "Operates the platform.",
};
