// The API client: every path, parameter, body and answer is typed by the OpenAPI document.
import createClient, { type Client } from "openapi-fetch";

import type { components, paths } from "./api.js";

export type Schemas = components["schemas"];
export type Service = Schemas["Service"];
export type Problem = Schemas["Problem"];
/** One fact of the event log; narrow it by `type`. */
export type EventData = Schemas["EventData"];

/** A client for the server at `url`, with a bearer token. */
export function connect(url: string, token: string): Client<paths> {
  return createClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${token}` } });
}
