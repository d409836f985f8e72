// What a role may not do is shown with its reason; what ends a session says so; what people type is text.
import assert from "node:assert/strict";

import { call, fresh } from "../support/api.ts";
import { ORG, signIn } from "../support/browser.ts";
import { journey } from "../support/journey.ts";
import { PAYLOADS } from "../support/payloads.ts";

interface Token {
  id: string;
  secret: string;
}

journey("a viewer sees why actions are off, and a revoked token signs out", async ({ page }) => {
  const viewer = await call<Token>("POST", "/v1/tokens", { name: fresh("viewer"), role: "viewer" });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL("**/sign-in");
  await signIn(page, viewer.secret);
  await page.goto(`/orgs/${ORG}/projects/shop/services/storefront`);
  const restart = page.getByRole("button", { name: /Restart/ });
  assert.match((await restart.getAttribute("title")) ?? "", /needs the permission manage_services/);
  assert.equal(await restart.getAttribute("aria-disabled"), "true");
  await page.goto(`/orgs/${ORG}/tokens`);
  await page.getByText("You may not see the tokens of this org.").waitFor();
  await call("DELETE", `/v1/tokens/${viewer.id}`);
  await page.getByText("Your session ended.").waitFor();
});

journey("a wrong token gets one uniform answer, and a link returns after signing in", async ({ page }) => {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL("**/sign-in");
  await page.goto(`/orgs/${ORG}/drift`);
  await page.waitForURL("**/sign-in?next=*");
  await page.getByRole("link", { name: /token/ }).click();
  await page.getByLabel("Token").fill("tu_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This token is not valid").waitFor();
});

journey("text of others is shown as text", async ({ page }) => {
  await page.exposeFunction("attacked", (what: string) => assert.fail(`script ran: ${what}`));
  const variables = Object.fromEntries(PAYLOADS.map((payload, at) => [`P${at}`, payload]));
  const name = fresh("text");
  const at = `/v1/projects/shop/services/${name}`;
  await call("PUT", at, { template: "worker@1", parameters: { image: "mailer:2.1", args: PAYLOADS, variables } });
  for (const payload of PAYLOADS.slice(0, 3)) await call("POST", `${at}/freeze`, { reason: payload.slice(0, 200) });
  for (const tab of ["", "/why", "/releases", "/events", "/settings", "/edit"]) {
    await page.goto(`/orgs/${ORG}/projects/shop/services/${name}${tab}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.waitForFunction(() => document.querySelector(".shimmer") === null);
    assert.equal(await page.evaluate(() => document.querySelectorAll("[data-payload], main img, main iframe, main object, main embed").length), 0, tab);
  }
  for (const payload of PAYLOADS) {
    await page.goto(`/orgs/${ORG}/services?search=${encodeURIComponent(payload.slice(0, 40))}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
  }
  await call("POST", `${at}/unfreeze`, {});
  await call("DELETE", at);
});
