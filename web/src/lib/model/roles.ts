// What each role is for, in one sentence.
import type { Role } from "../api/types";

export const ROLE_WORDS: Record<Role, string> = {
  viewer: "Reads services, events and statuses.",
  billing: "Reads what the org pays.",
  developer: "Reads and changes services, variables and secrets.",
  admin: "Runs services and projects without seeing their content.",
  owner: "May do everything in this org.",
  auditor: "Reads every org and the platform, without the content of services.",
  operator: "Operates the platform.",
};
