// What people and other writers type is text wherever it is shown (attack S48): thirty payloads in names,
// reasons, addresses, variables, arguments and the name of a field manager.
import assert from "node:assert/strict";

import type { Page } from "playwright-core";

import { call, fresh, kubectl, withoutKubectl } from "../support/api.ts";
import { ORG } from "../support/browser.ts";
import { journey } from "../support/journey.ts";
import { asOperator } from "../support/operator.ts";
import { PAYLOADS } from "../support/payloads.ts";

interface Service {
  namespace: string;
  object_name: string;
}

const org = `/orgs/${ORG}`;
const attacked = "[data-payload], main img, main iframe, main object, main embed";

/** Opens pages; most of them show payloads, and none may become an element. */
async function look(page: Page, paths: string[]): Promise<void> {
  let shown = 0;
  for (const path of paths) {
    await page.goto(path);
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    await page.waitForFunction(() => document.querySelector(".shimmer") === null);
    assert.equal(await page.evaluate((of) => document.querySelectorAll(of).length, attacked), 0, path);
    if ((await page.locator("main").innerText()).includes("attacked(")) shown += 1;
  }
  assert.ok(shown >= paths.length / 2, `payloads are on ${shown} of ${paths.length} pages`);
}

/** Fails if a payload runs. */
async function trap(page: Page): Promise<void> {
  await page.exposeFunction("attacked", (what: string) => assert.fail(`script ran: ${what}`));
}

journey("text of a service is shown as text", async ({ page }) => {
  await trap(page);
  const variables = Object.fromEntries(PAYLOADS.map((payload, at) => [`P${at}`, payload]));
  const name = fresh("text");
  const at = `/v1/projects/shop/services/${name}`;
  await call("PUT", at, { template: "worker@1", parameters: { image: "mailer:2.1", args: PAYLOADS, variables } });
  for (const payload of PAYLOADS) await call("POST", `${at}/freeze`, { reason: payload.slice(0, 200) });
  const service = `${org}/projects/shop/services/${name}`;
  await page.goto(service);
  await page.getByText("The cluster carries generation 1.").waitFor();
  const { namespace, object_name } = await call<Service>("GET", at);
  for (const [replicas, manager] of PAYLOADS.slice(0, 5).entries()) {
    await kubectl("--namespace", namespace, "scale", "deployment", object_name, `--replicas=${replicas + 2}`, "--field-manager", manager.slice(0, 120)).catch(() => undefined);
  }
  const searches = PAYLOADS.slice(0, 6).map((payload) => `${org}/services?search=${encodeURIComponent(payload.slice(0, 40))}`);
  const tabs = ["", "/why", "/releases", "/events", "/history", "/settings", "/edit", "/cost"];
  await look(page, [...tabs.map((tab) => service + tab), `${org}/drift?ended`, `${org}/events`, ...searches]);
  await call("POST", `${at}/unfreeze`, {});
  await call("DELETE", at);
}, { skip: await withoutKubectl() });

journey("text of people and of the bill is shown as text", async ({ page }) => {
  await trap(page);
  const tokens = [];
  for (const name of PAYLOADS) tokens.push(call<{ id: string }>("POST", "/v1/tokens", { name: name.slice(0, 60), role: "viewer" }).catch(() => undefined));
  const made = (await Promise.all(tokens)).filter((one) => one !== undefined);
  assert.ok(made.length >= 10, "most payloads are names that the server accepts");
  for (const reason of PAYLOADS.slice(0, 10)) await asOperator(ORG, "POST", "/v1/credits", { micros: 1, currency: "EUR", reason });
  const account = await call<Record<string, unknown>>("GET", "/v1/billing-account");
  await asOperator(ORG, "PUT", "/v1/billing-account", { ...account, legal_name: PAYLOADS[0], address: PAYLOADS.slice(1, 4).join(" ") });
  const invitation = await call<{ code: string; email: string }>("POST", "/v1/invitations", { email: `${fresh("guest")}@example.com`, role: "viewer" });
  const guest = { code: invitation.code, name: PAYLOADS[1], password: "correct horse battery staple" };
  const member = await call<{ principal: { id: string } }>("POST", "/v1/invitations/accept", guest).catch(() => undefined);
  await look(page, [`${org}/tokens`, `${org}/members`, `${org}/billing/account`, `${org}/billing/invoices`, `${org}/events`, org]);
  await asOperator(ORG, "PUT", "/v1/billing-account", account);
  for (const token of made) await call("DELETE", `/v1/tokens/${token.id}`);
  if (member) await call("DELETE", `/v1/members/${member.principal.id}`);
});
