// The stream is cut and resumes without loss, says so meanwhile, and is one for all tabs.
import assert from "node:assert/strict";

import { call, fresh } from "../support/api.ts";
import { ORG } from "../support/browser.ts";
import { journey } from "../support/journey.ts";

journey("a cut is said at once, and after it nothing is missing", async ({ page, wire }) => {
  const name = fresh("offline");
  await page.goto(`/orgs/${ORG}/events`);
  const strip = page.getByRole("contentinfo", { name: "Connection" });
  await strip.getByText(/^● live|live \d+s/).waitFor();
  wire.cut();
  await strip.getByText(/not live: as of/).waitFor();
  await strip.getByText(/retry in \d+s/).waitFor();
  const at = `/v1/projects/shop/services/${name}`;
  await call("PUT", at, { template: "worker@1", parameters: { image: "mailer:2.1" } });
  wire.mend();
  await strip.getByRole("button", { name: "retry now" }).click();
  await strip.getByText(/live \d+s/).waitFor();
  await page.getByRole("link", { name: `shop/${name}` }).first().waitFor();
  await call("DELETE", at);
}, { wired: true });

journey("tabs share one stream, and the next one takes it over", async ({ page, context }) => {
  let streams = 0;
  context.on("request", (request) => {
    if (request.url().includes("/v1/events/watch")) streams += 1;
  });
  await page.goto(`/orgs/${ORG}`);
  const live = /live \d+s/;
  await page.getByRole("contentinfo", { name: "Connection" }).getByText(live).waitFor();
  const tabs = [];
  for (let at = 0; at < 6; at += 1) {
    const tab = await context.newPage();
    await tab.goto(`/orgs/${ORG}/services`);
    await tab.getByRole("contentinfo", { name: "Connection" }).getByText(live).waitFor();
    tabs.push(tab);
  }
  assert.equal(streams, 1);
  await page.close();
  const next = tabs[0];
  assert.ok(next);
  await next.bringToFront();
  // An event reaches every tab over the stream that one of the others opened.
  const name = fresh("shared");
  const at = `/v1/projects/shop/services/${name}`;
  await call("PUT", at, { template: "worker@1", parameters: { image: "mailer:2.1" } });
  for (const tab of tabs) await tab.getByText(/\d+ new: show/).waitFor();
  assert.equal(streams, 2);
  await call("DELETE", at);
});
