import { expect, test } from "vitest";

import { exactQuantity, itemName, quantityText } from "./quantity";

test("items are named for people", () => {
  expect(["pod:small", "disk_gib:gpu", "egress_bytes", "fee:team"].map(itemName)).toEqual(["pods, small", "disk, gpu", "egress bytes", "fee, team"]);
});

test("seconds are shown as hours with three digits, and the exact quantity beside them", () => {
  const pods = (quantity: string) => quantityText(quantity, "pod-second");
  expect(["910.666509", "1", "44640", "7884000", "0"].map(pods)).toEqual([
    "0.253 pod-hours",
    "<0.001 pod-hours",
    "12.4 pod-hours",
    "2,190 pod-hours",
    "0 pod-hours",
  ]);
  expect(quantityText("4359.55204", "GiB-second")).toBe("1.21 GiB-hours");
  expect(quantityText("1", "month")).toBe("1 month");
  expect(quantityText("2048", "byte")).toBe("2,048 bytes");
  expect(exactQuantity("910.666509", "pod-second")).toBe("910.666509 pod-seconds");
});
