// Somebody is invited, joins with the link alone, does what the role allows, and is out when removed.
import assert from "node:assert/strict";

import { fresh } from "../support/api.ts";
import { open, ORG } from "../support/browser.ts";
import { journey } from "../support/journey.ts";

journey("an invitation is accepted, and removal ends the session", async ({ page }) => {
  const email = `${fresh("developer")}@example.com`;
  await page.goto(`/orgs/${ORG}/members`);
  await page.getByRole("button", { name: "Invite" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("E-mail").fill(email);
  await dialog.getByRole("button", { name: "Invite" }).click();
  const link = await dialog.getByText(/\/accept#/).innerText();

  const browser = page.context().browser();
  assert.ok(browser);
  const context = await open(browser);
  const guest = await context.newPage();
  await guest.goto(link);
  await guest.getByLabel("Name").fill("A Developer");
  assert.ok(!guest.url().includes("#"), "the code does not stay in the address");
  await guest.getByLabel("New password").fill("correct horse battery staple");
  await guest.getByRole("button", { name: "Join" }).click();
  await guest.waitForURL(`**/orgs/${ORG}`);
  await guest.goto(`/orgs/${ORG}/members`);
  await guest.getByText("you", { exact: true }).waitFor();
  const denied = guest.getByRole("button", { name: "Invite" });
  assert.match((await denied.getAttribute("title")) ?? "", /needs the permission manage_members/);

  await page.keyboard.press("Escape");
  const row = page.getByRole("row").filter({ hasText: email });
  await row.getByRole("button", { name: "Remove" }).click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await row.waitFor({ state: "detached" });
  await guest.getByText("Your session ended.").waitFor();
  await context.close();
});
