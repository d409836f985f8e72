// A real identity provider for tests: the package oidc-provider, with people that the test declares.
//
// It signs in whoever the request hints at (`login_hint`), without asking. `/_test/…` changes what it knows: people,
// keys, the clock, and whether it answers at all. Run with JSON of { redirect_uri, now }; prints its issuer.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const options = JSON.parse(process.argv[2]);
const people = new Map();
let silent = false;

// The provider and Trueup agree about the time, whichever clock the test has.
const realNow = Date.now;
let offset = options.now ? options.now * 1000 - realNow() : 0;
Date.now = () => realNow() + offset;

// Everything is in memory, and outlives a change of keys.
const stored = new Map();
class Memory {
  constructor(model) {
    this.model = model;
  }
  key(id) {
    return `${this.model}:${id}`;
  }
  async upsert(id, payload) {
    stored.set(this.key(id), payload);
  }
  async find(id) {
    return stored.get(this.key(id));
  }
  async findByUid(uid) {
    for (const [key, payload] of stored) if (key.startsWith(`${this.model}:`) && payload.uid === uid) return payload;
    return undefined;
  }
  async findByUserCode() {
    return undefined;
  }
  async consume(id) {
    stored.get(this.key(id)).consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    stored.delete(this.key(id));
  }
  async revokeByGrantId(grantId) {
    for (const [key, payload] of stored) if (payload.grantId === grantId) stored.delete(key);
  }
}

function signingKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "RS256" };
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const cookieKey = randomUUID();
let provider = withKeys([signingKey()]);

function withKeys(keys) {
  const made = new Provider(issuer, {
    adapter: Memory,
    clients: [
      {
        client_id: "trueup",
        client_secret: "the secret of a client",
        redirect_uris: [options.redirect_uri],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
      },
    ],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
    cookies: { keys: [cookieKey] },
    features: { devInteractions: { enabled: false } },
    findAccount: (_, sub) =>
      people.has(sub) ? { accountId: sub, claims: async () => ({ sub, ...people.get(sub) }) } : undefined,
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    jwks: { keys },
    pkce: { required: () => true },
    ttl: { AccessToken: 3600, Grant: 86400, IdToken: 3600, Interaction: 600, RefreshToken: 86400, Session: 86400 },
  });
  made.on("server_error", (_, error) => console.error(error));
  return made;
}

/** Signs in whoever is hinted at, and consents to everything. */
async function interact(request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    const wanted = [...people].find(([, person]) => person.email === params.login_hint);
    const result = wanted
      ? { login: { accountId: wanted[0] } }
      : { error: "access_denied", error_description: "nobody has this address" };
    return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  }
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(" "));
  if (prompt.details.missingOIDCClaims) grant.addOIDCClaims(prompt.details.missingOIDCClaims);
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString() || "{}");
}

/** What a test changes. */
async function change(path, request) {
  const [what, sub] = path.split("/");
  if (what === "people" && request.method === "DELETE") people.delete(sub);
  else if (what === "people") people.set(sub, await body(request));
  else if (what === "clock") offset = (await body(request)).now * 1000 - realNow();
  else if (what === "keys") provider = withKeys([signingKey()]);
  else if (what === "silent") silent = (await body(request)).silent;
  else throw new Error(`no such change: ${path}`);
}

async function answer(request, response) {
  if (request.url.startsWith("/_test/")) {
    await change(request.url.slice("/_test/".length), request);
    return void response.end();
  }
  if (silent) return void request.socket.destroy();
  if (request.url.startsWith("/interaction/")) return interact(request, response);
  return provider.callback()(request, response);
}

console.log(issuer);
// Whoever started it is gone when its end of the pipe is closed.
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
