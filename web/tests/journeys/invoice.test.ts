// An invoice is opened down to an interval of usage and the observations behind it; on each level the parts
// come to the whole.
import assert from "node:assert/strict";

import { itemName } from "../../src/lib/model/quantity.ts";
import { ORG } from "../support/browser.ts";
import { journey } from "../support/journey.ts";
import { OPERATOR } from "../support/operator.ts";
import { someInvoice } from "../support/invoice.ts";

const skip = OPERATOR ? false : "no operator's token to issue an invoice with";

journey("an invoice is opened down to an interval and its transitions", async ({ page }) => {
  const invoice = await someInvoice();
  await page.goto(`/orgs/${ORG}/billing`);
  await page.getByRole("link", { name: "Invoices" }).click();
  await page.getByRole("link", { name: invoice.number }).click();
  await page.getByRole("heading", { level: 1, name: invoice.number }).waitFor();
  const lines = page.getByRole("region", { name: "Lines" });
  await lines.getByText(invoice.due.text).last().waitFor();
  await lines.getByRole("link", { name: "evidence" }).first().click();

  const line = invoice.lines[0];
  assert.ok(line);
  await page.getByRole("heading", { level: 1, name: itemName(line.item) }).waitFor();
  const together = page.getByRole("region", { name: "Intervals of usage" }).getByRole("row").last();
  await together.getByText(line.amount.text).waitFor();
  await page.getByText("computed again: the same").waitFor();
  await page.getByRole("region", { name: "Transitions behind it" }).getByText("started", { exact: true }).or(page.getByText("bound", { exact: true })).or(page.getByText("appeared", { exact: true })).first().waitFor();
}, { skip });
