// Types of sign-in and members, which another branch adds to the OpenAPI document; they become generated ones.
import type { Schemas } from "./types";

export type RoleName = Schemas["Role"] | "billing" | "admin" | "auditor";
export type PermissionName = Schemas["Permission"] | "read_content" | "read_billing" | "manage_members" | "read_platform";

export interface Member {
  id: string;
  name: string;
  email: string;
  role: RoleName;
  joined_at: string;
}

export interface Invitation {
  id: string;
  email: string;
  role: RoleName;
  created_at: string;
  expires_at: string;
}

export interface NewInvitation extends Invitation {
  code?: string;
}
