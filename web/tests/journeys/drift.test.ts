// A value that another writer set is adopted: a verdict by a person, with their name on a new generation.
import assert from "node:assert/strict";

import { call, fresh, kubectl, withoutKubectl } from "../support/api.ts";
import { ORG } from "../support/browser.ts";
import { journey } from "../support/journey.ts";

interface Service {
  namespace: string;
  object_name: string;
  generation: number;
  parameters: { replicas?: number };
  status: { applied_generation?: number };
}

journey("a live value is adopted as the desired one", async ({ page }) => {
  const name = fresh("adopted");
  const at = `/v1/projects/shop/services/${name}`;
  const drift = { rules: [{ path: "spec.replicas", verdict: "ignore" }] };
  await call("PUT", at, { template: "web@1", parameters: { image: "nginx:1.27", replicas: 2 }, drift });
  await page.goto(`/orgs/${ORG}/projects/shop/services/${name}`);
  await page.getByText("The cluster carries generation 1.").waitFor();
  const { namespace, object_name } = await call<Service>("GET", at);
  await kubectl("--namespace", namespace, "scale", "deployment", object_name, "--replicas=3");

  await page.getByRole("link", { name: "Drift", exact: true }).click();
  const row = page.getByRole("row").filter({ hasText: name });
  await row.getByText("kubectl").waitFor();
  await row.getByText("ignored").waitFor();
  await row.getByRole("button", { name: "Adopt" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("generation 2").waitFor();
  await dialog.getByRole("button", { name: "Adopt 3" }).click();
  await row.waitFor({ state: "detached" });

  await page.goto(`/orgs/${ORG}/projects/shop/services/${name}/releases`);
  await page.getByText("generation 2").waitFor();
  await page.getByText("= applied").waitFor();
  const adopted = await call<Service>("GET", at);
  assert.deepEqual([adopted.generation, adopted.parameters.replicas], [2, 3]);
  await call("DELETE", at);
}, { skip: await withoutKubectl() });
