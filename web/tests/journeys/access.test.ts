// What a role may not do is shown with its reason, and what ends a session says so.
import assert from "node:assert/strict";

import { call, fresh } from "../support/api.ts";
import { ORG, signIn } from "../support/browser.ts";
import { journey } from "../support/journey.ts";

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
