// For `npm run dev` and `npm run preview` only: signs in with the token in TRUEUP_TOKEN, in front of a
// server whose cookies do not reach another port. Nothing of this is in the build.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Connect, Plugin } from "vite";

interface Whoami {
  token: string;
  name: string;
  role: string;
  permissions: string[];
  org: { id: string; name: string } | null;
  expires_at: string | null;
}

export function devSession(server: string): Plugin {
  let token = process.env["TRUEUP_TOKEN"];

  async function session(response: ServerResponse): Promise<void> {
    const headers = { authorization: `Bearer ${token ?? ""}` };
    const answer = await fetch(`${server}/v1/whoami`, { headers });
    response.statusCode = answer.status;
    response.setHeader("content-type", "application/json");
    if (!answer.ok) {
      response.end(await answer.text());
      return;
    }
    const who = (await answer.json()) as Whoami;
    const orgs = who.org ? [who.org] : await list(headers);
    const body = {
      principal: { id: who.token, name: who.name, email: null },
      org: who.org,
      orgs: orgs.map((org) => ({ ...org, role: who.role })),
      role: who.role,
      permissions: who.permissions,
      expires_at: who.expires_at,
    };
    response.end(JSON.stringify(body));
  }

  async function list(headers: Record<string, string>): Promise<{ id: string; name: string }[]> {
    const answer = await fetch(`${server}/v1/orgs`, { headers });
    return ((await answer.json()) as { items: { id: string; name: string }[] }).items;
  }

  const handle: Connect.NextHandleFunction = (request, response, next) => {
    const path = request.url?.split("?")[0];
    if (path === "/v1/session/token" && request.method === "POST") {
      void body(request).then((text) => {
        token = (JSON.parse(text) as { token: string }).token;
        return session(response);
      });
    } else if (path === "/v1/session" && request.method === "DELETE") {
      token = undefined;
      response.statusCode = 204;
      response.end();
    } else if (path === "/v1/session") {
      void session(response);
    } else {
      if (token && path?.startsWith("/v1/")) request.headers.authorization = `Bearer ${token}`;
      next();
    }
  };

  return {
    name: "dev-session",
    configureServer: (vite) => void vite.middlewares.use(handle),
    configurePreviewServer: (vite) => void vite.middlewares.use(handle),
  };
}

async function body(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}
