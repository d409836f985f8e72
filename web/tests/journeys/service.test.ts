// Create a service, watch it become true, break it with kubectl, see it named and repaired, delete it and
// read the receipt.
import assert from "node:assert/strict";

import { call, fresh, kubectl, withoutKubectl } from "../support/api.ts";
import { ORG } from "../support/browser.ts";
import { journey } from "../support/journey.ts";

interface Service {
  namespace: string;
  object_name: string;
}

journey("a service is created, watched, broken, repaired and deleted with its receipt", async ({ page }) => {
  const name = fresh("journey");
  await page.getByRole("link", { name: "New service" }).first().click();
  await page.getByRole("link", { name: /^web@/ }).click();
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Project").fill("shop");

  // Nothing is accepted before the preview says what it would do.
  const preview = page.getByRole("region", { name: "Preview" });
  await preview.getByText("Fill in Image to see what would be created.").waitFor();
  await page.getByLabel("Image").fill("nginx:1.27");
  await page.getByLabel(/^Replicas/).fill("21");
  await page.getByLabel(/^Replicas/).blur();
  await page.getByText(/at most 20|20/).and(page.locator(".text-bad")).first().waitFor();
  await page.getByLabel(/^Replicas/).fill("2");
  await preview.getByText("8.76 EUR").first().waitFor();
  await preview.getByText("Deployment").first().waitFor();
  await page.getByRole("button", { name: "Accept generation 1" }).click();

  // Accepted is said as accepted, and then seen becoming true.
  await page.waitForURL(`**/orgs/${ORG}/projects/shop/services/${name}`);
  await page.getByText("The cluster carries generation 1.").waitFor();
  await page.getByRole("main").getByText("healthy").first().waitFor();

  const { namespace, object_name } = await call<Service>("GET", `/v1/projects/shop/services/${name}`);
  await kubectl("--namespace", namespace, "scale", "deployment", object_name, "--replicas=5");
  const events = page.getByRole("region", { name: "Events" });
  await events.getByText(/edited by others/).first().waitFor();
  await events.getByText(/spec\.replicas/).first().waitFor();
  await events.getByText("drift reverted").first().waitFor();
  const replicas = await kubectl("--namespace", namespace, "get", "deployment", object_name, "--output", "jsonpath={.spec.replicas}");
  assert.equal(replicas, "2");

  // Destructive: apart, by name, and it ends with proof.
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: `Delete ${name}` }).click();
  const dialog = page.getByRole("dialog");
  const remove = dialog.getByRole("button", { name: `Delete ${name}` });
  await dialog.getByText("pods end, disks are removed").waitFor();
  assert.equal(await remove.getAttribute("aria-disabled"), "true");
  await dialog.getByRole("textbox").fill(name);
  await remove.click();
  const receipt = dialog.getByRole("region", { name: "Deletion receipt" });
  await receipt.getByText("API absence: the cluster has no object under any of these keys").waitFor();
  await receipt.getByText(/objects verified absent/).waitFor();
}, { skip: await withoutKubectl() });
