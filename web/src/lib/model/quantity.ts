// Quantities of usage in units for people; the exact ones belong into the title.

/** The name of what is charged: `pod:small` is `pods, small`. */
export function itemName(item: string): string {
  const [meter = item, plan] = item.split(":", 2);
  const names: Record<string, string> = { pod: "pods", disk_gib: "disk" };
  const name = names[meter] ?? meter.replaceAll("_", " ");
  return plan ? `${name}, ${plan}` : name;
}

/** `910.666509` of `pod-second` is `0.253 pod-hours`. */
export function quantityText(quantity: string | number, unit: string): string {
  const amount = Number(quantity);
  if (!unit.endsWith("-second")) return `${places(amount)} ${amount === 1 ? unit : `${unit}s`}`;
  return `${places(amount / 3600)} ${unit.slice(0, -"second".length)}hours`;
}

/** The quantity as it was measured. */
export function exactQuantity(quantity: string | number, unit: string): string {
  return `${quantity} ${unit}s`;
}

/** Three digits that count, and never more than needed: `0.253`, `12.4`, `2,190`. */
function places(value: number): string {
  if (value !== 0 && Math.abs(value) < 0.001) return "<0.001";
  const digits = Math.abs(value) >= 100 ? 0 : 3;
  return digits === 0
    ? Math.round(value).toLocaleString("en")
    : value.toLocaleString("en", { maximumSignificantDigits: digits });
}
