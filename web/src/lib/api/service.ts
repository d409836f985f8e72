// Operations of one service: each has a preview, and each may be retried with its key.
import { path, write } from "./client";
import type { Preview, Service } from "./types";

export type Operation =
  | "scale"
  | "resize"
  | "restart"
  | "pause"
  | "resume"
  | "rollback"
  | "hours"
  | "freeze"
  | "unfreeze"
  | "reconcile"
  | "force-delete";

/** A write that can be tried before: what it is for, and how it is sent. */
export interface Change {
  preview: (signal: AbortSignal) => Promise<Preview>;
  send: (key: string) => Promise<unknown>;
}

export function servicePath(project: string, service: string): string {
  return path`/v1/projects/${project}/services/${service}`;
}

export function operate(of: Pick<Service, "project" | "name">, operation: Operation, body: unknown = {}): Change {
  return change("POST", `${servicePath(of.project, of.name)}/${operation}`, body);
}

export function change(
  method: "POST" | "PUT" | "PATCH" | "DELETE",
  at: string,
  body?: unknown,
  query?: Record<string, string>,
): Change {
  const extra = query ? { query } : {};
  return {
    preview: (signal) => write<Preview>(method, at, body, { dryRun: true, signal, ...extra }),
    send: (key) => write<unknown>(method, at, body, { key, ...extra }),
  };
}
